import type { DatabaseSync } from 'node:sqlite';
import { queryTerms, stemsOf } from '../core/recall-query.ts';
import { cachedStatement } from './sqlite.ts';

/** Distinct words of a query that count. */
export const MATCH_WORDS_MAX = 12;
/** Texts the words that are searched for may occur in, together: the cost of a match is the sum of them. The rarest word is always searched for. */
const OCCURRENCES_MAX = 2_000;

export interface TextMatch {
  /** For `MATCH`: any of the words, each quoted; nothing in the text is an operator. */
  readonly expression: string;
  /** Share of the distinct words that a text holds, 0..1. */
  coverage(text: string): number;
}

/**
 * @param vocabulary  the fts5vocab table of the full-text index
 * @returns           undefined when there is nothing to search for, or no text holds any of it
 */
export function matchAny(
  db: DatabaseSync,
  vocabulary: 'transcript_vocabulary' | 'temporal_vocabulary',
  text: string,
): TextMatch | undefined {
  const terms = queryTerms(text, MATCH_WORDS_MAX);
  const count = cachedStatement(db, `SELECT doc FROM ${vocabulary} WHERE term = ?`);
  const known = terms
    .map((term) => ({ ...term, texts: Number(count.get(term.stem)?.doc ?? 0) }))
    .filter((term) => term.texts > 0)
    .sort((a, b) => a.texts - b.texts);
  let left = OCCURRENCES_MAX;
  const chosen = known.filter((term, index) => {
    left -= term.texts;
    return index === 0 || left >= 0;
  });
  if (chosen.length === 0) return undefined;
  return {
    expression: chosen.map((term) => `"${term.word}"`).join(' OR '),
    coverage: (content) => {
      const stems = stemsOf(content);
      return terms.filter((term) => stems.has(term.stem)).length / terms.length;
    },
  };
}
