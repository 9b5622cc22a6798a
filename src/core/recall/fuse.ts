import { NO_FEATURES } from './features.ts';
import type { Entry } from './index-view.ts';
import type { RankedMemory } from './rank.ts';

/** What likeness of meaning is worth beside words; the best of each counts 1. */
const LIKENESS_WEIGHT = 0.5;
/** So many of the best of each way of searching … */
const KEPT_OF_EACH = 2;
/** … always stand among so many of the answer. */
const KEPT_WITHIN = 10;

export interface Likeness {
  readonly entry: Entry;
  /** Cosine, −1..1. */
  readonly likeness: number;
}

/**
 * One order out of two: by words, and by likeness of meaning (best first, both). Linear; what only one of them found counts 0 in the other.
 * The two best of each are always among the first ten.
 */
export function fuse(byWords: readonly RankedMemory[], byMeaning: readonly Likeness[]): RankedMemory[] {
  const bestWords = Math.max(byWords[0]?.relevance ?? 0, Number.EPSILON);
  const [most, least] = [byMeaning[0]?.likeness ?? 0, byMeaning.at(-1)?.likeness ?? 0];
  const spread = Math.max(most - least, Number.EPSILON);
  const likenesses = new Map(byMeaning.map(({ entry, likeness }) => [entry, likeness]));
  const known = new Set(byWords.map(({ entry }) => entry));
  const others = byMeaning
    .filter(({ entry }) => !known.has(entry))
    .map(
      ({ entry }): RankedMemory => ({
        entry,
        relevance: 0,
        coverage: 0,
        around: 0,
        certainty: Number.NEGATIVE_INFINITY,
        mask: 0,
        features: NO_FEATURES,
      }),
    );
  const fused = [...byWords, ...others].map((memory) => {
    const likeness = likenesses.get(memory.entry);
    const meaning = likeness === undefined ? 0 : (likeness - least) / spread;
    const relevance = memory.relevance / bestWords + LIKENESS_WEIGHT * meaning;
    return likeness === undefined ? { ...memory, relevance } : { ...memory, relevance, likeness };
  });
  fused.sort((a, b) => b.relevance - a.relevance);
  const kept = [...byWords.slice(0, KEPT_OF_EACH), ...byMeaning.slice(0, KEPT_OF_EACH)].map(({ entry }) => entry);
  return lift(fused, new Set(kept));
}

/** Those to be kept move up to the end of the first KEPT_WITHIN, if they stand behind it. */
function lift(fused: readonly RankedMemory[], kept: ReadonlySet<Entry>): RankedMemory[] {
  const late = fused.slice(KEPT_WITHIN).filter(({ entry }) => kept.has(entry));
  if (late.length === 0) return [...fused];
  const first = fused.slice(0, KEPT_WITHIN);
  const giving = first.filter(({ entry }) => !kept.has(entry)).slice(-late.length);
  const head = first.filter((memory) => !giving.includes(memory));
  const tail = fused.slice(KEPT_WITHIN).filter((memory) => !late.includes(memory));
  return [...head, ...late, ...giving, ...tail];
}
