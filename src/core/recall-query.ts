import { normalForm } from './normal-form.ts';
import { stem } from './recall-query-stem.ts';

/** Distinct terms of a query that count; a pasted file asks for no more than its first words. */
export const QUERY_TERMS_MAX = 64;

export interface QueryTerm {
  /** As the reader wrote it, in lower case and without accents; letters and digits only. */
  readonly word: string;
  readonly stem: string;
}

/** Words of questions and small talk: they say how something is asked, not what. */
const STOP_WORDS = new Set(
  (
    'a about above after again all also am an and any are aren as at be because been before being below between both but by can cannot could ' +
    'couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he hello her here hers ' +
    'hey hi him his how i if in into is isn it its just know let like ll m me might more most must my no nor not now of off ok okay on once only ' +
    'or other our ours out over own please re really s same shall she should shouldn so some such t tell thank thanks than that the their them ' +
    'then there these they this those through to too under until up us ve very was wasn we were weren what when where which while who whom whose ' +
    'why will with won would wouldn yeah yes you your yours'
  ).split(' '),
);

/** Letters and digits of any script; marks belong to their letter. Close to what SQLite's unicode61 takes as a token. */
const WORD = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** The same for plain ASCII, several times as fast. */
const ASCII_WORD = /[a-z0-9]+/g;

/** Words in reading order, in lower case, accents removed from Latin letters. */
export function wordsOf(text: string): string[] {
  if (!/[^\0-\x7f]/.test(text)) return text.toLowerCase().match(ASCII_WORD) ?? [];
  // Only the accents of Latin, Greek and Cyrillic go: vowel signs of other scripts are marks as well, and carry meaning.
  const bare = normalForm(text, 'NFD').replace(/[\u0300-\u036f]+/g, '');
  return normalForm(bare, 'NFC').toLowerCase().match(WORD) ?? [];
}

/** Distinct stems of a text. */
export function stemsOf(text: string): Set<string> {
  return new Set(wordsOf(text).map(stem));
}

/**
 * What a query asks for: distinct terms in reading order, stop words and single letters left out. Nothing in it is an operator.
 * Empty when there is nothing to search for.
 */
export function queryTerms(text: string, termsMax = QUERY_TERMS_MAX): QueryTerm[] {
  const terms = new Map<string, QueryTerm>();
  for (const word of wordsOf(text)) {
    if (STOP_WORDS.has(word) || /^[a-z]$/.test(word)) continue;
    const key = stem(word);
    if (!terms.has(key)) terms.set(key, { word, stem: key });
    if (terms.size >= termsMax) break;
  }
  return [...terms.values()];
}
