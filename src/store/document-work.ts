import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { DOCUMENT, type DocumentDraft, type DocumentName, type DocumentNote } from '../core/document.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { contentHash } from '../core/memory-hash.ts';
import type { MemoryDraft } from '../core/memory-store.ts';
import { heldBy, selectMemories } from './memory-store-scope.ts';
import { forgetMemory, insertMemory } from './memory-store-write.ts';
import { supersede } from './memory-supersede.ts';
import { cachedStatement } from './sqlite.ts';

/** Pieces that are written, or forgotten, in one transaction: about 5 ms. */
export const PAGE_PIECES = 16;
/** Pieces that become findable in one transaction; their words are in the full-text index already. */
const PUBLISHED_AT_ONCE = 32;

type Row = Readonly<Record<string, SQLOutputValue>>;

/** What a document that is decided upon comes to be, kept as JSON while the work on it lasts. */
export interface Pending {
  readonly note: DocumentNote;
  readonly next?: { readonly title: string | null; readonly hash: string; readonly scope: MemoryDraft['scope'] };
}

export interface Staging {
  readonly documentId: number;
  readonly draft: DocumentDraft;
  /** Of all pieces, so that none takes the place of another of the same text; ms since 1970. */
  readonly createdAtMs: number;
  /** Hashes of the pieces laid down so far; ids of those that were there before. */
  readonly known: Set<string>;
  predecessor(draft: MemoryDraft): string | undefined;
}

/** The functions here run inside a transaction of their caller, which is one step of the work. */
export function findDocument(db: DatabaseSync, { agentId, source }: DocumentName): Row | undefined {
  return cachedStatement(db, 'SELECT * FROM documents WHERE agent_id = ? AND source = ?').get(agentId, source);
}

export function piecesOf(db: DatabaseSync, documentId: number): string[] {
  const rows = cachedStatement(db, 'SELECT memory_id FROM document_chunks WHERE document_id = ? ORDER BY place').all(documentId);
  return rows.map((row) => String(row.memory_id));
}

/** @returns the id of the document */
export function beginWriting(db: DatabaseSync, { agentId, source, title, pieces }: DocumentDraft, nowMs: number): number {
  const sql = `INSERT INTO documents (agent_id, source, title, scope, hash, created_at, updated_at, state) VALUES (?, ?, ?, ?, NULL, ?5, ?5, 'writing')
    ON CONFLICT (agent_id, source) DO UPDATE SET state = 'writing' RETURNING id`;
  const id = Number(cachedStatement(db, sql).get(agentId, source, title, pieces[0]!.scope, nowMs)?.id);
  dropWork(db, id);
  return id;
}

/** @throws AppError version_conflict when the document was removed meanwhile, as with its agent */
function requireWriting(db: DatabaseSync, documentId: number, { agentId, source }: DocumentName): void {
  const sql = `SELECT 1 FROM documents WHERE id = ? AND agent_id = ? AND source = ? AND state = 'writing'`;
  if (cachedStatement(db, sql).get(documentId, agentId, source)) return;
  throw new AppError('version_conflict', { detail: `the document ${source} was removed while it was written; send it again` });
}

/** Lay down the pieces from this place on, where nobody finds them. @throws AppError version_conflict */
export function stagePage(db: DatabaseSync, staging: Staging, from: number, nowMs: number): void {
  const { documentId, draft, known, createdAtMs } = staging;
  requireWriting(db, documentId, draft);
  for (const [offset, piece] of draft.pieces.slice(from, from + PAGE_PIECES).entries()) {
    // A document that repeats itself says it once.
    if (known.has(contentHash(piece.content))) continue;
    const { memory, deduped } = insertMemory(db, { ...piece, createdAtMs }, nowMs);
    const hash = deduped ? memory.id : hide(db, memory.id);
    if (known.has(hash)) {
      if (!deduped) erase(db, memory.id);
      continue;
    }
    known.add(hash);
    const older = deduped ? undefined : staging.predecessor({ ...piece, createdAtMs });
    const note = 'INSERT OR IGNORE INTO document_work (document_id, memory_id, task, place, supersedes) VALUES (?, ?, ?, ?, ?)';
    cachedStatement(db, note).run(documentId, memory.id, deduped ? 'keep' : 'publish', from + offset, older ?? null);
  }
}

