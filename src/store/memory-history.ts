import type { DatabaseSync } from 'node:sqlite';
import type { MemoryHistoryEntry } from '../contract/memory.ts';
import { isoTime } from '../core/clock.ts';
import type { Actor } from '../core/memory-store.ts';
import { cachedStatement } from './sqlite.ts';

export interface HistoryRow {
  readonly id: string;
  readonly event: MemoryHistoryEntry['event'];
  readonly version: number;
  readonly note: { readonly reason: string | null; readonly changedBy: string; readonly actor?: Actor | undefined };
  readonly oldContent: string | null;
  readonly newContent: string | null;
  readonly changedFields?: readonly string[];
}

/** Runs inside a transaction of its caller. */
export function writeHistory(db: DatabaseSync, row: HistoryRow, nowMs: number): void {
  const sql = `INSERT INTO memory_history (memory_id, event, version, reason, changed_by, old_content, new_content, created_at, changed_fields,
    actor_type, session_id, request_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
  const { reason, changedBy, actor } = row.note;
  cachedStatement(db, sql).run(
    row.id,
    row.event,
    row.version,
    reason,
    changedBy,
    row.oldContent,
    row.newContent,
    nowMs,
    row.changedFields?.join(',') ?? null,
    actor?.type ?? null,
    actor?.sessionId ?? null,
    actor?.requestId ?? null,
  );
}

/** Oldest first; the newest `limit` entries. The caller has seen to it that the reader may see the memory. */
export function historyOf(db: DatabaseSync, id: string, limit: number): MemoryHistoryEntry[] {
  const sql = 'SELECT * FROM memory_history WHERE memory_id = ? ORDER BY seq DESC LIMIT ?';
  const rows = cachedStatement(db, sql).all(id, limit).reverse();
  const text = (value: unknown): string | null => (value === null ? null : String(value));
  return rows.map((row) => ({
    event: row.event as MemoryHistoryEntry['event'],
    version: Number(row.version),
    reason: text(row.reason),
    changedBy: String(row.changed_by),
    actorType: text(row.actor_type),
    oldContent: text(row.old_content),
    newContent: text(row.new_content),
    changedFields: row.changed_fields === null ? null : String(row.changed_fields).split(','),
    sessionId: text(row.session_id),
    requestId: text(row.request_id),
    createdAt: isoTime(Number(row.created_at)),
  }));
}
