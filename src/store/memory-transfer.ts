import type { DatabaseSync } from 'node:sqlite';
import { HISTORY_LIMIT_MAX, type MemoryRecord } from '../contract/memory-lifecycle.ts';
import { isoTime } from '../core/clock.ts';
import { canonicalText, contentHash } from '../core/memory-hash.ts';
import type { Reader } from '../core/memory-store.ts';
import type { ExportPage, ImportAnswer, MemoryTransfer } from '../core/memory-transfer.ts';
import { tagList } from '../core/memory-type.ts';
import { NOT_LAID_DOWN } from './document-schema.ts';
import { historyOf, writeHistory } from './memory-history.ts';
import type { Access } from './memory-store-access.ts';
import { everything, heldBy, type MemoryRow, selectMemories, visibleTo } from './memory-store-scope.ts';
import { byId } from './memory-store-write.ts';
import { isSuperseded, relinkSuperseded } from './memory-supersede.ts';
import { cachedStatement } from './sqlite.ts';

export function createMemoryTransfer({ db, read, write }: Access): MemoryTransfer {
  return {
    exportPage: (reader, after, limit) => read(() => exportPage(db, reader, after, limit)),
    importRecords: (records, conflict) => write(() => importRecords(db, records, conflict)),
  };
}

function exportPage(db: DatabaseSync, reader: Reader | null, after: number, limit: number): ExportPage {
  const scope = reader === null ? everything() : visibleTo(reader);
  const rows = selectMemories(db, { scope, where: [{ sql: 'm.seq > ?', values: [after] }, NOT_LAID_DOWN], limit: limit + 1 });
  const page = rows.slice(0, limit);
  return { records: page.map((row) => toRecord(db, row)), next: rows.length > limit ? page.at(-1)?.seq : undefined };
}

function toRecord(db: DatabaseSync, { memory, deletedAtMs, idempotencyKey }: MemoryRow): MemoryRecord {
  const { superseded_by: _derived, ...told } = memory;
  return {
    ...told,
    idempotency_key: idempotencyKey,
    deleted_at: deletedAtMs === null ? null : isoTime(deletedAtMs),
    history: historyOf(db, memory.id, HISTORY_LIMIT_MAX),
  };
}

/**
 * Runs inside a transaction of its caller.
 *
 * @param keepTwins  take in also what another living memory says in the same words: their own daemon had told them apart
 */
export function importRecords(
  db: DatabaseSync,
  records: readonly MemoryRecord[],
  conflict: 'skip' | 'overwrite',
  { keepTwins = false } = {},
): ImportAnswer {
  const duplicates: { id: string; duplicateMemoryId: string }[] = [];
  let imported = 0;
  let overwritten = 0;
  let skipped = 0;
  for (const record of records) {
    const known = selectMemories(db, { scope: everything(), where: [byId(record.id)], limit: 1 })[0];
    if (known && conflict === 'skip') {
      skipped += 1;
      continue;
    }
    const twin = record.deleted_at === null ? findTwin(db, record) : undefined;
    if (twin !== undefined && !keepTwins) {
      duplicates.push({ id: record.id, duplicateMemoryId: twin });
      continue;
    }
    if (known) {
      erase(db, known);
      overwritten += 1;
    } else imported += 1;
    // The hash of a twin is its own: the index takes each only once.
    insertRecord(db, record, twin === undefined ? contentHash(record.content) : `${contentHash(record.content)}:${record.id}`);
  }
  return { imported, overwritten, skipped, duplicates };
}

function findTwin(db: DatabaseSync, record: MemoryRecord): string | undefined {
  const where = [{ sql: 'm.content_hash = ? AND m.id <> ?', values: [contentHash(record.content), record.id] }];
  return selectMemories(db, { scope: heldBy(record.agentId, record.scope), where, limit: 1 })[0]?.memory.id;
}

function erase(db: DatabaseSync, { seq, memory }: MemoryRow): void {
  cachedStatement(db, 'DELETE FROM memory_history WHERE memory_id = ?').run(memory.id);
  cachedStatement(db, 'DELETE FROM memories WHERE seq = ?').run(seq);
}

function insertRecord(db: DatabaseSync, record: MemoryRecord, hash: string): void {
  const { id, content, agentId, scope, deleted_at: deletedAt, idempotency_key: key } = record;
  const ms = (time: string): number => Date.parse(time);
  const isLive = deletedAt === null;
  // A key that is in use stays with the memory that has it.
  const keyWhere = [{ sql: 'm.idempotency_key = ?', values: [key] }];
  const keyTaken = key !== null && selectMemories(db, { scope: heldBy(agentId, scope), where: keyWhere, limit: 1 }).length > 0;
  cachedStatement(
    db,
    `INSERT INTO memories (id, content, content_hash, normalized, type, importance, tags, pinned, who, agent_id, scope, project, source_type,
       source_id, session_id, idempotency_key, version, access_count, created_at, updated_at, deleted_at, supersedes)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    id,
    content,
    hash,
    canonicalText(content),
    record.type,
    record.importance,
    tagList(record.tags).join(',') || null,
    record.pinned ? 1 : 0,
    record.who,
    agentId,
    scope,
    record.project,
    record.source_type,
    record.source_id,
    record.session_id,
    keyTaken ? null : key,
    record.version,
    record.access_count,
    ms(record.created_at),
    ms(record.updated_at ?? record.created_at),
    isLive ? null : ms(deletedAt),
    record.supersedes,
  );
  for (const entry of record.history) writeHistory(db, historyRow(id, entry), ms(entry.createdAt));
  if (!isLive || (record.supersedes === null && !isSuperseded(db, id))) return;
  relinkSuperseded(db, selectMemories(db, { scope: heldBy(agentId, scope), where: [byId(id)], limit: 1 })[0]!.memory);
}

function historyRow(id: string, entry: MemoryRecord['history'][number]) {
  const { event, version, reason, changedBy, oldContent, newContent, changedFields, actorType, sessionId, requestId } = entry;
  const actor = { type: actorType ?? undefined, sessionId: sessionId ?? undefined, requestId: requestId ?? undefined };
  const note = { reason, changedBy, actor };
  return { id, event, version, note, oldContent, newContent, ...(changedFields === null ? {} : { changedFields }) };
}
