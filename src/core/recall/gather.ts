import { LeastOfBest } from './best-of.ts';
import { NONE } from './index-columns.ts';
import type { Entry, IndexView } from './index-view.ts';
import { type Admits, type LookedUp, lookUp, type ViewHits } from './look-up.ts';

/** Memories that are scored in full: the best by their words … */
const BEST_BY_WORDS = 200;
/** … those around the first of them in their session … */
const AROUND = 2;
const WITH_NEIGHBOURS = 50;
/** … and all of the best sessions, unless a session is longer than anybody reads. */
const BEST_SESSIONS = 3;
const SESSION_ENTRIES_MAX = 200;

/** Whom to score in full: `slots[n]` of `hits[n]` has place `ranks[n]` by words alone; BEST_BY_WORDS those that came otherwise. */
export interface Gathered {
  readonly slots: readonly number[];
  readonly hits: readonly ViewHits[];
  readonly ranks: readonly number[];
  readonly bestBm: number;
  readonly bestSession: number;
}

/**
 * Look the terms up in every view, choose whom to score in full, and have it scored. What `admits` refuses counts for nothing.
 *
 * @param score  may use what it is given until it returns
 */
export function gather<T>(
  views: readonly IndexView[],
  terms: readonly LookedUp[],
  admits: Admits | undefined,
  score: (gathered: Gathered) => T,
): T {
  const totals = { size: 0, length: 0, sessions: 0 };
  for (const view of views) {
    totals.size += view.size;
    totals.length += view.length;
    totals.sessions += view.sessionCount;
  }
  const average = { memory: totals.length / Math.max(totals.size, 1), session: totals.length / Math.max(totals.sessions, 1) };
  const hits = views.map((view) => lookUp(view, terms, admits, average));
  try {
    const best = bestByWords(hits);
    const sessions = bestSessions(hits);
    const bestBm = best[0] ? best[0].hits.bm[best[0].slot]! : 0;
    return score({ ...withCompany(best, sessions, admits), bestBm, bestSession: sessions[0]?.bm ?? 0 });
  } finally {
    for (const each of hits) each.clear();
  }
}

export interface Found {
  readonly hits: ViewHits;
  readonly slot: number;
  /** BM25, or what else it is ordered by. */
  readonly value: number;
}

/** Best first: by words, then newest, then id. */
function bestByWords(hits: readonly ViewHits[]): Found[] {
  const best = new LeastOfBest(BEST_BY_WORDS);
  for (const each of hits) each.offerAll(best);
  const kept = hits.flatMap((each) => each.atLeast(best.least).map((slot): Found => ({ hits: each, slot, value: each.bm[slot]! })));
  return kept.sort((a, b) => b.value - a.value || newestFirst(a, b)).slice(0, BEST_BY_WORDS);
}

/** Order of two memories: the newer first; of the same moment, the greater id. */
export function newestFirst(a: Pick<Found, 'hits' | 'slot'>, b: Pick<Found, 'hits' | 'slot'>): number {
  const byTime = b.hits.view.columns.createdAtMs[b.slot]! - a.hits.view.columns.createdAtMs[a.slot]!;
  if (byTime !== 0) return byTime;
  const [first, second] = [a.hits.view.entry(a.slot)!.id, b.hits.view.entry(b.slot)!.id];
  return first > second ? -1 : 1;
}

interface FoundSession {
  readonly hits: ViewHits;
  readonly number: number;
  readonly bm: number;
}

/** The few best, best first; of equals, the one that ended last. */
function bestSessions(hits: readonly ViewHits[]): FoundSession[] {
  const best: FoundSession[] = [];
  let least = Number.NEGATIVE_INFINITY;
  for (const each of hits) {
    const { sessions, touchedSessions, touchedSessionsCount } = each;
    for (let index = 0; index < touchedSessionsCount; index += 1) {
      const number = touchedSessions[index]!;
      if (sessions[number]! < least) continue;
      const found = { hits: each, number, bm: sessions[number]! };
      const place = best.findIndex((other) => isBetter(found, other));
      if (place >= 0) best.splice(place, 0, found);
      else if (best.length < BEST_SESSIONS) best.push(found);
      if (best.length > BEST_SESSIONS) best.pop();
      if (best.length === BEST_SESSIONS) least = best[BEST_SESSIONS - 1]!.bm;
    }
  }
  return best;
}

function isBetter(a: FoundSession, b: FoundSession): boolean {
  if (a.bm !== b.bm) return a.bm > b.bm;
  return newestFirst({ hits: a.hits, slot: lastOf(a).slot }, { hits: b.hits, slot: lastOf(b).slot }) < 0;
}

function lastOf({ hits, number }: FoundSession): Entry {
  const { entries } = hits.view.session(number)!;
  return entries[entries.length - 1]!;
}

/** The best, those around them, and the best sessions; each once. */
function withCompany(best: readonly Found[], sessions: readonly FoundSession[], admits: Admits | undefined) {
  const slots: number[] = [];
  const hits: ViewHits[] = [];
  const ranks: number[] = [];
  const join = (each: ViewHits, slot: number, rank: number): void => {
    if (each.choose(slot) && each.admits(slot, admits)) {
      slots.push(slot);
      hits.push(each);
      ranks.push(rank);
    }
  };
  for (let rank = 0; rank < best.length; rank += 1) join(best[rank]!.hits, best[rank]!.slot, rank);
  for (const { hits: each, slot } of best.slice(0, WITH_NEIGHBOURS)) {
    const { previous, next } = each.view.columns;
    for (let step = 0, other = previous[slot]!; step < AROUND && other !== NONE; step += 1, other = previous[other]!)
      join(each, other, BEST_BY_WORDS);
    for (let step = 0, other = next[slot]!; step < AROUND && other !== NONE; step += 1, other = next[other]!)
      join(each, other, BEST_BY_WORDS);
  }
  for (const { hits: each, number } of sessions) {
    const { entries } = each.view.session(number)!;
    if (entries.length <= SESSION_ENTRIES_MAX) for (const { slot } of entries) join(each, slot, BEST_BY_WORDS);
  }
  return { slots, hits, ranks };
}
