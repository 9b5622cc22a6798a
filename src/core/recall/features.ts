/** What each sign of relevance is worth; BM25 of the best memory is 1. */
export const WEIGHTS = {
  words: 1,
  previous: 1,
  beforePrevious: 0.75,
  next: 0.25,
  session: 1.75,
  window: 3,
  coordination: 1.5,
  author: 0.6,
  question: -1,
  length: 1.3,
  time: 2,
  number: 1,
  date: 3,
  rank: 1,
  pairs: 0.4,
} as const;

/** The signs of one memory, before their weights. */
export type Features = Readonly<Record<keyof typeof WEIGHTS, number>>;

export const NO_FEATURES = Object.fromEntries(Object.keys(WEIGHTS).map((name) => [name, 0])) as Features;
