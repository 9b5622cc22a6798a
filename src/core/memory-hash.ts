import { hash } from 'node:crypto';

/** What people put before a memory without meaning it. */
const NOISE_BEFORE = /^(?:(?:please )?(?:remember|note|keep in mind)(?: that\b|:)|(?:fyi|btw|reminder|memo)\b[:,]?)\s*/;
/** What they put behind it. */
const NOISE_BEHIND = /\s*\((?:noted again|again|reminder|see above)\)[\s.!]*$/;
/** A sign at the edge of a word that is no part of it; a minus before a number is. */
const EDGE = /^[\s"'`“”‘’«»()[\]{}*,;:!?…]+|[\s"'`“”‘’«»()[\]{}*.,;:!?…]+$/gu;
const ARTICLES = new Set(['a', 'an', 'the']);

/**
 * What two writings of the same memory have in common: the ordered words. Case, white space, articles, quotes, punctuation at the edges of words
 * and introductions such as `remember that` do not matter; negations, numbers and the order do.
 */
export function canonicalText(content: string): string {
  const plain = content.normalize('NFKC').toLowerCase().replace(/\s+/gu, ' ').trim();
  const told = plain.replace(NOISE_BEFORE, '').replace(NOISE_BEHIND, '');
  const words = told
    .split(' ')
    .map((word) => word.replace(EDGE, ''))
    .filter((word) => word !== '' && !ARTICLES.has(word));
  // A memory made of punctuation or articles alone is itself.
  return words.join(' ') || plain;
}

/** SHA-256 of the canonical text, in hex. */
export function contentHash(content: string): string {
  return canonicalHash(canonicalText(content));
}

/** The same of a text that is canonical already. */
export function canonicalHash(canonical: string): string {
  return hash('sha256', canonical, 'hex');
}
