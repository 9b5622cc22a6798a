import type { Memory, RecalledMemory } from '../contract/memory.ts';
import type { MemoryStore, Reader } from '../core/memory-store.ts';

/** How well memories match, best first. */
const MATCHES: readonly RecalledMemory['match'][] = ['strong', 'possible', 'faint', 'none'];
/** Links followed from one memory to the newest of its line; a longer chain ends there. */
const CHAIN_MAX = 8;

/**
 * Returns the found memories with the newest successor of each superseded one directly before it, also where no word of the query finds that
 * successor or a filter leaves it out. Order is otherwise kept. A successor has at least the score and the match of what it replaces.
 */
export async function besideSuccessors(
  memories: Pick<MemoryStore, 'get'>,
  reader: Reader,
  found: readonly RecalledMemory[],
): Promise<RecalledMemory[]> {
  if (found.every(({ superseded_by: id }) => id === null)) return [...found];
  const byId = new Map(found.map((memory) => [memory.id, memory]));
  for (const memory of found) await readSuccessors(memories, reader, memory, byId);
  const groups = new Map<RecalledMemory, RecalledMemory[]>();
  for (const memory of found) {
    const newest = newestOf(memory, byId);
    groups.set(newest, [...(groups.get(newest) ?? []), ...(memory === newest ? [] : [memory])]);
  }
  return [...groups].flatMap(([newest, older]) => {
    const best = older.reduce(
      (before, memory) => (MATCHES.indexOf(memory.match) < MATCHES.indexOf(before.match) ? memory : before),
      newest,
    );
    const score = Math.max(newest.score, ...older.map((memory) => memory.score));
    return [{ ...newest, score, match: best.match }, ...older];
  });
}

/** Returns the memories that were not shown lately; a superseded one counts as shown together with its successor. */
export function notShownLately(memories: readonly RecalledMemory[], shownIds: ReadonlySet<string>): RecalledMemory[] {
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  return memories.filter((memory) => !shownIds.has(memory.id) && !shownIds.has(newestOf(memory, byId).id));
}

/** Returns the newest memory of the line, as far as its links lead within `byId`; of a circle, the one that was stored last. */
export function newestOf<M extends Pick<Memory, 'id' | 'superseded_by' | 'created_at'>>(memory: M, byId: ReadonlyMap<string, M>): M {
  const passed = new Set<M>();
  let newest = memory;
  while (!passed.has(newest)) {
    passed.add(newest);
    const next = newest.superseded_by === null ? undefined : byId.get(newest.superseded_by);
    if (next === undefined) return newest;
    newest = next;
  }
  const circle = [...passed].slice([...passed].indexOf(newest));
  return circle.reduce((best, other) => (isNewer(other, best) ? other : best));
}

async function readSuccessors(
  memories: Pick<MemoryStore, 'get'>,
  reader: Reader,
  memory: RecalledMemory,
  byId: Map<string, RecalledMemory>,
): Promise<void> {
  let next = memory.superseded_by;
  for (let step = 0; step < CHAIN_MAX && next !== null; step += 1) {
    const known = byId.get(next);
    const newer = known ?? (await memories.get(reader, next));
    if (!newer) return;
    if (!known) byId.set(newer.id, asFound(newer, memory));
    next = newer.superseded_by;
  }
}

function asFound(newer: Memory, { source }: RecalledMemory): RecalledMemory {
  return { ...newer, score: 0, match: 'none', source, content_length: newer.content.length, truncated: false };
}

function isNewer(one: Pick<Memory, 'id' | 'created_at'>, other: Pick<Memory, 'id' | 'created_at'>): boolean {
  return one.created_at === other.created_at ? one.id < other.id : one.created_at > other.created_at;
}
