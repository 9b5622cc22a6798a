import type { DatabaseSync } from 'node:sqlite';
import type { Memory } from '../contract/memory.ts';
import { writeHistory } from './memory-history.ts';
import { type Condition, everything, heldInViewOf, measureMemories, selectMemories } from './memory-store-scope.ts';
import { cachedStatement } from './sqlite.ts';

type Newer = Pick<Memory, 'id' | 'agentId' | 'scope' | 'who'>;

/**
 * A newer memory takes the place of an older one: the older is kept and found, behind the newer. The older is marked only when whoever
 * sees it sees the newer as well: a private memory never changes what others find.
 *
 * The functions here run inside a transaction of their caller.
 */
export function supersede(db: DatabaseSync, newer: Newer, olderId: string, nowMs: number): void {
  if (newer.id === olderId) return;
  // Newest again: what took its place before has not done so any more.
  cachedStatement(db, 'UPDATE memories SET supersedes = ?, superseded_by = NULL WHERE id = ?').run(olderId, newer.id);
  const older = mark(db, newer, olderId);
  if (!older) return;
  const { version, content } = older;
  const note = { reason: `superseded by ${newer.id}`, changedBy: newer.who };
  writeHistory(db, { id: olderId, event: 'superseded', version, note, oldContent: content, newContent: content }, nowMs);
}

/** The newer memory is gone: the older one stands again, or behind the last one still there that took its place. */
export function releaseSuperseded(db: DatabaseSync, newer: Newer, olderId: string | null): void {
  if (olderId === null) return;
  const left = selectMemories(db, {
    scope: heldInViewOf(newer),
    where: [takingPlaceOf(olderId)],
    order: NEWEST,
    limit: 1,
  })[0];
  const sql = 'UPDATE memories SET superseded_by = ? WHERE id = ? AND superseded_by = ?';
  cachedStatement(db, sql).run(left?.memory.id ?? null, olderId, newer.id);
}

/** Says a memory, of whichever agent, that it took the place of this one? */
export function isSuperseded(db: DatabaseSync, id: string): boolean {
  return Number(measureMemories(db, everything(), [takingPlaceOf(id)], ['count(*) AS n'])[0]?.n) > 0;
}

/** A memory came (back) into the store: links from it and to it hold again. */
export function relinkSuperseded(db: DatabaseSync, memory: Memory): void {
  if (memory.supersedes !== null) mark(db, memory, memory.supersedes);
  const newest = selectMemories(db, {
    scope: heldInViewOf(memory),
    where: [takingPlaceOf(memory.id)],
    order: NEWEST,
    limit: 1,
  })[0];
  const id = newest?.memory.id ?? null;
  if (id !== memory.superseded_by) cachedStatement(db, 'UPDATE memories SET superseded_by = ? WHERE id = ?').run(id, memory.id);
}

const NEWEST: Condition = { sql: 'm.created_at DESC, m.id', values: [] };

/** By way of the index on links: asked for the newest, SQLite would walk over all memories by time. */
function takingPlaceOf(id: string): Condition {
  return { sql: 'm.seq IN (SELECT seq FROM memories INDEXED BY memories_by_superseded WHERE supersedes = ?)', values: [id] };
}

/** The older memory; undefined when there was nothing to mark. */
function mark(db: DatabaseSync, newer: Pick<Memory, 'id' | 'agentId' | 'scope'>, olderId: string): Memory | undefined {
  const older = selectMemories(db, { scope: heldInViewOf(newer), where: [{ sql: 'm.id = ?', values: [olderId] }], limit: 1 })[0];
  if (!older || older.memory.superseded_by === newer.id) return undefined;
  cachedStatement(db, 'UPDATE memories SET superseded_by = ? WHERE seq = ?').run(newer.id, older.seq);
  return older.memory;
}
