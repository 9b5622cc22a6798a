/** What each sign of relevance is worth; BM25 of the best memory is 1. Fitted over several sets, leaving one out at a time: scripts/fit-recall.ts. */
export const WEIGHTS = {
  words: 1,
  previous: 0.75,
  beforePrevious: 0.75,
  next: 0.5,
  session: 1.25,
  window: 2,
  coordination: 1.5,
  author: 0.3,
  personal: 1.75,
  length: 0.75,
  time: 1,
  number: 1.25,
  date: 2.5,
  rank: 1.75,
  pairs: 0.4,
};

/** The signs of one memory, before their weights. */
export type Features = Readonly<Record<keyof typeof WEIGHTS, number>>;

export const NO_FEATURES = Object.fromEntries(Object.keys(WEIGHTS).map((name) => [name, 0])) as Features;
