import type { Measured } from './measure.ts';

/** Cosine at which two texts have nothing in common, for the models in use. */
const LIKENESS_OF_NOTHING = 0.5;

/**
 * Absolute, 0..1, not relative to the best hit: the share of the query's weight that the memory covers, half of it together with what was said
 * around it; or how alike it is in meaning, where that says more.
 */
export function scoreOf({
  coverage,
  around,
  likeness = 0,
}: Pick<Measured, 'coverage' | 'around'> & { readonly likeness?: number | undefined }): number {
  return Math.round(Math.max((coverage + around) / 2, meaningOf(likeness)) * 10_000) / 10_000;
}

/** How much two texts have in common, 0..1, by the cosine of their vectors. */
export function meaningOf(likeness: number): number {
  return Math.min(Math.max((likeness - LIKENESS_OF_NOTHING) / (1 - LIKENESS_OF_NOTHING), 0), 1);
}
