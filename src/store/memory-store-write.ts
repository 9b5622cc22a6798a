import { randomUUID } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Memory } from '../contract/memory.ts';
import { AppError } from '../core/errors.ts';
import { canonicalText, contentHash } from '../core/memory-hash.ts';
import type { Changed, ChangeNote, MemoryChange, MemoryDraft, Reader } from '../core/memory-store.ts';
import { stemsOf } from '../core/recall-query.ts';
import { type Condition, heldBy, type MemoryRow, selectMemories, viewOf, visibleTo } from './memory-store-scope.ts';
import { cachedStatement } from './sqlite.ts';

type HistoryEvent = 'created' | 'updated' | 'deleted';

/** The functions here run inside a transaction of their caller. */
export function insertMemory(db: DatabaseSync, draft: MemoryDraft, nowMs: number): { memory: Memory; deduped: boolean } {
  const hash = contentHash(draft.content);
  const known = findDuplicate(db, draft, hash);
  if (known) return { memory: raise(db, known, draft, nowMs), deduped: true };
  const id = randomUUID();
  cachedStatement(
    db,
    `INSERT INTO memories (id, content, content_hash, normalized, type, importance, tags, pinned, who, agent_id, scope, project, source_type,
       source_id, session_id, idempotency_key, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    id,
    draft.content,
    hash,
    canonicalText(draft.content),
    draft.type,
    draft.importance,
    draft.tags.join(',') || null,
    draft.pinned ? 1 : 0,
    draft.who,
    draft.agentId,
    draft.scope,
    draft.project ?? null,
    draft.sourceType,
    draft.sourceId ?? null,
    draft.sessionKey ?? null,
    draft.idempotencyKey ?? null,
    draft.createdAtMs ?? nowMs,
    nowMs,
  );
  countTerms(db, draft, draft.content, 1);
  const note = { reason: null, changedBy: draft.who };
  writeHistory(db, { id, event: 'created', version: 1, note, oldContent: null, newContent: draft.content }, nowMs);
  return { memory: reread(db, id, draft), deduped: false };
}

export function changeMemory(db: DatabaseSync, reader: Reader, id: string, change: MemoryChange, note: ChangeNote, nowMs: number): Changed {
  const { seq, memory } = findToChange(db, reader, id, note);
  const content = change.content ?? memory.content;
  const contentChanged = content !== memory.content;
  const tags = change.tags === undefined ? memory.tags : (change.tags ?? []).join(',') || null;
  const type = change.type ?? memory.type;
  const importance = change.importance ?? memory.importance;
  const pinned = change.pinned ?? memory.pinned;
  const same =
    !contentChanged && tags === memory.tags && type === memory.type && importance === memory.importance && pinned === memory.pinned;
  if (same) return { id, status: 'no_changes', currentVersion: memory.version, newVersion: memory.version, contentChanged: false };

  const hash = contentHash(content);
  if (contentChanged) refuseDuplicate(db, seq, memory, hash);
  const version = memory.version + 1;
  cachedStatement(db, 'UPDATE memories SET type = ?, importance = ?, tags = ?, pinned = ?, version = ?, updated_at = ? WHERE seq = ?').run(
    type,
    importance,
    tags,
    pinned ? 1 : 0,
    version,
    nowMs,
    seq,
  );
  if (contentChanged) {
    cachedStatement(db, 'UPDATE memories SET content = ?, content_hash = ?, normalized = ? WHERE seq = ?').run(
      content,
      hash,
      canonicalText(content),
      seq,
    );
    countTerms(db, memory, memory.content, -1);
    countTerms(db, memory, content, 1);
  }
  writeHistory(db, { id, event: 'updated', version, note, oldContent: memory.content, newContent: content }, nowMs);
  return { id, status: 'updated', currentVersion: version, newVersion: version, contentChanged };
}

export function forgetMemory(db: DatabaseSync, reader: Reader, id: string, note: ChangeNote & { force?: boolean }, nowMs: number): Changed {
  const { seq, memory } = findToChange(db, reader, id, note);
  if (memory.pinned && !note.force) {
    throw new AppError('memory_pinned', { detail: `memory ${id} is pinned; unpin it, or send force: true with the reason` });
  }
  const version = memory.version + 1;
  cachedStatement(db, 'UPDATE memories SET deleted_at = ?, updated_at = ?, version = ? WHERE seq = ?').run(nowMs, nowMs, version, seq);
  countTerms(db, memory, memory.content, -1);
  writeHistory(db, { id, event: 'deleted', version, note, oldContent: memory.content, newContent: null }, nowMs);
  return { id, status: 'deleted', currentVersion: version, newVersion: version };
}

function findDuplicate(db: DatabaseSync, draft: MemoryDraft, hash: string): MemoryRow | undefined {
  const scope = heldBy(draft.agentId, draft.scope);
  const find = (where: Condition): MemoryRow | undefined => selectMemories(db, { scope, where: [where], limit: 1 })[0];
  const byKey = draft.idempotencyKey ? find({ sql: 'm.idempotency_key = ?', values: [draft.idempotencyKey] }) : undefined;
  return byKey ?? find({ sql: 'm.content_hash = ?', values: [hash] });
}

/** Remembering something again can make it more important, never less. */
function raise(db: DatabaseSync, known: MemoryRow, draft: MemoryDraft, nowMs: number): Memory {
  const { memory, seq } = known;
  if (!draft.pinned || memory.pinned || contentHash(memory.content) !== contentHash(draft.content)) return memory;
  const version = memory.version + 1;
  const importance = Math.max(memory.importance, draft.importance);
  const sql = 'UPDATE memories SET pinned = 1, importance = ?, version = ?, updated_at = ? WHERE seq = ?';
  cachedStatement(db, sql).run(importance, version, nowMs, seq);
  const note = { reason: 'remembered again, pinned', changedBy: draft.who };
  const { id, content } = memory;
  writeHistory(db, { id, event: 'updated', version, note, oldContent: content, newContent: content }, nowMs);
  return reread(db, id, draft);
}

function reread(db: DatabaseSync, id: string, owner: Pick<MemoryDraft, 'agentId' | 'scope'>): Memory {
  return selectMemories(db, { scope: heldBy(owner.agentId, owner.scope), where: [byId(id)], limit: 1 })[0]!.memory;
}

export function byId(id: string): Condition {
  return { sql: 'm.id = ?', values: [id] };
}

function findToChange(db: DatabaseSync, reader: Reader, id: string, note: ChangeNote): MemoryRow {
  const row = selectMemories(db, { scope: visibleTo(reader, 'included'), where: [byId(id)], limit: 1 })[0];
  if (!row) throw new AppError('memory_not_found', { detail: `no memory ${id} that this caller may see` });
  if (row.deletedAtMs !== null) throw new AppError('memory_deleted', { detail: `memory ${id} is deleted already` });
  const { version } = row.memory;
  if (note.ifVersion !== undefined && note.ifVersion !== version) {
    const detail = `memory ${id} has version ${version}, not ${note.ifVersion}; read it again`;
    throw new AppError('version_conflict', { detail, extra: { currentVersion: version } });
  }
  return row;
}

function refuseDuplicate(db: DatabaseSync, seq: number, memory: Memory, hash: string): void {
  const where: Condition[] = [{ sql: 'm.content_hash = ? AND m.seq <> ?', values: [hash, seq] }];
  const twin = selectMemories(db, { scope: heldBy(memory.agentId, memory.scope), where, limit: 1 })[0];
  if (!twin) return;
  const detail = `memory ${twin.memory.id} has this content already; delete one of the two`;
  throw new AppError('memory_duplicate', { detail, extra: { duplicateMemoryId: twin.memory.id } });
}

/** The empty term counts the memory itself. */
function countTerms(db: DatabaseSync, owner: { agentId: string; scope: string }, content: string, by: 1 | -1): void {
  const view = viewOf(owner);
  if (view === undefined) return;
  const sql = `INSERT INTO memory_terms (view, term, documents) VALUES (?, ?, ?)
    ON CONFLICT (view, term) DO UPDATE SET documents = documents + excluded.documents`;
  const count = cachedStatement(db, sql);
  const terms = ['', ...stemsOf(content)];
  for (const term of terms) count.run(view, term, by);
  if (by < 0) {
    const sweep = cachedStatement(db, 'DELETE FROM memory_terms WHERE view = ? AND term = ? AND documents <= 0');
    for (const term of terms) sweep.run(view, term);
  }
}

interface HistoryRow {
  readonly id: string;
  readonly event: HistoryEvent;
  readonly version: number;
  readonly note: { readonly reason: string | null; readonly changedBy: string };
  readonly oldContent: string | null;
  readonly newContent: string | null;
}

function writeHistory(db: DatabaseSync, row: HistoryRow, nowMs: number): void {
  const sql = `INSERT INTO memory_history (memory_id, event, version, reason, changed_by, old_content, new_content, created_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
  const { note } = row;
  cachedStatement(db, sql).run(row.id, row.event, row.version, note.reason, note.changedBy, row.oldContent, row.newContent, nowMs);
}
