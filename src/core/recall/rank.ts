import {
  type Admits,
  type Candidate,
  type Gathered,
  gather,
  type LookedUp,
  NOT_HELD,
  TERMS_LOOKED_UP_MAX,
  type WordHit,
} from './gather.ts';
import { type Entry, type IndexView, isBefore, placeOf } from './index-view.ts';
import type { Asked, AskedTerm } from './query.ts';
import { dateMatch } from './time-words.ts';

/** What each sign of relevance is worth; BM25 of the best memory is 1. */
const WEIGHTS = {
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
const FEATURES = Object.keys(WEIGHTS) as (keyof typeof WEIGHTS)[];
const PAIRS_MAX = 2;
/** Rarity is reckoned among at least so many memories: in a store of two, a word nobody has seen would outweigh all others. */
const DOCUMENTS_MIN = 100;

/** The signs of one memory, before their weights. */
export type Features = Readonly<Record<keyof typeof WEIGHTS, number>>;

export const NO_FEATURES = Object.fromEntries(FEATURES.map((name) => [name, 0])) as Features;

export interface RankedMemory {
  readonly entry: Entry;
  /** Sum of the weighed features: orders within one query, means nothing beyond it. */
  readonly relevance: number;
  /** Share of the query's weight that the memory itself holds, 0..1. */
  readonly coverage: number;
  /** The same of the memory with those around it. */
  readonly around: number;
  /** Terms it holds, as bits. */
  readonly mask: number;
  readonly features: Features;
  /** What ratings moved, −1..1 of what they may. */
  readonly feedback?: number;
  /** Likeness of meaning to the query, where vectors were asked. */
  readonly likeness?: number;
}

/** Rank what `admits` lets through against a query: relevance, then newest, then id. The views are those the reader may see, and no others. */
export function rank(views: readonly IndexView[], asked: Asked, admits: Admits | undefined): RankedMemory[] {
  const { terms, weight } = weigh(views, asked.terms);
  const author = namedAuthor(views, asked);
  const ranked = gather(views, terms, admits, (gathered) =>
    gathered.candidates.map((candidate) => score(candidate, { asked, terms, weight, author, gathered })),
  );
  return ranked.sort((a, b) => b.relevance - a.relevance || (isBefore(b.entry, a.entry) ? -1 : 1));
}

interface Weighed {
  readonly asked: Asked;
  readonly terms: readonly LookedUp[];
  /** Of all terms of the query, those nobody has seen included. */
  readonly weight: number;
  readonly author: string | undefined;
  readonly gathered: Gathered;
}

/** Inverse document frequency, above 0; a term nobody has seen weighs most. */
export function idfOf({ documents, all }: { readonly documents: number; readonly all: number }): number {
  return Math.log(1 + (Math.max(all, documents, DOCUMENTS_MIN) - documents + 0.5) / (documents + 0.5));
}

/** The rarest terms; those that no memory holds are counted but not looked up. */
function weigh(views: readonly IndexView[], asked: readonly AskedTerm[]): { terms: LookedUp[]; weight: number } {
  const size = views.reduce((sum, view) => sum + view.size, 0);
  const weighed = asked
    .map(({ stem, whole }) => {
      const documents = views.reduce((sum, view) => sum + (view.posting(stem)?.slots.length ?? 0), 0);
      return { term: stem, whole, documents, idf: idfOf({ documents, all: size }) };
    })
    .filter(({ whole, documents }) => documents > 0 || !whole);
  const weight = weighed.reduce((sum, { idf }) => sum + idf, 0);
  const terms = weighed
    .filter(({ documents }) => documents > 0)
    .sort((a, b) => a.documents - b.documents)
    .slice(0, TERMS_LOOKED_UP_MAX)
    .map(({ term, idf }, place) => ({ term, idf, bit: 1 << place }));
  return { terms, weight };
}

/** The one author a query names; nobody when it names several. */
function namedAuthor(views: readonly IndexView[], asked: Asked): string | undefined {
  const named = [...asked.words].filter((word) => views.some((view) => view.knowsAuthor(word)));
  return named.length === 1 ? named[0] : undefined;
}

function score({ entry, view, rank }: Candidate, query: Weighed): RankedMemory {
  const { gathered, asked, terms, weight } = query;
  const hit = gathered.hitOf(view, entry);
  const place = entry.session ? placeOf(entry.session.entries, entry) : 0;
  const near = (step: number): WordHit => {
    const other = entry.session?.entries[place + step];
    return other ? gathered.hitOf(view, other) : NOT_HELD;
  };
  const [beforePrevious, previous, next, afterNext] = [near(-2), near(-1), near(1), near(2)];
  const windowMask = hit.mask | beforePrevious.mask | previous.mask | next.mask | afterNext.mask;
  const { bestBm } = gathered;
  const around = weight === 0 ? 0 : massOf(terms, windowMask) / weight;
  const words = hit.bm / bestBm;
  const held = bitsOf(hit.mask);
  const features: Features = {
    words,
    previous: previous.bm / bestBm,
    beforePrevious: beforePrevious.bm / bestBm,
    next: next.bm / bestBm,
    session: entry.session ? gathered.sessionBm(view, entry.session) / (gathered.bestSession || 1) : words,
    window: around,
    coordination: held / Math.max(1, asked.terms.length),
    author: query.author === undefined ? 0 : entry.author === query.author ? 1 : -1,
    question: entry.asks ? 1 : 0,
    length: Math.min(2, Math.log(1 + entry.words) / 3),
    time: asked.when && entry.hasTime ? 1 : 0,
    number: asked.howMany && entry.hasNumber ? 1 : 0,
    date: dateMatch(asked.dates, entry.createdAtMs),
    rank: 1 / (5 + rank),
    pairs: held < 2 ? 0 : sharedPairs(entry, asked.pairs),
  };
  let relevance = 0;
  for (const name of FEATURES) relevance += WEIGHTS[name] * features[name];
  return { entry, relevance, coverage: weight === 0 ? 0 : massOf(terms, hit.mask) / weight, around, mask: hit.mask, features };
}

function massOf(terms: readonly LookedUp[], mask: number): number {
  let mass = 0;
  for (const { idf, bit } of terms) if ((mask & bit) !== 0) mass += idf;
  return mass;
}

function bitsOf(mask: number): number {
  let bits = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) bits += 1;
  return bits;
}

function sharedPairs({ terms }: Entry, pairs: Asked['pairs']): number {
  if (pairs.size === 0) return 0;
  let shared = 0;
  for (let index = 1; index < terms.length && shared < PAIRS_MAX; index += 1) {
    if (pairs.get(terms[index - 1]!.term)?.has(terms[index]!.term)) shared += 1;
  }
  return shared;
}
