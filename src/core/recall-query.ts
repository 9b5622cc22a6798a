import { stem } from './recall-query-stem.ts';

/** Distinct terms of a query that count; a pasted file asks for no more than its first words. */
export const QUERY_TERMS_MAX = 64;
/** Terms that are searched for: the rarest ones, because the cost of a full-text match is the sum of their occurrences. */
export const MATCH_TERMS_MAX = 12;
/** Share of the query's weight from which the best hit can be trusted without a second look. */
export const STRONG_SCORE_MIN = 0.5;
/** Rarity is reckoned among at least so many memories: in a store of two, a word nobody has seen would outweigh all others. */
const DOCUMENTS_MIN = 100;

export interface QueryTerm {
  /** As the reader wrote it, in lower case and without accents; letters and digits only. */
  readonly word: string;
  readonly stem: string;
}

export interface WeightedTerm extends QueryTerm {
  /** Memories the reader may see that hold the term. */
  readonly documents: number;
  /** Inverse document frequency, above 0; a term nobody has seen weighs most. */
  readonly weight: number;
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
  const plain = text
    .normalize('NFD')
    .replace(/[\u0300-\u036f]+/g, '')
    .normalize('NFC');
  return plain.toLowerCase().match(WORD) ?? [];
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

/**
 * @param documents  memories the reader may see that hold the term
 * @param total      memories the reader may see
 */
export function weighTerm(term: QueryTerm, documents: number, total: number): WeightedTerm {
  const all = Math.max(total, documents, DOCUMENTS_MIN);
  return { ...term, documents, weight: Math.log(1 + (all - documents + 0.5) / (documents + 0.5)) };
}

/** The FTS5 expression: rarest terms that exist, each quoted, joined by OR. Undefined when no memory holds any of them. */
export function matchExpression(terms: readonly WeightedTerm[]): string | undefined {
  const known = terms.filter((term) => term.documents > 0).sort((a, b) => a.documents - b.documents);
  if (known.length === 0) return undefined;
  return known
    .slice(0, MATCH_TERMS_MAX)
    .map((term) => `"${term.word}"`)
    .join(' OR ');
}

/** Share of the query's weight that a text covers, 0..1. */
export function coverage(terms: readonly WeightedTerm[], text: string): number {
  const stems = stemsOf(text);
  let covered = 0;
  let whole = 0;
  for (const term of terms) {
    whole += term.weight;
    if (stems.has(term.stem)) covered += term.weight;
  }
  return whole === 0 ? 0 : Math.round((covered / whole) * 10_000) / 10_000;
}
