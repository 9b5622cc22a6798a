import type { DatabaseSync } from 'node:sqlite';
import { HISTORY_LIMIT_MAX } from '../contract/memory-lifecycle.ts';
import type { Clock } from '../core/clock.ts';
import type { ClaimStore, MemoryDraft, MemoryStore, Reader, SessionStore } from '../core/memory-store.ts';
import type { MemoryTransfer } from '../core/memory-transfer.ts';
import { createClaimStore } from './claim-store.ts';
import { type Adoption, adoptDatabase } from './memory-adopt.ts';
import { historyOf } from './memory-history.ts';
import { createMemoryIndex, type MemoryIndex } from './memory-index.ts';
import { listAuthors, listMemories, purgeMemories, recoverMemory } from './memory-lifecycle.ts';
import { type Access, createAccess } from './memory-store-access.ts';
import { rankMemories, recallMemories } from './memory-store-recall.ts';
import { memoryMigrations } from './memory-store-schema.ts';
import { selectMemories, viewOf, visibleTo } from './memory-store-scope.ts';
import { createSessionStore } from './memory-store-session.ts';
import { byId, changeMemory, forgetMemory, insertMemory } from './memory-store-write.ts';
import { createMemoryTransfer } from './memory-transfer.ts';
import { createMemoryVectors, type MemoryVectors } from './memory-vectors.ts';
import { cachedStatement, closeDatabase, openDatabase } from './sqlite.ts';
import { createTranscriptStores, type TranscriptStores } from './transcript-stores.ts';

export interface OpenedMemoryStores extends TranscriptStores {
  readonly memories: MemoryStore;
  readonly claims: ClaimStore;
  readonly sessions: SessionStore;
  readonly transfer: MemoryTransfer;
  readonly vectors: MemoryVectors;
  /** What was taken over of an existing daemon's database just now, or why it could not be: the next start tries again. */
  readonly adopted: Adoption | { readonly fault: unknown } | undefined;
  close(): void;
}

/**
 * Open `memory.db`: memories, session claims and what sessions leave behind. The caller closes.
 *
 * @param existing  database of an existing daemon whose memories are taken over at the first start, if it is there
 * @throws AppError storage_corrupt, storage_version, workspace_unwritable, storage_failed
 */
export function openMemoryStores(path: string, clock: Clock, existing?: string): OpenedMemoryStores {
  const db = openDatabase(path, { synchronous: 'NORMAL', migrations: memoryMigrations });
  const adopted = existing === undefined ? undefined : tryAdopt(db, existing, clock.now());
  const index = createMemoryIndex(db);
  const access = createAccess(db, path, clock, index.refresh);
  const vectors = createMemoryVectors(access, index);
  return {
    memories: createMemoryStore(access, index, vectors),
    vectors,
    claims: createClaimStore(access),
    sessions: createSessionStore(access),
    ...createTranscriptStores(access),
    transfer: createMemoryTransfer(access),
    adopted,
    close: () => {
      index.close();
      access.close();
      closeDatabase(db);
    },
  };
}

/** A database that cannot be read is no reason not to start. */
function tryAdopt(db: DatabaseSync, existing: string, nowMs: number): OpenedMemoryStores['adopted'] {
  try {
    return adoptDatabase(db, existing, nowMs);
  } catch (fault) {
    return { fault };
  }
}

function createMemoryStore(access: Access, index: MemoryIndex, vectors: MemoryVectors): MemoryStore {
  const { db, clock, read, write } = access;
  const visible = (reader: Reader, id: string) => selectMemories(db, { scope: visibleTo(reader), where: [byId(id)], limit: 1 })[0]?.memory;
  return {
    remember: (draft) => write(() => insertMemory(db, withPredecessor(index, draft, clock.now()), clock.now())),
    recall: (reader, query) => read(() => recallMemories({ db, index, vectors }, reader, query, clock.now())),
    ranked: (reader, ranking) => read(() => rankMemories(db, reader, ranking, clock.now()).map((row) => row.memory)),
    get: (reader, id) => read(() => visible(reader, id)),
    list: (reader, page) => read(() => listMemories(db, reader, page, index.visible(reader))),
    authors: (reader, filter) => read(() => listAuthors(db, reader, filter)),
    history: (reader, id, limit) => read(() => (visible(reader, id) ? historyOf(db, id, limit ?? HISTORY_LIMIT_MAX) : [])),
    change: (reader, id, change, note) => write(() => changeMemory(db, reader, id, change, note, clock.now())),
    forget: (reader, id, note) => write(() => forgetMemory(db, reader, id, note, clock.now())),
    recover: (reader, id, note) => write(() => recoverMemory(db, reader, id, note, clock.now())),
    purge: (limit) => write(() => purgeMemories(db, limit, clock.now())),
    indexStatus: () => index.status(),
    count: () => read(() => countMemories(db, index)),
  };
}

/** What says the same of another time is linked to what it takes the place of; a link the writer names goes first. */
function withPredecessor(index: MemoryIndex, draft: MemoryDraft, nowMs: number): MemoryDraft {
  if (draft.supersedes !== undefined) return draft;
  const { content, who, agentId, project = null, createdAtMs = nowMs } = draft;
  const supersedes = index.predecessor(viewOf(draft)!, { content, who, agentId, project, createdAtMs });
  return supersedes === undefined ? draft : { ...draft, supersedes };
}

/** Asks the database in any case: whoever wants the number wants to know as well that it answers. */
function countMemories(db: DatabaseSync, index: MemoryIndex): number {
  const { state, memories } = index.status();
  if (state === 'ready' && cachedStatement(db, 'SELECT 1 FROM memories LIMIT 1').all().length <= memories) return memories;
  // Two counts that read indexes alone: one over both conditions would read every memory.
  const sql = `SELECT (SELECT count(*) FROM memories WHERE deleted_at IS NULL)
    - (SELECT count(*) FROM memories INDEXED BY memories_archived WHERE deleted_at IS NULL AND scope = 'archived') AS n`;
  return Number(cachedStatement(db, sql).get()?.n);
}