/** Its hash becomes its own: whoever says the same meanwhile is not referred to what is not there yet. @returns the hash of before */
function hide(db: DatabaseSync, id: string): string {
  const sql = `UPDATE memories SET scope = 'archived', content_hash = content_hash || ':' || id WHERE id = ? RETURNING content_hash`;
  return String(cachedStatement(db, sql).get(id)?.content_hash).split(':')[0]!;
}

/** All pieces are laid down: from here on the new text takes the place of the old one, whatever happens. @throws AppError version_conflict */
export function decideText(db: DatabaseSync, documentId: number, name: DocumentName, pending: Pending): void {
  requireWriting(db, documentId, name);
  decide(db, documentId, 'publishing', pending);
}

export function decideForgetting(db: DatabaseSync, documentId: number, pending: Pending): void {
  dropWork(db, documentId);
  decide(db, documentId, 'forgetting', pending);
}

function decide(db: DatabaseSync, documentId: number, state: 'publishing' | 'forgetting', pending: Pending): void {
  const old = `INSERT OR IGNORE INTO document_work (document_id, memory_id, task, place)
    SELECT document_id, memory_id, 'forget', place FROM document_chunks WHERE document_id = ?`;
  cachedStatement(db, old).run(documentId);
  cachedStatement(db, 'UPDATE documents SET state = ?, pending = ? WHERE id = ?').run(state, JSON.stringify(pending), documentId);
}

/** One step of what was decided. @returns memories it forgot, and whether all is done */
export function advance(db: DatabaseSync, documentId: number, nowMs: number): { readonly isDone: boolean; readonly forgotten: number } {
  const row = cachedStatement(db, 'SELECT * FROM documents WHERE id = ?').get(documentId);
  if (!row || typeof row.pending !== 'string') return { isDone: true, forgotten: 0 };
  const { note, next }: Pending = JSON.parse(row.pending);
  if (next && publishPage(db, documentId, next.scope, nowMs) > 0) return { isDone: false, forgotten: 0 };
  const due = workOf(db, documentId, ['forget'], PAGE_PIECES);
  const forgotten = due.filter((work) => forgetPiece(db, documentId, String(work.memory_id), note, nowMs)).length;
  if (due.length === PAGE_PIECES) return { isDone: false, forgotten };
  if (next) {
    const sql = `UPDATE documents SET title = ?, scope = ?, hash = ?, updated_at = ?, state = 'whole', pending = NULL WHERE id = ?`;
    cachedStatement(db, sql).run(next.title, next.scope, next.hash, nowMs, documentId);
  } else cachedStatement(db, 'DELETE FROM documents WHERE id = ?').run(documentId);
  return { isDone: true, forgotten };
}

function publishPage(db: DatabaseSync, documentId: number, scope: MemoryDraft['scope'], nowMs: number): number {
  const due = workOf(db, documentId, ['publish', 'keep'], PUBLISHED_AT_ONCE);
  const publish = `UPDATE OR IGNORE memories SET scope = ?, content_hash = substr(content_hash, 1, instr(content_hash, ':') - 1)
    WHERE id = ? AND scope = 'archived' RETURNING agent_id, who`;
  const hold = `INSERT INTO document_chunks (document_id, memory_id, place) VALUES (?, ?, ?)
    ON CONFLICT (document_id, memory_id) DO UPDATE SET place = excluded.place`;
  for (const work of due) {
    const id = String(work.memory_id);
    cachedStatement(db, 'DELETE FROM document_work WHERE document_id = ? AND memory_id = ?').run(documentId, id);
    if (work.task === 'keep') {
      cachedStatement(db, hold).run(documentId, id, work.place!);
      continue;
    }
    const now = cachedStatement(db, publish).get(scope, id);
    const held = now ? id : twinOf(db, id, scope);
    if (held !== undefined) cachedStatement(db, hold).run(documentId, held, work.place!);
    if (!now) erase(db, id);
    else if (work.supersedes !== null)
      supersede(db, { id, scope, agentId: String(now.agent_id), who: String(now.who) }, String(work.supersedes), nowMs);
  }
  return due.length;
}

