import type { DatabaseSync } from 'node:sqlite';
import type { Memory } from '../contract/memory.ts';
import { isoTime, orderedUuid } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { canonicalHash, canonicalText, contentHash } from '../core/memory-hash.ts';
import type { Changed, ChangeNote, MemoryChange, MemoryDraft, Reader } from '../core/memory-store.ts';
import { writeHistory } from './memory-history.ts';
import { type Condition, everything, heldBy, type MemoryRow, selectMemories, visibleTo } from './memory-store-scope.ts';
import { releaseSuperseded, supersede } from './memory-supersede.ts';
import { cachedStatement } from './sqlite.ts';

/** The functions here run inside a transaction of their caller. */
export function insertMemory(db: DatabaseSync, draft: MemoryDraft, nowMs: number): { memory: Memory; deduped: boolean } {
  const normalized = canonicalText(draft.content);
  const hash = canonicalHash(normalized);
  const id = orderedUuid(nowMs);
  // Nearly always it is new, and the indexes that keep it from being there twice are gone through by the insertion anyway.
  const { changes } = cachedStatement(
    db,
    `INSERT INTO memories (id, content, content_hash, normalized, type, importance, tags, pinned, who, agent_id, scope, project, source_type,
       source_id, session_id, idempotency_key, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO NOTHING`,
  ).run(
    id,
    draft.content,
    hash,
    normalized,
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
  if (Number(changes) === 0) {
    const known = findDuplicate(db, draft, hash);
    refuseOtherProject(known.memory, draft);
    return { memory: repeat(db, known, draft, nowMs), deduped: true };
  }
  const actor = { ...draft.actor, sessionId: draft.actor?.sessionId ?? draft.sessionKey ?? undefined };
  const note = { reason: null, changedBy: draft.who, actor };
  writeHistory(db, { id, event: 'created', version: 1, note, oldContent: null, newContent: draft.content }, nowMs);
  if (draft.supersedes === undefined) return { memory: asWritten(id, draft, nowMs), deduped: false };
  supersede(db, { ...draft, id }, draft.supersedes, nowMs);
  return { memory: reread(db, id, draft), deduped: false };
}

/** The new row, as reading it would tell it. */
function asWritten(id: string, draft: MemoryDraft, nowMs: number): Memory {
  const { content, type, importance, pinned, who, agentId, scope } = draft;
  return {
    id,
    content,
    type,
    importance,
    tags: draft.tags.join(',') || null,
    pinned,
    who,
    agentId,
    scope,
    project: draft.project ?? null,
    source_type: draft.sourceType,
    source_id: draft.sourceId ?? null,
    session_id: draft.sessionKey ?? null,
    supersedes: null,
    superseded_by: null,
    version: 1,
    created_at: isoTime(draft.createdAtMs ?? nowMs),
    updated_at: isoTime(nowMs),
    access_count: 0,
  };
}

export function changeMemory(db: DatabaseSync, reader: Reader, id: string, change: MemoryChange, note: ChangeNote, nowMs: number): Changed {
  const { seq, memory } = findToChange(db, reader, id, note);
  const content = change.content ?? memory.content;
  const contentChanged = content !== memory.content;
  const tags = change.tags === undefined ? memory.tags : (change.tags ?? []).join(',') || null;
  const type = change.type ?? memory.type;
  const importance = change.importance ?? memory.importance;
  const pinned = change.pinned ?? memory.pinned;
  const now = { content, type, importance, tags, pinned };
  const changedFields = (Object.keys(now) as (keyof typeof now)[]).filter((name) => now[name] !== memory[name]);
  if (changedFields.length === 0)
    return { id, status: 'no_changes', currentVersion: memory.version, newVersion: memory.version, contentChanged: false };

  const hash = contentHash(content);
  if (contentChanged) refuseDuplicate(db, seq, memory, hash, reader);
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
  }
  writeHistory(db, { id, event: 'updated', version, note, oldContent: memory.content, newContent: content, changedFields }, nowMs);
  return { id, status: 'updated', currentVersion: version, newVersion: version, contentChanged };
}

export function forgetMemory(db: DatabaseSync, reader: Reader, id: string, note: ChangeNote & { force?: boolean }, nowMs: number): Changed {
  const { seq, memory } = findToChange(db, reader, id, note);
  if (memory.pinned && !note.force) {
    throw new AppError('memory_pinned', { detail: `memory ${id} is pinned; unpin it, or send force: true with the reason` });
  }
  const version = memory.version + 1;
  cachedStatement(db, 'UPDATE memories SET deleted_at = ?, updated_at = ?, version = ? WHERE seq = ?').run(nowMs, nowMs, version, seq);
  releaseSuperseded(db, memory, memory.supersedes);
  writeHistory(db, { id, event: 'deleted', version, note, oldContent: memory.content, newContent: null }, nowMs);
  return { id, status: 'deleted', currentVersion: version, newVersion: version };
}

/** The memory that a new one was refused for. */
function findDuplicate(db: DatabaseSync, draft: MemoryDraft, hash: string): MemoryRow {
  const scope = heldBy(draft.agentId, draft.scope);
  const find = (where: Condition): MemoryRow | undefined => selectMemories(db, { scope, where: [where], limit: 1 })[0];
  const byKey = draft.idempotencyKey ? find({ sql: 'm.idempotency_key = ?', values: [draft.idempotencyKey] }) : undefined;
  const known = byKey ?? find({ sql: 'm.content_hash = ?', values: [hash] });
  if (!known) throw new Error('a memory was refused as known, but no memory has its content or key');
  return known;
}

