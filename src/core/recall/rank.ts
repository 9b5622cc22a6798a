import { LeastOfBest } from './best-of.ts';
import { gather, newestFirst } from './gather.ts';
import { NONE } from './index-columns.ts';
import type { IndexView } from './index-view.ts';
import { type Admits, type LookedUp, TERMS_LOOKED_UP_MAX, type ViewHits } from './look-up.ts';
import { type Measured, ViewMeasure, type Weighed } from './measure.ts';
import type { Asked, AskedTerm } from './query.ts';

/** Rarity is reckoned among at least so many memories: in a store of two, a word nobody has seen would outweigh all others. */
const DOCUMENTS_MIN = 100;

export interface RankedMemory extends Measured {
  /** What ratings moved, −1..1 of what they may. */
  readonly feedback?: number;
  /** Likeness of meaning to the query, where vectors were asked. */
  readonly likeness?: number;
}

/**
 * Rank what `admits` lets through against a query: relevance, then newest, then id. The views are those the reader may see, and no others.
 *
 * @param limit  how many of the best are answered
 */
export function rank(
  views: readonly IndexView[],
  asked: Asked,
  admits: Admits | undefined,
  limit = Number.POSITIVE_INFINITY,
): RankedMemory[] {
  const { terms, weight } = weigh(views, asked.terms);
  const author = namedAuthor(views, asked);
  return gather(views, terms, admits, (gathered) => bestOf({ asked, terms, weight, author, gathered }, limit));
}

/** All candidates are measured; only the best become objects. */
function bestOf(query: Weighed, limit: number): RankedMemory[] {
  const { slots, hits, ranks } = query.gathered;
  const measures = new Map<ViewHits, ViewMeasure>();
  const measureOf = (index: number): ViewMeasure => {
    const known = measures.get(hits[index]!);
    if (known) return known;
    const made = new ViewMeasure(query, hits[index]!);
    measures.set(hits[index]!, made);
    return made;
  };
  const relevance = new Float64Array(slots.length);
  const best = new LeastOfBest(Math.min(limit, slots.length));
  for (let index = 0; index < slots.length; index += 1) {
    relevance[index] = measureOf(index).relevance(slots[index]!, ranks[index]!);
    best.offer(relevance[index]!);
  }
  const order: number[] = [];
  for (let index = 0; index < slots.length; index += 1) if (relevance[index]! >= best.least) order.push(index);
  const found = (index: number) => ({ hits: hits[index]!, slot: slots[index]! });
  order.sort((a, b) => relevance[b]! - relevance[a]! || newestFirst(found(a), found(b)));
  return order.slice(0, limit).map((index) => measureOf(index).measured(slots[index]!, ranks[index]!));
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
  const named = [...asked.words].filter((word) => views.some((view) => view.authorNumber(word) !== NONE));
  return named.length === 1 ? named[0] : undefined;
}
