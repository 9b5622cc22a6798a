import type { DatabaseSync } from 'node:sqlite';
import { HISTORY_LIMIT_MAX } from '../contract/memory-lifecycle.ts';
import type { AgentMemories } from '../core/agent-memories.ts';
import { OPEN_POLICIES, type ReadPolicies } from '../core/agent-policy.ts';
import type { Owner } from '../core/caller-scope.ts';
import type { Clock } from '../core/clock.ts';
import type { MessageLimits, MessageStore, PresenceStore } from '../core/cross-agent.ts';
import type { DocumentStore } from '../core/document.ts';
import type { ClaimStore, MemoryDraft, MemoryStore, Reader, SessionStore } from '../core/memory-store.ts';
import type { MemoryTransfer } from '../core/memory-transfer.ts';
import { createAgentMemories } from './agent-memories.ts';
import { createClaimStore } from './claim-store.ts';
import { createMessageStore } from './cross-agent-messages.ts';
import { createPresenceStore } from './cross-agent-presence.ts';
import { createDocumentStore, recoverDocuments } from './document-store.ts';
import type { MarkFinding } from './high-water-mark.ts';
import { createKeyOwners } from './key-owners.ts';
import { beginAdoption } from './memory-adopt.ts';
import { createAdoption, type StoreAdoption } from './memory-adoption.ts';
import { historyOf } from './memory-history.ts';
import { createMemoryIndex, type MemoryIndex } from './memory-index.ts';
import { listAuthors, listMemories, purgeMemories, recoverMemory } from './memory-lifecycle.ts';
import { type Access, createAccess } from './memory-store-access.ts';
import { underReadPolicies } from './memory-store-policy.ts';
import { rankMemories, recallMemories } from './memory-store-recall.ts';
import { memoryMigrations } from './memory-store-schema.ts';
import { selectMemories, visibleTo } from './memory-store-scope.ts';
import { createSessionStore } from './memory-store-session.ts';
import { byId, changeMemory, forgetMemory, insertMemory } from './memory-store-write.ts';
import { createMemoryTransfer } from './memory-transfer.ts';
import { createMemoryVectors, type MemoryVectors } from './memory-vectors.ts';
import { dropPurgedWords } from './purged-words.ts';
import { cachedStatement, closeDatabase, openDatabase } from './sqlite.ts';
import { createTranscriptStores, type TranscriptStores } from './transcript-stores.ts';

/** Pages of memory.db that are kept in memory, as far as they are used: writes go all over the indexes. */
const CACHE_KIB = 8_192;

export interface OpenedMemoryStores extends TranscriptStores {
  readonly memories: MemoryStore;
  readonly claims: ClaimStore;
  readonly sessions: SessionStore;
  readonly presence: PresenceStore;
  readonly documents: DocumentStore;
  /** Who owns a session key. */
  readonly keyOwners: (key: string) => Promise<Owner[]>;
  /** Messages between agents; the limits are asked for at each call. */
  messages(limits: () => MessageLimits): MessageStore;
  readonly transfer: MemoryTransfer;
  /** What is kept of one agent as a whole. */
  readonly agents: AgentMemories;
  readonly vectors: MemoryVectors;
  /** The taking over of an existing daemon's database; undefined when there is none, or it was done before. */
  readonly adoption: StoreAdoption | undefined;
  /** Why the last write was refused by the disk; null when it was not. */
  writeFault(): string | null;
  /** What the start found when it compared the file with its mark. */
  readonly finding: MarkFinding;
  close(): void;
}

/**
 * Open `memory.db`: memories, session claims and what sessions leave behind. The caller closes.
 *
 * @param existing  database of an existing daemon whose memories are taken over at the first start, if it is there
 * @param policies  whose global memories an agent sees, asked for at each call
 * @throws AppError storage_corrupt, storage_version, workspace_unwritable, storage_failed
 */
