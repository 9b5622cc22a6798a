import { type Features, WEIGHTS } from './features.ts';
import type { Measured } from './measure.ts';
import { meaningOf } from './score.ts';

/** How surely a memory answers: to be relied on, to be shown as possibly related, to be shown beside a strong one at most, or not to be shown unasked. */
export type Match = 'strong' | 'possible' | 'faint' | 'none';

/** What the signs below must add up to in a small store for a memory to be possibly related … */
const POSSIBLE_FROM = 5.15;
/** … and by how much more for every time the store is 2.7 times as large: the more memories, the sooner one fits by chance. */
const MORE_BY_SIZE = 0.4;
const SMALL_STORE = 40;
const LARGE_STORE = 500;
/** So much above it a memory can be relied on. */
const STRONG_ABOVE = 1.2;
/** So much below it a memory is worth a line beside one that can be relied on. */
const FAINT_BELOW = -1.5;
/** What covering the whole question adds to the signs. */
const COVERED = 2;

/** Signs that tell which of several memories is meant, but nothing of whether any of them answers. */
const TELL_NOTHING = ['author', 'personal', 'length', 'time', 'number'] as const satisfies readonly (keyof Features)[];

/**
 * How sure it is that a memory answers at all, 0 being just enough to show it. Chosen on questions that can be answered against such as cannot.
 *
 * @param size  memories it was found among
 */
export function certaintyOf({ relevance, coverage, around, features }: Measured, size: number): number {
  const signs = TELL_NOTHING.reduce((sum, name) => sum - WEIGHTS[name] * features[name], relevance);
  const among = Math.log(Math.min(Math.max(size, SMALL_STORE), LARGE_STORE) / SMALL_STORE);
  return signs + COVERED * (coverage + around) - POSSIBLE_FROM - MORE_BY_SIZE * among;
}

/** From this score on words found by full text alone, or a likeness of meaning, can be relied on; from that one on they are shown. */
const STRONG_SCORE_MIN = 0.45;
const POSSIBLE_SCORE_MIN = 0.25;

/** What is known of a memory where its signs are not: a score of 0..1. */
export function matchOfScore(score: number): Match {
  return score >= STRONG_SCORE_MIN ? 'strong' : score >= POSSIBLE_SCORE_MIN ? 'possible' : 'none';
}

/** Best first, each with the certainty it takes. */
const MATCHES: readonly { readonly match: Match; readonly from: number }[] = [
  { match: 'strong', from: STRONG_ABOVE },
  { match: 'possible', from: 0 },
  { match: 'faint', from: FAINT_BELOW },
  { match: 'none', from: Number.NEGATIVE_INFINITY },
];

export function matchOf({ certainty, likeness }: { readonly certainty: number; readonly likeness?: number | undefined }): Match {
  const byWords = MATCHES.findIndex(({ from }) => certainty >= from);
  const byMeaning = likeness === undefined ? MATCHES.length : MATCHES.findIndex(({ match }) => match === matchOfScore(meaningOf(likeness)));
  return MATCHES[Math.min(byWords, byMeaning)]?.match ?? 'none';
}
