import type { DatabaseSync } from 'node:sqlite';
import type { MemoryHistoryEntry } from '../contract/memory.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import type { ClaimStore, MemoryStore, Reader, SessionStore } from '../core/memory-store.ts';
import { createClaimStore } from './claim-store.ts';
import { type Access, createAccess } from './memory-store-access.ts';
import { rankMemories, recallMemories } from './memory-store-recall.ts';
import { memoryMigrations } from './memory-store-schema.ts';
import { selectMemories, visibleTo } from './memory-store-scope.ts';
import { createSessionStore } from './memory-store-session.ts';
import { byId, changeMemory, forgetMemory, insertMemory } from './memory-store-write.ts';
import { cachedStatement, closeDatabase, openDatabase } from './sqlite.ts';

/** Entries of one memory's history that are shown; the newest ones. */
const HISTORY_ENTRIES_MAX = 1_000;

export interface OpenedMemoryStores {
  readonly memories: MemoryStore;
  readonly claims: ClaimStore;
  readonly sessions: SessionStore;
  close(): void;
}

/**
 * Open `memory.db`: memories, session claims and what sessions leave behind. The caller closes.
 *
 * @throws AppError storage_corrupt, storage_version, workspace_unwritable, storage_failed
 */
export function openMemoryStores(path: string, clock: Clock): OpenedMemoryStores {
  const db = openDatabase(path, { synchronous: 'FULL', migrations: memoryMigrations });
  const access = createAccess(db, path, clock);
  return {
    memories: createMemoryStore(access),
    claims: createClaimStore(access),
    sessions: createSessionStore(access),
    close: () => closeDatabase(db),
  };
}

function createMemoryStore({ db, clock, read, write }: Access): MemoryStore {
  const visible = (reader: Reader, id: string) => selectMemories(db, { scope: visibleTo(reader), where: [byId(id)], limit: 1 })[0]?.memory;
  return {
    remember: (draft) => write(() => insertMemory(db, draft, clock.now())),
    recall: (reader, query) => read(() => recallMemories(db, reader, query)),
    ranked: (reader, ranking) => read(() => rankMemories(db, reader, ranking, clock.now()).map((row) => row.memory)),
    get: (reader, id) => read(() => visible(reader, id)),
    history: (reader, id) => read(() => (visible(reader, id) ? historyOf(db, id) : [])),
    change: (reader, id, change, note) => write(() => changeMemory(db, reader, id, change, note, clock.now())),
    forget: (reader, id, note) => write(() => forgetMemory(db, reader, id, note, clock.now())),
    count: () => read(() => Number(cachedStatement(db, `SELECT total(documents) AS n FROM memory_terms WHERE term = ''`).get()?.n ?? 0)),
  };
}

function historyOf(db: DatabaseSync, id: string): MemoryHistoryEntry[] {
  const sql = 'SELECT * FROM memory_history WHERE memory_id = ? ORDER BY seq DESC LIMIT ?';
  const rows = cachedStatement(db, sql).all(id, HISTORY_ENTRIES_MAX).reverse();
  const text = (value: unknown): string | null => (value === null ? null : String(value));
  return rows.map((row) => ({
    event: row.event as MemoryHistoryEntry['event'],
    version: Number(row.version),
    reason: text(row.reason),
    changedBy: String(row.changed_by),
    oldContent: text(row.old_content),
    newContent: text(row.new_content),
    createdAt: isoTime(Number(row.created_at)),
  }));
}
