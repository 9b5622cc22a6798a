import type { IndexView } from './index-view.ts';
import { type Admits, type LookedUp, TERMS_LOOKED_UP_MAX } from './look-up.ts';
import type { AskedTerm } from './query.ts';

/** Rarity is reckoned among at least so many memories: in a store of two, a word nobody has seen would outweigh all others. */
const DOCUMENTS_MIN = 100;
/** Words of a query that are looked up as they are, the rarest first; the room left is for words that stand in for them. */
const EXACT_TERMS_MAX = 20;
/** What a word that stands in for another is worth beside it. */
const STANDS_IN = 0.75;
/** A word that more memories hold needs nobody to stand in for it. */
const STOOD_IN_MAX = 10;
/** Memories looked at, of each term, to learn how many of those that hold it a filter lets through; fewer for words that stand in. */
const LOOKS_MAX = 64;
const LOOKS_FOR_OTHERS_MAX = 16;

export interface Weighing {
  readonly terms: readonly LookedUp[];
  /** Of all words of the query, those nobody has seen included. */
  readonly weight: number;
}

/** Inverse document frequency, above 0. */
export function idfOf({ documents, all }: { readonly documents: number; readonly all: number }): number {
  return Math.log(1 + (Math.max(all, documents, DOCUMENTS_MIN) - documents + 0.5) / (documents + 0.5));
}

/**
 * What each word of a query weighs among the memories a filter lets through, and what is looked up for it: the word itself, and where hardly any
 * memory holds it, words that may stand in for it. A word that no memory holds weighs as much as one that a single memory holds.
 *
 * @param all  memories that the filter lets through
 */
export function weigh(views: readonly IndexView[], asked: readonly AskedTerm[], admits: Admits | undefined, all: number): Weighing {
  const documentsOf = (stem: string, looksMax: number): number =>
    views.reduce((sum, view) => sum + view.documents(stem, admits, looksMax), 0);
  const counted = asked
    .map((term) => ({ term, documents: documentsOf(term.stem, LOOKS_MAX) }))
    .filter(({ term, documents }) => documents > 0 || !term.whole)
    .sort((a, b) => a.documents - b.documents)
    .map(({ term, documents }) => ({ term, documents, mass: term.weight * idfOf({ documents: Math.max(1, documents), all }), bits: 0 }));
  const terms: LookedUp[] = [];
  const look = (word: (typeof counted)[number], term: string, mass: number): void => {
    if (terms.length >= TERMS_LOOKED_UP_MAX) return;
    const bit = 1 << terms.length;
    terms.push({ term, idf: mass, bit, yieldsTo: word.bits });
    word.bits |= bit;
  };
  for (const word of counted.slice(0, EXACT_TERMS_MAX)) if (word.documents > 0) look(word, word.term.stem, word.mass);
  const own = new Set(asked.map(({ stem }) => stem));
  for (const word of counted) {
    const { term, documents, mass } = word;
    if (documents > STOOD_IN_MAX) continue;
    for (const other of standIns(views, term, documents)) {
      const held = own.has(other) ? 0 : documentsOf(other, LOOKS_FOR_OTHERS_MAX);
      if (held > 0) look(word, other, STANDS_IN * Math.min(mass, term.weight * idfOf({ documents: held, all })));
    }
  }
  return { terms, weight: counted.reduce((sum, { mass }) => sum + mass, 0) };
}

/** Related words; of a word that nobody has used also those that begin like it: `postgres` of `PostgreSQL`. */
function standIns(views: readonly IndexView[], { stem, whole, related }: AskedTerm, documents: number): ReadonlySet<string> {
  const alike = documents === 0 && !whole ? views.flatMap((view) => view.beginningLike(stem)) : [];
  return new Set([...alike, ...related]);
}
