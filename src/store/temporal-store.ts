import type { DatabaseSync } from 'node:sqlite';
import type { TemporalNode } from '../contract/transcript.ts';
import { isoTime, newId } from '../core/clock.ts';
import {
  ARCS_PER_EPOCH,
  type Condensable,
  type NodeDraft,
  type NodeFilter,
  type NodeHit,
  SESSIONS_PER_ARC,
  type TemporalStore,
} from '../core/temporal.ts';
import { sinceArchived } from './agent-archive.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';
import { matchAny } from './transcript-match.ts';

/** Hits that are looked at closely. */
const CANDIDATES_MAX = 50;
const DEPTHS: Readonly<Record<TemporalNode['kind'], number>> = { session: 0, compaction: 0, arc: 1, epoch: 2 };

type Row = Record<string, unknown>;

/**
 * Nodes of one agent that are still to be told: what was forgotten, archived or purged as a memory is not told by its node either, and what
 * was modified is told in its new words. The memory itself says so, hence a recovered one brings its node back.
 */
const TOLD = (alias: string): string => `${sinceArchived(`${alias}.agent_id`, `${alias}.created_at`)} AND (${alias}.memory_id IS NULL
  OR EXISTS (SELECT 1 FROM memories m WHERE m.id = ${alias}.memory_id AND m.deleted_at IS NULL AND m.scope <> 'archived'))`;
/** The words of the memory come last: of two columns with one name the last is the one that is read. */
const NODE_COLUMNS = `n.*, coalesce((SELECT m.content FROM memories m WHERE m.id = n.memory_id), n.content) AS content`;

/** The graph on the table `temporal_nodes`; an edge is the column `parent_id` of the child. */
export function createTemporalStore({ db, clock, read, write }: Access): TemporalStore {
  return {
    add: (draft) => write(() => addNode(db, draft, clock.now())),
    heads: (agentId, query) => read(() => findHeads(db, agentId, query)),
    list: (agentId, filter) => read(() => listNodes(db, agentId, filter)),
    condensable: (agentId) => read(() => findCondensable(db, agentId)),
    newestMs: (agentId) =>
      read(() => {
        const newest = cachedStatement(db, 'SELECT max(created_at) AS at FROM temporal_nodes WHERE agent_id = ?').get(agentId)?.at;
        return newest === null || newest === undefined ? undefined : Number(newest);
      }),
  };
}

function addNode(db: DatabaseSync, draft: NodeDraft, nowMs: number): TemporalNode {
  const known = draft.source && cachedStatement(db, 'SELECT * FROM temporal_nodes WHERE source = ?').get(draft.source);
  if (known) return toNode(known);
  const id = newId('tmp');
  const row = cachedStatement(
    db,
    `INSERT INTO temporal_nodes (id, agent_id, project, session_key, harness, kind, depth, content, memory_id, source, earliest_at, latest_at, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING *`,
  ).get(
    id,
    draft.agentId,
    draft.project ?? null,
    draft.sessionKey ?? null,
    draft.harness ?? null,
    draft.kind,
    DEPTHS[draft.kind],
    draft.content,
    draft.memoryId ?? null,
    draft.source ?? null,
    draft.earliestMs,
    draft.latestMs,
    nowMs,
  );
  const adopt = cachedStatement(db, 'UPDATE temporal_nodes SET parent_id = ? WHERE id = ? AND agent_id = ? AND parent_id IS NULL');
  for (const child of draft.children ?? []) adopt.run(id, child, draft.agentId);
  return toNode(row!);
}

