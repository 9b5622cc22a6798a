import type { DatabaseSync } from 'node:sqlite';
import { OPEN_POLICIES, type ReadPolicies } from '../core/agent-policy.ts';
import type { IndexStatus, MemoryFilter, Reader } from '../core/memory-store.ts';
import { certaintyOf, changeIn, mayChange, subjectStems, takesBack } from '../core/recall/change.ts';
import type { Entry, IndexedMemory, Newcomer } from '../core/recall/index-view.ts';
import type { Asked } from '../core/recall/query.ts';
import type { RankedMemory } from '../core/recall/rank.ts';
import { RecallIndex } from '../core/recall/recall-index.ts';
import {
  type Condition,
  everything,
  globalsOf,
  type MemoryRow,
  measureMemories,
  selectMemories,
  viewOf,
  viewsOf,
} from './memory-store-scope.ts';

/** Memories taken in before the store is open: a store of no more is ready at once. About 100 ms. */
const AT_OPEN_MAX = 2_000;
/** A larger one waits so long: first the process comes to its feet; unit: milliseconds. */
const BEGIN_AFTER_MS = 250;
/** Memories taken in at a time afterwards; between two slices the process answers. About 5 ms. */
const SLICE = 100;
/** Changed memories that are taken in within the commit that changed them; with more, the index is behind for a while, and says so. */
const CHANGES_AT_ONCE_MAX = 500;

/** The in-memory index over `memories`: filled at start, and kept even with every commit. */
export interface MemoryIndex {
  status(): IndexStatus;
  /** The best `limit`, or all; undefined while the index is behind the table. */
  rank(reader: Reader, asked: Asked, filter: MemoryFilter, limit?: number): RankedMemory[] | undefined;
  /** How many of the reader's memories hold a term, as far as the index is built. */
  counts(reader: Reader, term: string): { readonly documents: number; readonly all: number };
  /** How many memories the reader may see; undefined while the index is behind the table. */
  visible(reader: Reader): number | undefined;
  /** A check of rows for the vector arm: the memory, if the reader may see it and it passes the filter. */
  finder(reader: Reader, filter: MemoryFilter): (seq: number) => Entry | undefined;
  /** Rows of the rules, preferences and pinned memories the reader may see, the best `limit`; undefined while the index is behind the table. */
  standing(reader: Reader, filter: MemoryFilter, limit: number): number[] | undefined;
  /** Id of the memory whose place a new one takes, judged by its words. */
  predecessor(owner: { readonly agentId: string; readonly scope: string }, memory: Newcomer): string | undefined;
  /** Take in what the last commits changed. */
  refresh(): void;
  /** No further slices. */
  close(): void;
}

/**
 * @param db        the only connection that writes memories: its changes are heard of through triggers of the connection
 * @param policies  whose global memories have a view of their own
 */
export function createMemoryIndex(db: DatabaseSync, policies: () => ReadPolicies = () => OPEN_POLICIES): MemoryIndex {
  const index = new RecallIndex();
  const changed = new Set<number>();
  let apart = policies().apart;
  let readTo = 0;
  let isBuilt = false;
  let slice: NodeJS.Immediate | undefined;
  listen(db, (seq) => changed.add(seq));

  /** Reads on from where the last slice ended. */
  const build = (limit: number): void => {
    const rows = liveRows(db, [{ sql: 'm.seq > ?', values: [readTo] }], limit);
    for (const row of rows) if (!index.has(row.seq)) put(index, row, apart);
    isBuilt = rows.length < limit;
    readTo = rows.at(-1)?.seq ?? readTo;
  };
  const takeIn = (limit: number): void => {
    const seqs = [...changed].slice(0, limit);
    if (seqs.length === 0) return;
    const where = { sql: 'm.seq IN (SELECT value FROM json_each(?))', values: [JSON.stringify(seqs)] };
    const rows = new Map(liveRows(db, [where], limit).map((row) => [row.seq, row]));
    for (const seq of seqs) {
      putOrDrop(index, seq, rows.get(seq), apart);
      changed.delete(seq);
    }
  };
  const goOn = (): void => {
    clearImmediate(slice);
    slice = undefined;
    if (!db.isOpen) return;
    (changed.size > 0 ? takeIn : build)(SLICE);
    if (!isBuilt || changed.size > 0) slice = setImmediate(goOn);
  };
  const refresh = (): void => {
    if (changed.size <= CHANGES_AT_ONCE_MAX) takeIn(CHANGES_AT_ONCE_MAX);
    else slice ??= setImmediate(goOn);
  };
  /** Policies may change at any time: memories that now belong to another view are taken in anew. */
  const isEven = (): boolean => {
    const [before, now] = [apart, policies().apart];
    apart = now;
    for (const seq of movedRows(db, before, apart)) if (index.has(seq)) changed.add(seq);
    if (apart !== before) refresh();
    return isBuilt && changed.size === 0;
  };

  if (!isLarge(db)) build(AT_OPEN_MAX);
  const begin = isBuilt ? undefined : setTimeout(goOn, BEGIN_AFTER_MS);
  return {
    status: () => ({ state: isEven() ? 'ready' : 'building', memories: index.size }),
    rank: (reader, asked, filter, limit) => (isEven() ? index.rank(viewsOf(reader), asked, filter, limit) : undefined),
    counts: (reader, term) => index.counts(viewsOf(reader), term),
    visible: (reader) => (isEven() ? index.counts(viewsOf(reader), '').all : undefined),
    finder: (reader, filter) => index.finder(viewsOf(reader), filter),
    standing: (reader, filter, limit) => (isEven() ? index.standing(viewsOf(reader), filter, limit).map(({ seq }) => seq) : undefined),
    predecessor: (owner, memory) => predecessorOf(db, index, viewOf(owner, apart)!, memory)?.id,
    refresh,
    close: () => [clearTimeout(begin), clearImmediate(slice)],
  };
}

