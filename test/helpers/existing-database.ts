import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';

/** Columns of the existing daemon's `memories` that hold something worth taking over, with the types it declares. */
const MEMORIES = `CREATE TABLE memories (id TEXT PRIMARY KEY, type TEXT NOT NULL DEFAULT 'fact', category TEXT, content TEXT NOT NULL,
  confidence REAL DEFAULT 1.0, importance REAL DEFAULT 0.5, source_id TEXT, source_type TEXT, tags TEXT, who TEXT, why TEXT, project TEXT,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL, updated_by TEXT, last_accessed TEXT, access_count INTEGER DEFAULT 0, version INTEGER DEFAULT 1,
  pinned INTEGER DEFAULT 0, content_hash TEXT, is_deleted INTEGER DEFAULT 0, deleted_at TEXT, idempotency_key TEXT, runtime_path TEXT)`;
const HISTORY = `CREATE TABLE memory_history (id TEXT PRIMARY KEY, memory_id TEXT NOT NULL, event TEXT NOT NULL, old_content TEXT, new_content TEXT,
  changed_by TEXT, reason TEXT, metadata TEXT, created_at TEXT NOT NULL, actor_type TEXT, session_id TEXT, request_id TEXT)`;

export interface ExistingRows {
  readonly memories: readonly object[];
  readonly history?: readonly object[];
  /** Leave the last writes in the WAL, as that daemon does when it stops. */
  readonly openWal?: boolean;
}

/**
 * A workspace database as the existing daemon leaves it behind.
 *
 * @returns  its path, and a close for the writer that keeps the WAL in place until then
 */
export function writeExistingDatabase(
  folder: string,
  { memories, history = [], openWal = false }: ExistingRows,
): { path: string; close(): void } {
  const path = join(folder, 'memory', 'memories.db');
  mkdirSync(dirname(path), { recursive: true });
  const db = new DatabaseSync(path);
  db.exec('PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0');
  db.exec(`${MEMORIES}; ${HISTORY}`);
  if (openWal) db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const insert = (table: string, row: object): void => {
    const names = Object.keys(row);
    db.prepare(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`).run(
      ...(Object.values(row) as SQLInputValue[]),
    );
  };
  for (const row of memories) insert('memories', row);
  for (const row of history) insert('memory_history', row);
  if (!openWal) db.close();
  return { path, close: () => (db.isOpen ? db.close() : undefined) };
}
