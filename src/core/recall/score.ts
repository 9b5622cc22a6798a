import type { RankedMemory } from './rank.ts';

/** A best score from here on can be trusted without a second look. */
export const STRONG_SCORE_MIN = 0.45;
/** Strength is a matter of the first results only. */
export const STRONG_AMONG = 10;
/** Cosine at which two texts have nothing in common, for the models in use. */
const LIKENESS_OF_NOTHING = 0.5;

/**
 * Absolute, 0..1, not relative to the best hit: the share of the query's weight that the memory covers, half of it together with what was said
 * around it; or how alike it is in meaning, where that says more.
 */
export function scoreOf({ coverage, around, likeness = 0 }: RankedMemory): number {
  const meaning = (likeness - LIKENESS_OF_NOTHING) / (1 - LIKENESS_OF_NOTHING);
  return Math.round(Math.max((coverage + around) / 2, Math.min(meaning, 1)) * 10_000) / 10_000;
}