/** @throws AppError duplicate_content_hash without its id when it is not for the writer to know */
function refuseOtherProject({ project }: Memory, { withinProject }: Pick<MemoryDraft, 'withinProject'>): void {
  if (withinProject === undefined || project === withinProject) return;
  const detail = `this content, or its idempotencyKey, is known outside of the project ${withinProject}; the token is for that project alone`;
  throw new AppError('duplicate_content_hash', { detail });
}

/** Remembered again, in the same words: it may take the place of another, and is the newest again if another had taken its own. */
function repeat(db: DatabaseSync, known: MemoryRow, draft: MemoryDraft, nowMs: number): Memory {
  const { memory } = known;
  // The same idempotency key with other words is the same request once more: nothing happens.
  if (contentHash(memory.content) !== contentHash(draft.content)) return memory;
  const older = draft.supersedes ?? newerOf(db, memory, draft);
  if (older !== null) supersede(db, { ...memory, who: draft.who }, older, nowMs);
  raise(db, known, draft, nowMs);
  return reread(db, memory.id, draft);
}

/** The memory that took the place of this one, when the writer may take it back. */
function newerOf(db: DatabaseSync, { superseded_by: id }: Memory, { changesOwn, withinProject, agentId }: MemoryDraft): string | null {
  if (id === null || (!changesOwn && withinProject === undefined)) return id;
  const newer = selectMemories(db, { scope: everything(), where: [byId(id)], limit: 1 })[0]?.memory;
  const isOwn = newer && (!changesOwn || newer.agentId === agentId) && (withinProject === undefined || newer.project === withinProject);
  return isOwn ? id : null;
}

/** Remembering something again can make it more important, never less. */
function raise(db: DatabaseSync, known: MemoryRow, draft: MemoryDraft, nowMs: number): void {
  const { memory, seq } = known;
  if (!draft.pinned || memory.pinned) return;
  const version = memory.version + 1;
  const importance = Math.max(memory.importance, draft.importance);
  const sql = 'UPDATE memories SET pinned = 1, importance = ?, version = ?, updated_at = ? WHERE seq = ?';
  cachedStatement(db, sql).run(importance, version, nowMs, seq);
  const note = { reason: 'remembered again, pinned', changedBy: draft.who, actor: draft.actor };
  const { id, content } = memory;
  const changedFields = ['pinned', 'importance'];
  writeHistory(db, { id, event: 'updated', version, note, oldContent: content, newContent: content, changedFields }, nowMs);
}

function reread(db: DatabaseSync, id: string, owner: Pick<MemoryDraft, 'agentId' | 'scope'>): Memory {
  return selectMemories(db, { scope: heldBy(owner.agentId, owner.scope), where: [byId(id)], limit: 1 })[0]!.memory;
}

export function byId(id: string): Condition {
  return { sql: 'm.id = ?', values: [id] };
}

function findToChange(db: DatabaseSync, reader: Reader, id: string, note: ChangeNote): MemoryRow {
  const row = findById(db, reader, id);
  requireOwn(row.memory, reader);
  if (row.deletedAtMs !== null) throw new AppError('memory_deleted', { detail: `memory ${id} is deleted already` });
  requireVersion(row.memory, note);
  return row;
}

/** Also a deleted one. @throws AppError memory_not_found */
export function findById(db: DatabaseSync, reader: Reader, id: string): MemoryRow {
  const row = selectMemories(db, { scope: visibleTo(reader, 'included'), where: [byId(id)], limit: 1 })[0];
  if (!row) throw new AppError('memory_not_found', { detail: `no memory ${id} that this caller may see` });
  return row;
}

/** A token for one agent reads what others share, and changes none of it. @throws AppError forbidden */
export function requireOwn({ id, agentId }: Memory, { agentId: own, changesOwn }: Reader): void {
  if (!changesOwn || agentId === own) return;
  throw new AppError('forbidden', {
    detail: `memory ${id} belongs to the agent ${agentId}; the token is for the agent ${own} and changes its memories alone`,
  });
}

/** @throws AppError version_conflict */
export function requireVersion({ id, version }: Memory, note: ChangeNote): void {
  if (note.ifVersion !== undefined && note.ifVersion !== version) {
    const detail = `memory ${id} has version ${version}, not ${note.ifVersion}; read it again`;
    throw new AppError('version_conflict', { detail, extra: { currentVersion: version } });
  }
}

/** @throws AppError duplicate_content_hash */
export function refuseDuplicate(db: DatabaseSync, seq: number, memory: Memory, hash: string, { within }: Reader): void {
  const where: Condition[] = [{ sql: 'm.content_hash = ? AND m.seq <> ?', values: [hash, seq] }];
  const twin = selectMemories(db, { scope: heldBy(memory.agentId, memory.scope), where, limit: 1 })[0];
  if (!twin) return;
  if (within) refuseOtherProject(twin.memory, { withinProject: within.project });
  const detail = `memory ${twin.memory.id} has this content already; delete one of the two`;
  throw new AppError('duplicate_content_hash', { detail, extra: { duplicateMemoryId: twin.memory.id } });
}
