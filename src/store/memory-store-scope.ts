import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import type { Memory, Scope } from '../contract/memory.ts';
import { isoTime } from '../core/clock.ts';
import type { Reader } from '../core/memory-store.ts';
import { cachedStatement } from './sqlite.ts';

declare const madeHere: unique symbol;

/** Part of a WHERE clause over `memories m`, with its values. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly SQLInputValue[];
}

/** The condition no statement over memories goes without; only `visibleTo` and `heldBy` make one. */
export interface ScopeCondition extends Condition {
  readonly [madeHere]: true;
}

/**
 * Memories a reader may see: global ones and its own private ones, never archived, never deleted.
 *
 * @param deleted  `included` for changes alone, which must tell a deleted memory from one that never was
 * @source spec/multi-agent, "buildAgentScopeClause"
 */
export function visibleTo(reader: Reader, deleted: 'hidden' | 'included' = 'hidden'): ScopeCondition {
  const scope =
    reader.agentId === null
      ? { sql: `m.scope = 'global'`, values: [] }
      : { sql: `(m.scope = 'global' OR (m.scope = 'private' AND m.agent_id = ?))`, values: [reader.agentId] };
  return (deleted === 'included' ? scope : { ...scope, sql: `m.deleted_at IS NULL AND ${scope.sql}` }) as unknown as ScopeCondition;
}

/** What one agent holds in one scope: the circle within which content and idempotency keys are unique. */
export function heldBy(agentId: string, scope: Scope): ScopeCondition {
  return { sql: 'm.deleted_at IS NULL AND m.agent_id = ? AND m.scope = ?', values: [agentId, scope] } as unknown as ScopeCondition;
}

/** The term counts a reader's scores may draw on: counting other agents' words would tell of them. */
export function viewsOf(reader: Reader): string[] {
  return reader.agentId === null ? ['global'] : ['global', `private:${reader.agentId}`];
}

/** The view that counts a memory's terms; undefined for archived ones. */
export function viewOf(memory: { agentId: string; scope: string }): string | undefined {
  if (memory.scope === 'archived') return undefined;
  return memory.scope === 'global' ? 'global' : `private:${memory.agentId}`;
}

export interface MemoryQuery {
  readonly scope: ScopeCondition;
  /** FTS5 expression; with it `bm25(memories_fts)` can be ordered by. */
  readonly match?: string;
  readonly where?: readonly Condition[];
  /** SQL over `m`, and with `match` over `memories_fts`. */
  readonly order?: Condition;
  readonly limit: number;
  /** Choose among the first `size` memories of each of these orders only (those with an index are cheap). */
  readonly pool?: { readonly orders: readonly string[]; readonly size: number };
}

export interface MemoryRow {
  readonly seq: number;
  readonly memory: Memory;
  readonly deletedAtMs: number | null;
}

/** The only reader of the table `memories`: there is no way around a scope. */
export function selectMemories(db: DatabaseSync, query: MemoryQuery): MemoryRow[] {
  const conditions = [query.scope, ...(query.where ?? [])];
  const where = conditions.map((condition) => condition.sql).join(' AND ');
  const whereValues = conditions.flatMap((condition) => condition.values);
  const order = query.order ?? { sql: 'm.seq', values: [] };
  const parts = (query.pool?.orders ?? []).map(
    (sql) => `SELECT * FROM (SELECT m.seq FROM memories m WHERE ${where} ORDER BY ${sql} LIMIT ?)`,
  );
  const pool = parts.length === 0 ? '' : ` AND m.seq IN (${parts.join(' UNION ALL ')})`;
  const poolValues = parts.flatMap(() => [...whereValues, query.pool!.size]);
  const from = query.match === undefined ? 'memories m WHERE' : MATCHING;
  const matchValues = query.match === undefined ? [] : [query.match];
  const sql = `SELECT m.* FROM ${from} ${where}${pool} ORDER BY ${order.sql} LIMIT ?`;
  const rows = cachedStatement(db, sql).all(...matchValues, ...whereValues, ...poolValues, ...order.values, query.limit);
  return rows.map((row) => ({
    seq: Number(row.seq),
    memory: toMemory(row),
    deletedAtMs: row.deleted_at === null ? null : Number(row.deleted_at),
  }));
}

/** CROSS JOIN keeps the order: hits first, then their rows. */
const MATCHING = 'memories_fts CROSS JOIN memories m ON m.seq = memories_fts.rowid WHERE memories_fts MATCH ? AND';

function toMemory(row: Record<string, unknown>): Memory {
  const text = (name: string): string | null => (row[name] === null ? null : String(row[name]));
  return {
    id: String(row.id),
    content: String(row.content),
    type: String(row.type),
    importance: Number(row.importance),
    tags: text('tags'),
    pinned: row.pinned === 1,
    who: String(row.who),
    agentId: String(row.agent_id),
    scope: row.scope as Scope,
    project: text('project'),
    source_type: String(row.source_type),
    session_id: text('session_id'),
    version: Number(row.version),
    created_at: isoTime(Number(row.created_at)),
    updated_at: isoTime(Number(row.updated_at)),
    access_count: Number(row.access_count),
  };
}
