import { type Features, NO_FEATURES, WEIGHTS } from './features.ts';
import type { Gathered } from './gather.ts';
import { HAS_NUMBER, HAS_TIME, NONE, OF_AUTHOR } from './index-columns.ts';
import type { Entry, IndexView, Posting } from './index-view.ts';
import type { LookedUp, ViewHits } from './look-up.ts';
import type { Asked } from './query.ts';
import { dateMatch } from './time-words.ts';
import type { Weighing } from './weigh.ts';

const PAIRS_MAX = 2;
/** Words from which on a memory is as long as it needs to be to tell something. */
const LENGTH_ENOUGH = 10;

/** A query with what its terms weigh and find. */
export interface Weighed extends Weighing {
  readonly asked: Asked;
  /** The one author it names. */
  readonly author: string | undefined;
  readonly gathered: Gathered;
}

export interface Measured {
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
}

/** The signs of relevance of memories of one view. One record of them is used again and again: most memories are measured and passed over. */
export class ViewMeasure {
  readonly #query: Weighed;
  readonly #hits: ViewHits;
  readonly #author: number;
  readonly #pairs: readonly AskedPair[];
  readonly #features: { -readonly [Name in keyof Features]: number } = { ...NO_FEATURES };

  constructor(query: Weighed, hits: ViewHits) {
    this.#query = query;
    this.#hits = hits;
    this.#author = query.author === undefined ? NONE : hits.view.authorNumber(query.author);
    this.#pairs = pairsIn(hits.view, query);
  }

  /** @param rank  place by words alone */
  relevance(slot: number, rank: number): number {
    this.#measure(slot, rank);
    return this.#sum();
  }

  measured(slot: number, rank: number): Measured {
    this.#measure(slot, rank);
    const { terms, weight } = this.#query;
    const mask = this.#hits.mask[slot]!;
    const features = { ...this.#features };
    const coverage = weight === 0 ? 0 : massOf(terms, mask) / weight;
    return { entry: this.#hits.view.entry(slot)!, relevance: this.#sum(), coverage, around: features.window, mask, features };
  }

  #measure(slot: number, rank: number): void {
    const { asked, author } = this.#query;
    const { columns } = this.#hits.view;
    const signs = columns.signs[slot]!;
    const held = bitsOf(this.#hits.mask[slot]!);
    const features = this.#features;
    this.#measureCompany(slot);
    features.coordination = held / Math.max(1, asked.terms.length);
    features.author = author === undefined ? 0 : columns.authors[slot] === this.#author ? 1 : -1;
    features.personal = asked.aboutMe && (signs & OF_AUTHOR) !== 0 ? 1 : 0;
    features.length = Math.min(1, columns.words[slot]! / LENGTH_ENOUGH);
    features.time = asked.when && (signs & HAS_TIME) !== 0 ? 1 : 0;
    features.number = asked.howMany && (signs & HAS_NUMBER) !== 0 ? 1 : 0;
    features.date = asked.dates.length === 0 ? 0 : dateMatch(asked.dates, columns.createdAtMs[slot]!);
    features.rank = 1 / (5 + rank);
    features.pairs = held < 2 ? 0 : this.#sharedPairs(slot);
  }

  /** Its words, those of the memories around it and those of its session. */
  #measureCompany(slot: number): void {
    const { terms, weight, gathered } = this.#query;
    const { bestBm, bestSession } = gathered;
    const { bm, mask, sessions } = this.#hits;
    const { columns } = this.#hits.view;
    const previous = columns.previous[slot]!;
    const beforePrevious = previous === NONE ? NONE : columns.previous[previous]!;
    const next = columns.next[slot]!;
    const afterNext = next === NONE ? NONE : columns.next[next]!;
    const session = columns.sessionOf[slot]!;
    const window = mask[slot]! | at(mask, beforePrevious) | at(mask, previous) | at(mask, next) | at(mask, afterNext);
    const features = this.#features;
    features.words = bm[slot]! / bestBm;
    features.previous = at(bm, previous) / bestBm;
    features.beforePrevious = at(bm, beforePrevious) / bestBm;
    features.next = at(bm, next) / bestBm;
    features.session = session === NONE ? features.words : sessions[session]! / (bestSession || 1);
    features.window = weight === 0 ? 0 : massOf(terms, window) / weight;
  }

  /** Written out: a loop over the names would cost more than all else. */
  #sum(): number {
    const features = this.#features;
    return (
      WEIGHTS.words * features.words +
      WEIGHTS.previous * features.previous +
      WEIGHTS.beforePrevious * features.beforePrevious +
      WEIGHTS.next * features.next +
      WEIGHTS.session * features.session +
      WEIGHTS.window * features.window +
      WEIGHTS.coordination * features.coordination +
      WEIGHTS.author * features.author +
      WEIGHTS.personal * features.personal +
      WEIGHTS.length * features.length +
      WEIGHTS.time * features.time +
      WEIGHTS.number * features.number +
      WEIGHTS.date * features.date +
      WEIGHTS.rank * features.rank +
      WEIGHTS.pairs * features.pairs
    );
  }

  /** The text is read only when the memory holds both words of a pair. */
  #sharedPairs(slot: number): number {
    const mask = this.#hits.mask[slot]!;
    const possible = this.#pairs.filter((pair) => (mask & pair.mask) === pair.mask);
    if (possible.length === 0) return 0;
    const { terms } = this.#hits.view.entry(slot)!;
    let shared = 0;
    for (let index = 1; index < terms.length && shared < PAIRS_MAX; index += 1) {
      if (possible.some(({ first, second }) => terms[index - 1] === first && terms[index] === second)) shared += 1;
    }
    return shared;
  }
}

/** Two terms that follow each other in the query, and the bits of those that were looked up. */
interface AskedPair {
  readonly first: Posting;
  readonly second: Posting;
  readonly mask: number;
}

/** The pairs of a query that some memory of the view may hold. */
function pairsIn(view: IndexView, { asked, terms }: Weighed): AskedPair[] {
  const bits = new Map(terms.map(({ term, bit }) => [term, bit]));
  const pairs: AskedPair[] = [];
  for (const [before, following] of asked.pairs) {
    const first = view.posting(before);
    if (!first) continue;
    for (const after of following) {
      const second = view.posting(after);
      if (second) pairs.push({ first, second, mask: (bits.get(before) ?? 0) | (bits.get(after) ?? 0) });
    }
  }
  return pairs;
}

/** 0 where there is nobody. */
function at(values: Float64Array | Uint32Array, slot: number): number {
  return slot === NONE ? 0 : values[slot]!;
}

/** What a memory, or several together, hold of the query's weight: of a word and those that stand in for it, the best counts. */
function massOf(terms: readonly LookedUp[], mask: number): number {
  let mass = 0;
  for (let index = 0; index < terms.length; index += 1) {
    const { idf, bit, yieldsTo } = terms[index]!;
    if ((mask & bit) !== 0 && (mask & yieldsTo) === 0) mass += idf;
  }
  return mass;
}

function bitsOf(mask: number): number {
  let bits = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) bits += 1;
  return bits;
}
