import { type Features, WEIGHTS } from './features.ts';

/** One sign of relevance, in plain words. */
export interface ExplainedPart {
  readonly name: string;
  readonly says: string;
  /** Of all that speaks for the memory, 0..1; below 0 for what speaks against it. */
  readonly share: number;
}

const SAYS: Readonly<Record<keyof Features, string>> = {
  words: 'it holds words of the question, or words close to them',
  previous: 'what was said right before it does',
  beforePrevious: 'what was said two before it does',
  next: 'what was said right after it does',
  session: 'its session speaks of the question',
  window: 'together with what was said around it, it covers the question',
  coordination: 'it holds many of the different words',
  author: 'the author is whom the question names (or is not)',
  personal: 'the question is about the asker, and so is the memory',
  length: 'it is long enough to tell something',
  time: 'the question asks when, and it tells a time',
  number: 'the question asks how many, and it tells a number',
  date: 'it is of the date that the question names',
  rank: 'it is among the best by words alone',
  pairs: 'words follow each other as in the question',
};

/** What put a memory where it stands: each sign that counts with its share, greatest first. */
export function explainedParts(features: Features): ExplainedPart[] {
  const parts = (Object.keys(SAYS) as (keyof Features)[]).map((name) => ({ name, worth: WEIGHTS[name] * features[name] }));
  const all = parts.reduce((sum, { worth }) => sum + Math.max(0, worth), 0);
  return parts
    .filter(({ worth }) => worth !== 0 && all > 0)
    .sort((a, b) => b.worth - a.worth)
    .map(({ name, worth }) => ({ name, says: SAYS[name], share: Math.round((worth / all) * 1_000) / 1_000 }));
}