/** What says the same with another value, else what a new one says does not hold any more. */
function predecessorOf(db: DatabaseSync, index: RecallIndex, view: string, memory: Newcomer): Entry | undefined {
  return index.predecessor(view, memory) ?? replacedBy(db, index, view, memory);
}

/** The memory that a new one says does not hold any more; only what words of the subject find is read, and only where a change may be told. */
function replacedBy(db: DatabaseSync, index: RecallIndex, view: string, memory: Newcomer): Entry | undefined {
  if (!mayChange(memory.content)) return undefined;
  const change = changeIn(memory.content);
  const before = change.pointsBack ? index.before(view, memory) : undefined;
  const found = index.sharing(view, subjectStems(change), memory);
  if (found.length === 0 && before === undefined) return undefined;
  const texts = contentsOf(db, [...found, ...(before ? [before] : [])]);
  const judged = found.map((entry) => ({ entry, certainty: certaintyOf(change, texts.get(entry.seq) ?? '') }));
  const best = judged.reduce<(typeof judged)[number] | undefined>(
    (sure, one) => (one.certainty > (sure?.certainty ?? 0) ? one : sure),
    undefined,
  );
  if (best) return best.entry;
  return before && takesBack(change, texts.get(before.seq) ?? '') ? before : undefined;
}

function contentsOf(db: DatabaseSync, entries: readonly Entry[]): Map<number, string> {
  const where = { sql: 'm.seq IN (SELECT value FROM json_each(?))', values: [JSON.stringify(entries.map(({ seq }) => seq))] };
  const rows = measureMemories(db, everything(), [where], ['m.seq AS seq', 'm.content AS content']);
  return new Map(rows.map(({ seq, content }) => [Number(seq), String(content)]));
}

/** More rows than are taken in at open. */
function isLarge(db: DatabaseSync): boolean {
  return db.prepare('SELECT 1 FROM memories LIMIT 1 OFFSET ?').get(AT_OPEN_MAX) !== undefined;
}

/** Whoever writes to the table on this connection, in whatever way: the row is noted. A change rolled back is noted as well, which harms nothing. */
function listen(db: DatabaseSync, note: (seq: number) => void): void {
  db.function('signet_memory_changed', (seq) => {
    note(Number(seq));
    return null;
  });
  const columns =
    'content, type, importance, tags, pinned, who, agent_id, scope, project, session_id, created_at, deleted_at, superseded_by';
  db.exec(`
    CREATE TEMP TRIGGER memory_index_added AFTER INSERT ON main.memories BEGIN SELECT signet_memory_changed(new.seq); END;
    CREATE TEMP TRIGGER memory_index_changed AFTER UPDATE OF ${columns} ON main.memories BEGIN SELECT signet_memory_changed(new.seq); END;
    CREATE TEMP TRIGGER memory_index_erased AFTER DELETE ON main.memories BEGIN SELECT signet_memory_changed(old.seq); END;
  `);
}

/** Global memories of agents that have a view of their own now, or have it no more. */
function movedRows(db: DatabaseSync, before: readonly string[], now: readonly string[]): number[] {
  if (before === now) return [];
  return globalsOf(db, [...now.filter((owner) => !before.includes(owner)), ...before.filter((owner) => !now.includes(owner))]);
}

/** Rows of all agents: each goes into the view of those who may see it, and into no other. */
function liveRows(db: DatabaseSync, where: readonly Condition[], limit: number): MemoryRow[] {
  return selectMemories(db, { scope: everything(), where: [...where, { sql: 'm.deleted_at IS NULL', values: [] }], limit });
}

/** @param row  undefined for a memory that is not there any more */
function putOrDrop(index: RecallIndex, seq: number, row: MemoryRow | undefined, apart: readonly string[]): void {
  if (row) put(index, row, apart);
  else index.drop(seq);
}

function put(index: RecallIndex, row: MemoryRow, apart: readonly string[]): void {
  const view = viewOf(row.memory, apart);
  if (view === undefined) index.drop(row.seq);
  else index.put(view, indexed(row));
}

function indexed({ seq, memory }: MemoryRow): IndexedMemory {
  const { id, content, who, type, agentId, scope, project, tags, pinned, importance } = memory;
  return {
    seq,
    id,
    content,
    who,
    type,
    agentId,
    scope,
    project,
    tags,
    pinned,
    importance,
    sourceType: memory.source_type,
    sessionKey: memory.session_id,
    supersededBy: memory.superseded_by,
    createdAtMs: Date.parse(memory.created_at),
  };
}