function findHeads(
  db: DatabaseSync,
  agentId: string,
  { text, project, notSessionKey, limit }: Parameters<TemporalStore['heads']>[1],
): NodeHit[] {
  // Most agents have no threads yet, and looking words up costs more than this.
  if (!cachedStatement(db, 'SELECT 1 FROM temporal_nodes WHERE agent_id = ? AND parent_id IS NULL LIMIT 1').get(agentId)) return [];
  const match = text === undefined ? undefined : matchAny(db, 'temporal_vocabulary', text);
  if (text !== undefined && match === undefined) return [];
  // CROSS JOIN keeps the order: hits first, then their rows.
  const from = match ? 'temporal_fts f CROSS JOIN temporal_nodes n ON n.seq = f.rowid AND temporal_fts MATCH ?5' : 'temporal_nodes n';
  const isHead = `NOT EXISTS (SELECT 1 FROM temporal_nodes newer WHERE newer.agent_id = n.agent_id AND newer.parent_id IS NULL
    AND newer.depth = n.depth AND newer.session_key IS n.session_key AND newer.project IS n.project AND newer.seq > n.seq
    AND ${TOLD('newer')})`;
  const sql = `SELECT ${NODE_COLUMNS} FROM ${from} WHERE n.agent_id = ?1 AND n.parent_id IS NULL AND (?2 IS NULL OR n.project IS NULL OR n.project = ?2)
    AND (?3 IS NULL OR n.session_key IS NULL OR n.session_key <> ?3) AND ${TOLD('n')} AND ${isHead}
    ORDER BY ${match ? 'bm25(temporal_fts), ' : ''}n.latest_at DESC, n.seq DESC LIMIT ?4`;
  const values = [agentId, project ?? null, notSessionKey ?? null, match ? CANDIDATES_MAX : limit];
  const rows = cachedStatement(db, sql).all(...values, ...(match ? [match.expression] : []));
  const hits = rows.map((row): NodeHit => ({ ...toNode(row), score: match ? match.coverage(String(row.content)) : 0 }));
  // The index knows the words a modified memory had before: they are no hit. Stable: equal coverage keeps the order of bm25.
  return hits
    .filter((hit) => !match || hit.score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, limit);
}

function listNodes(db: DatabaseSync, agentId: string, filter: NodeFilter & { limit: number; offset: number }) {
  const where = `n.agent_id = ?1 AND (?2 IS NULL OR n.project = ?2) AND (?3 IS NULL OR n.session_key = ?3) AND (?4 IS NULL OR n.depth = ?4)
    AND (?5 IS NULL OR n.parent_id = ?5) AND ${TOLD('n')}`;
  const values = [agentId, filter.project ?? null, filter.sessionKey ?? null, filter.depth ?? null, filter.parentId ?? null];
  const total = Number(cachedStatement(db, `SELECT count(*) AS total FROM temporal_nodes n WHERE ${where}`).get(...values)?.total);
  const sql = `SELECT ${NODE_COLUMNS}, (SELECT count(*) FROM temporal_nodes c WHERE c.parent_id = n.id AND ${TOLD('c')}) AS children FROM temporal_nodes n
    WHERE ${where} ORDER BY n.latest_at DESC, n.seq DESC LIMIT ?6 OFFSET ?7`;
  const rows = cachedStatement(db, sql).all(...values, filter.limit, filter.offset);
  return { nodes: rows.map((row) => ({ ...toNode(row), childCount: Number(row.children) })), total };
}

/** Arcs before epochs: the lower depth first. */
function findCondensable(db: DatabaseSync, agentId: string): Condensable | undefined {
  const sql = `SELECT project, depth FROM temporal_nodes n WHERE agent_id = ? AND parent_id IS NULL AND depth < 2 AND ${TOLD('n')}
    GROUP BY project, depth HAVING count(*) >= CASE depth WHEN 0 THEN ${SESSIONS_PER_ARC} ELSE ${ARCS_PER_EPOCH} END
    ORDER BY depth, min(seq) LIMIT 1`;
  const group = cachedStatement(db, sql).get(agentId);
  if (!group) return undefined;
  const depth = Number(group.depth);
  const nodesSql = `SELECT ${NODE_COLUMNS} FROM temporal_nodes n WHERE agent_id = ? AND parent_id IS NULL AND depth = ? AND project IS ?
    AND ${TOLD('n')} ORDER BY seq LIMIT ?`;
  const nodes = cachedStatement(db, nodesSql).all(
    agentId,
    depth,
    group.project as string | null,
    depth === 0 ? SESSIONS_PER_ARC : ARCS_PER_EPOCH,
  );
  return { project: group.project === null ? null : String(group.project), depth, nodes: nodes.map(toNode) };
}

function toNode(row: Row): TemporalNode {
  const text = (name: string): string | null => (row[name] === null ? null : String(row[name]));
  return {
    id: String(row.id),
    kind: row.kind as TemporalNode['kind'],
    depth: Number(row.depth),
    agentId: String(row.agent_id),
    project: text('project'),
    sessionKey: text('session_key'),
    harness: text('harness'),
    content: String(row.content),
    memoryId: text('memory_id'),
    parentId: text('parent_id'),
    earliestAt: isoTime(Number(row.earliest_at)),
    latestAt: isoTime(Number(row.latest_at)),
    createdAt: isoTime(Number(row.created_at)),
  };
}
