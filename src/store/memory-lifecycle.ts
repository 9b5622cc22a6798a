import type { DatabaseSync } from 'node:sqlite';
import { RETENTION_DAYS } from '../contract/memory-lifecycle.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { contentHash } from '../core/memory-hash.ts';
import type { Changed, ChangeNote, ListedMemory, MemoryFilter, MemoryPage, Reader } from '../core/memory-store.ts';
import { writeHistory } from './memory-history.ts';
import { conditionsOf } from './memory-store-filter.ts';
import { type Condition, everything, measureMemories, selectMemories, visibleTo } from './memory-store-scope.ts';
import { findById, refuseDuplicate, requireOwn, requireVersion } from './memory-store-write.ts';
import { relinkSuperseded } from './memory-supersede.ts';
import { cachedStatement } from './sqlite.ts';

const RETENTION_MS = RETENTION_DAYS * 86_400_000;
/** Memories of this importance are counted as critical. */
const CRITICAL_IMPORTANCE_MIN = 0.9;

/** Runs inside a transaction of its caller. */
export function recoverMemory(db: DatabaseSync, reader: Reader, id: string, note: ChangeNote, nowMs: number): Changed {
  const { seq, memory, deletedAtMs } = findById(db, reader, id);
  requireOwn(memory, reader);
  if (deletedAtMs === null)
    throw new AppError('memory_not_deleted', { detail: `memory ${id} is not deleted: there is nothing to recover` });
  if (deletedAtMs <= nowMs - RETENTION_MS) {
    throw new AppError('retention_expired', { detail: `memory ${id} was deleted more than ${RETENTION_DAYS} days ago` });
  }
  requireVersion(memory, note);
  refuseDuplicate(db, seq, memory, contentHash(memory.content), reader);
  const version = memory.version + 1;
  // The key may have been used again in the meantime; whoever used it means that memory.
  const sql = `UPDATE memories SET deleted_at = NULL, updated_at = ?1, version = ?2, idempotency_key = iif(EXISTS (SELECT 1 FROM memories twin
    WHERE twin.agent_id = memories.agent_id AND twin.scope = memories.scope AND twin.idempotency_key = memories.idempotency_key
      AND twin.deleted_at IS NULL), NULL, idempotency_key) WHERE seq = ?3`;
  cachedStatement(db, sql).run(nowMs, version, seq);
  relinkSuperseded(db, memory);
  writeHistory(db, { id, event: 'recovered', version, note, oldContent: null, newContent: memory.content }, nowMs);
  return { id, status: 'recovered', currentVersion: version, newVersion: version };
}

/** Erases the oldest ones first; runs inside a transaction of its caller. */
export function purgeMemories(db: DatabaseSync, limit: number, nowMs: number): number {
  const due = selectMemories(db, {
    scope: everything(),
    where: [{ sql: 'm.deleted_at <= ?', values: [nowMs - RETENTION_MS] }],
    order: { sql: 'm.deleted_at', values: [] },
    limit,
  });
  for (const { seq, memory } of due) {
    cachedStatement(db, 'DELETE FROM memory_history WHERE memory_id = ?').run(memory.id);
    cachedStatement(db, 'DELETE FROM memory_feedback WHERE memory_id = ?').run(memory.id);
    cachedStatement(db, 'DELETE FROM memories WHERE seq = ?').run(seq);
  }
  return due.length;
}

/** @param visible  memories the reader may see, where that is known: counting them would read every one */
export function listMemories(
  db: DatabaseSync,
  reader: Reader,
  page: MemoryPage,
  visible: number | undefined,
  nowMs: number,
): { memories: ListedMemory[]; total: number; critical: number; embedded: number } {
  const { forgotten = false } = page;
  const scope = visibleTo(reader, forgotten ? 'included' : 'hidden');
  const where = [...conditionsOf(page.filter), ...(forgotten ? [{ sql: 'm.deleted_at > ?', values: [nowMs - RETENTION_MS] }] : [])];
  const order = { sql: forgotten ? 'm.deleted_at DESC, m.id' : 'm.created_at DESC, m.id', values: [] };
  const rows = selectMemories(db, { scope, where, order, limit: page.limit, offset: page.offset });
  const count = (more: readonly Condition[]): number =>
    Number(measureMemories(db, scope, [...where, ...more], ['count(*) AS n'])[0]?.n ?? 0);
  return {
    memories: rows.map(({ memory, deletedAtMs }) => (deletedAtMs === null ? memory : { ...memory, ...timesOf(deletedAtMs) })),
    total: where.length === 0 && visible !== undefined ? visible : count([]),
    critical: count([{ sql: 'm.importance >= ?', values: [CRITICAL_IMPORTANCE_MIN] }]),
    embedded: hasVectors(db) ? Number(measureMemories(db, scope, [WITH_VECTOR], ['count(*) AS n'])[0]?.n) : 0,
  };
}

function timesOf(deletedAtMs: number): Pick<ListedMemory, 'deleted_at' | 'recoverable_until'> {
  return { deleted_at: isoTime(deletedAtMs), recoverable_until: isoTime(deletedAtMs + RETENTION_MS) };
}

const WITH_VECTOR: Condition = { sql: 'm.seq IN (SELECT seq FROM memory_vectors)', values: [] };

function hasVectors(db: DatabaseSync): boolean {
  return cachedStatement(db, 'SELECT 1 FROM memory_vectors LIMIT 1').get() !== undefined;
}

export function listAuthors(db: DatabaseSync, reader: Reader, filter: MemoryFilter): string[] {
  const rows = measureMemories(db, visibleTo(reader), conditionsOf(filter), ['DISTINCT m.who AS who']);
  return rows.map((row) => String(row.who)).sort();
}
