import type { RankedMemory } from './rank.ts';

/** A rating counts half after this; unit: days, whole ones, so that the same question gets the same answer all day. */
const HALF_LIFE_DAYS = 30;
const DAY_MS = 86_400_000;
/** What all ratings of a memory together may move, as a share of the best relevance. */
const SHARE_MAX = 0.1;
/** A rating whose query is not known speaks for the memory in general, and less loudly. */
const GENERAL_SHARE = 0.3;

export interface Rating {
  readonly memoryId: string;
  /** −1..1 */
  readonly rating: number;
  /** Stems of the query it was given for; undefined when that is not known. */
  readonly terms: ReadonlySet<string> | undefined;
  readonly ratedAtMs: number;
}

/** Memories rated well for words like these come forward, those rated badly step back, by SHARE_MAX at most. Keeps the order of equals. */
export function weighFeedback(
  ranked: readonly RankedMemory[],
  ratings: readonly Rating[],
  asked: readonly { readonly stem: string }[],
  nowMs: number,
): RankedMemory[] {
  const best = ranked[0]?.relevance ?? 0;
  const boosts = new Map<string, number>();
  for (const rating of ratings) boosts.set(rating.memoryId, (boosts.get(rating.memoryId) ?? 0) + weightOf(rating, asked, nowMs));
  const weighed = ranked.map((memory) => {
    const boost = Math.max(-1, Math.min(1, boosts.get(memory.entry.id) ?? 0));
    return boost === 0 ? memory : { ...memory, relevance: memory.relevance + boost * SHARE_MAX * Math.max(best, 0), feedback: boost };
  });
  return weighed.sort((a, b) => b.relevance - a.relevance);
}

function weightOf({ rating, terms, ratedAtMs }: Rating, asked: readonly { readonly stem: string }[], nowMs: number): number {
  const days = Math.max(0, Math.floor((nowMs - ratedAtMs) / DAY_MS));
  const decayed = rating * 0.5 ** (days / HALF_LIFE_DAYS);
  if (terms === undefined) return decayed * GENERAL_SHARE;
  const shared = asked.filter(({ stem }) => terms.has(stem)).length;
  return asked.length === 0 ? 0 : (decayed * shared) / asked.length;
}
