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
  /** The same over `n`, a memory that is named by one it holds for; undefined where links are told as they are stored. */
  readonly links?: Condition;
  readonly [madeHere]: true;
}

/**
 * Memories a reader may see: global ones (of its circle, when its policy gives it one) and its own private ones, never archived, never deleted.
 *
 * @param deleted  `included` for changes alone, which must tell a deleted memory from one that never was
 * @source spec/multi-agent, "buildAgentScopeClause"
 */
export function visibleTo(reader: Reader, deleted: 'hidden' | 'included' = 'hidden'): ScopeCondition {
  const scope = ruleOf(reader, 'm');
  if (deleted === 'included') return scope as unknown as ScopeCondition;
  return { ...scope, links: ruleOf(reader, 'n'), sql: `m.deleted_at IS NULL AND ${scope.sql}` } as unknown as ScopeCondition;
}

/** The rule itself, over a memory of this alias. */
function ruleOf({ agentId, circle, within }: Reader, alias: string): Condition {
  const own = agentId === null ? undefined : `${alias}.scope = 'private' AND ${alias}.agent_id = ?`;
  const seen = circle === undefined ? '' : ` AND ${alias}.agent_id IN (SELECT value FROM json_each(?))`;
  const global = `${alias}.scope = 'global'${seen}`;
  const values = [...(circle === undefined ? [] : [JSON.stringify(circle)]), ...(agentId === null ? [] : [agentId])];
  const rule = own === undefined ? `(${global})` : `((${global}) OR (${own}))`;
  if (within === undefined) return { sql: rule, values };
  const none = within.orNone ? ` OR ${alias}.project IS NULL` : '';
  return { sql: `(${rule} AND (${alias}.project = ?${none}))`, values: [...values, within.project] };
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

/** Everything of one agent, forgotten and archived ones as well: for its removal and for counts alone. */
export function byOwner(agentId: string): ScopeCondition {
  return { sql: 'm.agent_id = ?', values: [agentId] } as unknown as ScopeCondition;
}

/** Every memory of every agent, forgotten and archived ones as well: for copies of the whole store and for its upkeep alone. */
export function everything(): ScopeCondition {
  return { sql: 'TRUE', values: [] } as unknown as ScopeCondition;
}

/** The term counts a reader's scores may draw on: counting other agents' words would tell of them. */
export function viewsOf({ agentId, circle, apart = [] }: Reader): string[] {
  const globals = (circle ?? apart).map((owner) => `global:${owner}`);
  const own = agentId === null ? [] : [`private:${agentId}`];
  return [...(circle === undefined ? ['global'] : []), ...globals, ...own];
}

/**
 * The view that counts a memory's terms; undefined for archived ones.
 *
 * @param apart  agents whose global memories have a view of their own, because some reader sees only some of them
 */
export function viewOf(memory: { agentId: string; scope: string }, apart: readonly string[] = []): string | undefined {
  if (memory.scope === 'archived') return undefined;
  if (memory.scope !== 'global') return `private:${memory.agentId}`;
  return apart.includes(memory.agentId) ? `global:${memory.agentId}` : 'global';
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
  const { links } = query.scope;
  const columns = links === undefined ? COLUMNS : COLUMNS.replace('m.superseded_by', seenLink(links));
  const statement = cachedStatement(db, `SELECT ${columns} FROM ${from} ${where}${pool}${ordered} LIMIT ? OFFSET ?`);
  // Arrays are read about twice as fast as objects, and this is the reader of everything.
  statement.setReturnArrays(true);
  const values = [
    ...(links?.values ?? []),
    ...matchValues,
    ...whereValues,
    ...poolValues,
    ...(order?.values ?? []),
    query.limit,
    query.offset ?? 0,
  ];
  return (statement.all(...values) as unknown as SQLOutputValue[][]).map(toRow);
}

/** The id of the newer memory, as long as it lives and the reader may see it. */
function seenLink({ sql }: Condition): string {
  return `(SELECT n.id FROM memories n WHERE n.id = m.superseded_by AND n.id <> m.id AND n.deleted_at IS NULL AND ${sql})`;
}

/** Sorting costs more than finding, so a single memory is not sorted. */
const BY_SEQ: Condition = { sql: 'm.seq', values: [] };

/** Rows of the living global memories of these agents: for the upkeep of the index alone. */
export function globalsOf(db: DatabaseSync, owners: readonly string[]): number[] {
  const where = {
    sql: `m.deleted_at IS NULL AND m.scope = 'global' AND m.agent_id IN (SELECT value FROM json_each(?))`,
    values: [JSON.stringify(owners)],
  };
  return measureMemories(db, everything(), [where], ['m.seq AS seq']).map((row) => Number(row.seq));
}

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
