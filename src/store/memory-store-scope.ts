import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite';
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

/** The condition no statement over memories goes without; only functions of this file make one. */
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

/** Living memories that everybody who sees this one sees as well. */
export function heldInViewOf({ agentId, scope }: Pick<Memory, 'agentId' | 'scope'>): ScopeCondition {
  if (scope !== 'global') return heldBy(agentId, scope);
  return { sql: `m.deleted_at IS NULL AND m.scope = 'global'`, values: [] } as unknown as ScopeCondition;
}

/** Every memory of every agent, forgotten and archived ones as well: for copies of the whole store and for its upkeep alone. */
export function everything(): ScopeCondition {
  return { sql: 'TRUE', values: [] } as unknown as ScopeCondition;
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
  readonly offset?: number;
  /** Choose among the first `size` memories of each of these orders only (those with an index are cheap). */
  readonly pool?: { readonly orders: readonly string[]; readonly size: number };
}

export interface MemoryRow {
  readonly seq: number;
  readonly memory: Memory;
  readonly deletedAtMs: number | null;
  readonly idempotencyKey: string | null;
}

/** The only reader of the table `memories`: there is no way around a scope. */
export function selectMemories(db: DatabaseSync, query: MemoryQuery): MemoryRow[] {
  const conditions = [query.scope, ...(query.where ?? [])];
  const where = conditions.map((condition) => condition.sql).join(' AND ');
  const whereValues = conditions.flatMap((condition) => condition.values);
  const order = query.order ?? (query.limit === 1 ? undefined : BY_SEQ);
  const parts = (query.pool?.orders ?? []).map(
    (sql) => `SELECT * FROM (SELECT m.seq FROM memories m WHERE ${where} ORDER BY ${sql} LIMIT ?)`,
  );
  const pool = parts.length === 0 ? '' : ` AND m.seq IN (${parts.join(' UNION ALL ')})`;
  const poolValues = parts.flatMap(() => [...whereValues, query.pool!.size]);
  const from = query.match === undefined ? 'memories m WHERE' : MATCHING;
  const matchValues = query.match === undefined ? [] : [query.match];
  const ordered = order === undefined ? '' : ` ORDER BY ${order.sql}`;
  const statement = cachedStatement(db, `SELECT ${COLUMNS} FROM ${from} ${where}${pool}${ordered} LIMIT ? OFFSET ?`);
  // Arrays are read about twice as fast as objects, and this is the reader of everything.
  statement.setReturnArrays(true);
  const values = [...matchValues, ...whereValues, ...poolValues, ...(order?.values ?? []), query.limit, query.offset ?? 0];
  return (statement.all(...values) as unknown as SQLOutputValue[][]).map(toRow);
}

/** Sorting costs more than finding, so a single memory is not sorted. */
const BY_SEQ: Condition = { sql: 'm.seq', values: [] };

/** Figures over the memories of a scope, each an SQL aggregate over `m`. */
export function measureMemories(
  db: DatabaseSync,
  scope: ScopeCondition,
  where: readonly Condition[],
  figures: readonly string[],
): Record<string, SQLOutputValue>[] {
  const conditions = [scope, ...where];
  const sql = `SELECT ${figures.join(', ')} FROM memories m WHERE ${conditions.map((condition) => condition.sql).join(' AND ')}`;
  return cachedStatement(db, sql).all(...conditions.flatMap((condition) => condition.values));
}

/** CROSS JOIN keeps the order: hits first, then their rows. */
const MATCHING = 'memories_fts CROSS JOIN memories m ON m.seq = memories_fts.rowid WHERE memories_fts MATCH ? AND';

/** In the order in which `toRow` takes them. */
const COLUMNS = `m.seq, m.deleted_at, m.idempotency_key, m.id, m.content, m.type, m.importance, m.tags, m.pinned, m.who, m.agent_id, m.scope, m.project,
  m.source_type, m.source_id, m.session_id, m.supersedes, m.superseded_by, m.version, m.created_at, m.updated_at, m.access_count`;

function toRow(columns: readonly SQLOutputValue[]): MemoryRow {
  const [seq, deletedAt, idempotencyKey, id, content, type, importance, tags, pinned, who, agentId, scope, project, ...rest] = columns;
  const [sourceType, sourceId, sessionId, supersedes, supersededBy, version, createdAt, updatedAt, accessCount] = rest;
  return {
    seq: Number(seq),
    deletedAtMs: deletedAt === null ? null : Number(deletedAt),
    idempotencyKey: textOf(idempotencyKey),
    memory: {
      id: String(id),
      content: String(content),
      type: String(type),
      importance: Number(importance),
      tags: textOf(tags),
      pinned: pinned === 1,
      who: String(who),
      agentId: String(agentId),
      scope: scope as Scope,
      project: textOf(project),
      source_type: String(sourceType),
      source_id: textOf(sourceId),
      session_id: textOf(sessionId),
      supersedes: textOf(supersedes),
      superseded_by: textOf(supersededBy),
      version: Number(version),
      created_at: isoTime(Number(createdAt)),
      updated_at: isoTime(Number(updatedAt)),
      access_count: Number(accessCount),
    },
  };
}

function textOf(value: SQLOutputValue | undefined): string | null {
  return value === null || value === undefined ? null : String(value);
}
