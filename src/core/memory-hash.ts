import { hash } from 'node:crypto';
import { normalForm } from './normal-form.ts';

/** What people and harnesses put before a memory without meaning it; several may follow each other. */
const NOISE_BEFORE =
  /^(?:(?:[-*•·–—+]|\d{1,3}[.)]|\[[ x]\]|>|#{1,6})\s+(?!\d)|(?:please )?(?:remember|note|keep in mind|be aware|don['’]t forget)(?: that\b|:)\s*|(?:just )?(?:so (?:that )?you know|for (?:your information|the record)|as a (?:reminder|note)|by the way|heads[ -]up|quick (?:note|reminder))\b[:,]?\s*(?:that\b\s*)?|(?:fyi|btw|reminder|memo|psa)\b[:,]?\s*|(?:the )?(?:user|human|assistant) (?:said|says|told (?:me|us|you)|mentioned|noted|wrote|asked to remember)(?: that\b|[:,])\s*)/i;
/** Introductions that are read off one text. */
const NOISE_BEFORE_MAX = 4;
/** What they put behind it. */
const NOISE_BEHIND = /\s*\((?:noted again|again|reminder|see above)\)[\s.!]*$/i;
/** A sign at the edge of a word that is no part of it; a minus before a number is. */
const EDGE = /[\s"'`“”‘’«»()[\]{}*,;:!?…]/;
/** `!` before a word or `=` negates: `!flag`, `!=`. A note behind a word, or alone, does not. */
const NEGATION = /^["'`“”‘’«»()[\]{}*]*(!+)(?==|[\p{L}\p{N}_$(])/u;
const ARTICLES = new Set(['an', 'the']);
const SENTENCE_END = /[.!?:;]["'”’)\]]*$/;

/**
 * What two writings of the same memory have in common: the ordered words. Case, white space, articles, quotes, punctuation at the edges of words
 * and introductions such as `remember that` do not matter; negations, numbers, the order and an `A` that is a name do.
 */
export function canonicalText(content: string): string {
  const plain = normalForm(content, 'NFKC').replace(/\s+/gu, ' ').trim();
  const told = withoutIntroduction(plain).replace(NOISE_BEHIND, '').split(' ');
  const shouted = !/\p{Ll}/u.test(plain);
  const words = told
    .filter((_, index) => !isArticle(told, index, shouted))
    .map(bareWord)
    .filter((word) => word !== '');
  // A memory made of punctuation or articles alone is itself.
  return words.join(' ') || plain.toLowerCase();
}

/** `- Just so you know, the port is 80` → `the port is 80`; a text that is nothing but introduction stays. */
function withoutIntroduction(plain: string): string {
  let told = plain;
  for (let read = 0; read < NOISE_BEFORE_MAX; read += 1) {
    const rest = told.replace(NOISE_BEFORE, '');
    if (rest === told || rest === '') break;
    told = rest;
  }
  return told;
}

/** Behind a word, a full stop is no part of it either. By hand, for a pattern would begin anew at every sign within the word. */
function withoutEdges(word: string): string {
  let [from, to] = [0, word.length];
  while (from < to && EDGE.test(word[from]!)) from += 1;
  while (to > from && (word[to - 1] === '.' || EDGE.test(word[to - 1]!))) to -= 1;
  return word.slice(from, to);
}

function bareWord(written: string): string {
  const word = withoutEdges(written.toLowerCase());
  const negated = NEGATION.exec(written)?.[1];
  return negated === undefined ? word : negated + word;
}

/** `a` is one before another word alone: `Plan a` ends with a name; and so is a capital `A` within a sentence that is not all capitals. */
function isArticle(told: readonly string[], index: number, shouted: boolean): boolean {
  const written = told[index]!;
  const bare = withoutEdges(written);
  const word = bare.toLowerCase();
  if (word !== 'a') return ARTICLES.has(word);
  const begins = index === 0 || SENTENCE_END.test(told[index - 1]!);
  const beforeWord = written.endsWith(bare) && index + 1 < told.length;
  return beforeWord && (bare === 'a' || begins || shouted);
}

/** SHA-256 of the canonical text, in hex. */
export function contentHash(content: string): string {
  return canonicalHash(canonicalText(content));
}

/** The same of a text that is canonical already. */
export function canonicalHash(canonical: string): string {
  return hash('sha256', canonical, 'hex');
}