export function openMemoryStores(
  path: string,
  clock: Clock,
  existing?: string,
  policies: () => ReadPolicies = () => OPEN_POLICIES,
): OpenedMemoryStores {
  const db = openDatabase(path, { synchronous: 'NORMAL', migrations: memoryMigrations });
  // What is purged is overwritten, not only unlinked.
  db.exec(`PRAGMA secure_delete = ON; PRAGMA cache_size = -${CACHE_KIB}; PRAGMA temp_store = MEMORY`);
  const begun = existing === undefined ? undefined : tryAdopt(db, existing, clock.now());
  recoverDocuments(db, clock.now());
  const index = createMemoryIndex(db, policies);
  const access = createAccess(db, path, clock, index.refresh);
  const adoption = begun && createAdoption(begun, access);
  const vectors = createMemoryVectors(access, index);
  const memories = createMemoryStore(access, index, vectors);
  return {
    ...underReadPolicies({ memories, sessions: createSessionStore(access), transfer: createMemoryTransfer(access) }, policies),
    agents: createAgentMemories(access),
    vectors,
    claims: createClaimStore(access),
    presence: createPresenceStore(access),
    keyOwners: createKeyOwners(access),
    documents: createDocumentStore(access, (draft) => withPredecessor(index, draft, clock.now()).supersedes),
    messages: (limits) => createMessageStore(access, limits),
    ...createTranscriptStores(access),
    adoption,
    writeFault: access.writeFault,
    finding: access.finding,
    close: () => {
      adoption?.close();
      index.close();
      access.close();
      closeDatabase(db);
      access.closeMark();
    },
  };
}

/** A database that cannot be read is no reason not to start. */
function tryAdopt(db: DatabaseSync, existing: string, nowMs: number): ReturnType<typeof beginAdoption> | { readonly fault: unknown } {
  try {
    return beginAdoption(db, existing, nowMs);
  } catch (fault) {
    return { fault };
  }
}

function createMemoryStore(access: Access, index: MemoryIndex, vectors: MemoryVectors): MemoryStore {
  const { db, clock, read, write } = access;
  const insert = insertInto(access, index);
  const visible = (reader: Reader, id: string) => selectMemories(db, { scope: visibleTo(reader), where: [byId(id)], limit: 1 })[0]?.memory;
  return {
    remember: (draft) => write(() => insert(draft), { isRepeatable: true }),
    recall: (reader, query) => read(() => recallMemories({ db, index, vectors }, reader, query, clock.now())),
    ranked: (reader, ranking) => read(() => rankMemories({ db, index }, reader, ranking, clock.now()).map((row) => row.memory)),
    get: (reader, id) => read(() => visible(reader, id)),
    list: (reader, page) => read(() => listMemories(db, reader, page, reader.within ? undefined : index.visible(reader), clock.now())),
    authors: (reader, filter) => read(() => listAuthors(db, reader, filter)),
    history: (reader, id, limit) => read(() => (visible(reader, id) ? historyOf(db, id, limit ?? HISTORY_LIMIT_MAX) : [])),
    change: (reader, id, change, note) => write(() => changeMemory(db, reader, id, change, note, clock.now())),
    forget: (reader, id, note) => write(() => forgetMemory(db, reader, id, note, clock.now())),
    recover: (reader, id, note) => write(() => recoverMemory(db, reader, id, note, clock.now())),
    purge: async (limit) => {
      const erased = await write(() => purgeMemories(db, limit, clock.now()));
      // Once, behind the last of many.
      if (erased > 0 && erased < limit) await dropPurgedWords(access);
      return erased;
    },
    indexStatus: () => index.status(),
    count: () => read(() => countMemories(db, index)),
  };
}

/** Inside a transaction of its caller. */
function insertInto({ db, clock }: Access, index: MemoryIndex) {
  return (draft: MemoryDraft) => insertMemory(db, withPredecessor(index, draft, clock.now()), clock.now());
}

/** What says the same of another time is linked to what it takes the place of; a link the writer names goes first. */
function withPredecessor(index: MemoryIndex, draft: MemoryDraft, nowMs: number): MemoryDraft {
  if (draft.supersedes !== undefined) return draft;
  const { content, who, agentId, project = null, sessionKey = null, withinProject, createdAtMs = nowMs } = draft;
  const supersedes = index.predecessor(draft, { content, who, agentId, project, sessionKey, withinProject, createdAtMs });
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