/** The memory in which somebody said the same while the document was written; it is kept in place of the piece. */
function twinOf(db: DatabaseSync, id: string, scope: MemoryDraft['scope']): string | undefined {
  const row = cachedStatement(db, 'SELECT agent_id, content_hash FROM memories WHERE id = ?').get(id);
  if (!row) return undefined;
  const where = [{ sql: 'm.content_hash = ?', values: [String(row.content_hash).split(':')[0]!] }];
  return selectMemories(db, { scope: heldBy(String(row.agent_id), scope), where, limit: 1 })[0]?.memory.id;
}

/** Unless another document holds it, it was no piece from the beginning, or somebody pinned it. */
function forgetPiece(db: DatabaseSync, documentId: number, id: string, { reader, ...note }: DocumentNote, nowMs: number): boolean {
  cachedStatement(db, 'DELETE FROM document_work WHERE document_id = ? AND memory_id = ?').run(documentId, id);
  cachedStatement(db, 'DELETE FROM document_chunks WHERE document_id = ? AND memory_id = ?').run(documentId, id);
  if (cachedStatement(db, 'SELECT 1 FROM document_chunks WHERE memory_id = ?').get(id)) return false;
  const sql = 'SELECT 1 FROM memories WHERE id = ? AND source_type = ? AND deleted_at IS NULL';
  if (!cachedStatement(db, sql).get(id, DOCUMENT)) return false;
  try {
    forgetMemory(db, reader, id, note, nowMs);
    return true;
  } catch (error) {
    if (!isAppError(error) || error.status >= 500) throw error;
    return false;
  }
}

/** What was broken off is to be erased; the document is what it was before, or not there. */
export function breakOff(db: DatabaseSync, documentId: number, { agentId, source }: DocumentName): void {
  const row = cachedStatement(db, 'SELECT * FROM documents WHERE id = ?').get(documentId);
  // The number of one that was removed may be that of another by now.
  if (row && (row.state !== 'writing' || row.agent_id !== agentId || row.source !== source)) return;
  cachedStatement(db, `UPDATE documents SET state = 'whole' WHERE id = ?`).run(documentId);
  dropWork(db, documentId);
  const never = `DELETE FROM documents WHERE id = ?1 AND hash IS NULL AND NOT EXISTS (SELECT 1 FROM document_chunks WHERE document_id = ?1)`;
  cachedStatement(db, never).run(documentId);
}

function dropWork(db: DatabaseSync, documentId: number): void {
  cachedStatement(db, `UPDATE document_work SET task = 'erase' WHERE document_id = ? AND task = 'publish'`).run(documentId);
  cachedStatement(db, `DELETE FROM document_work WHERE document_id = ? AND task <> 'erase'`).run(documentId);
}

/** One step. @returns whether nothing is left to erase */
export function eraseBroken(db: DatabaseSync): boolean {
  const due = cachedStatement(db, `SELECT * FROM document_work WHERE task = 'erase' LIMIT ?`).all(PAGE_PIECES);
  for (const { document_id: documentId, memory_id: id } of due) {
    cachedStatement(db, 'DELETE FROM document_work WHERE document_id = ? AND memory_id = ?').run(documentId!, id!);
    erase(db, String(id));
  }
  return due.length < PAGE_PIECES;
}

function erase(db: DatabaseSync, id: string): void {
  cachedStatement(db, 'DELETE FROM memory_history WHERE memory_id = ?').run(id);
  cachedStatement(db, `DELETE FROM memories WHERE id = ? AND scope = 'archived'`).run(id);
}

function workOf(db: DatabaseSync, documentId: number, tasks: readonly string[], limit: number): Row[] {
  const sql = 'SELECT * FROM document_work WHERE document_id = ? AND task IN (SELECT value FROM json_each(?)) LIMIT ?';
  return cachedStatement(db, sql).all(documentId, JSON.stringify(tasks), limit);
}

export function documentsIn(db: DatabaseSync, states: readonly string[]): Row[] {
  const sql = 'SELECT id, agent_id, source FROM documents WHERE state IN (SELECT value FROM json_each(?))';
  return cachedStatement(db, sql).all(JSON.stringify(states));
}
