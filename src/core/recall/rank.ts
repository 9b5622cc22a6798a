import { LeastOfBest } from './best-of.ts';
import { gather, newestFirst } from './gather.ts';
import { NONE } from './index-columns.ts';
import type { IndexView } from './index-view.ts';
import type { Admits, ViewHits } from './look-up.ts';
import { certaintyOf } from './match.ts';
import { type Measured, ViewMeasure, type Weighed } from './measure.ts';
import type { Asked } from './query.ts';
import { weigh } from './weigh.ts';

export interface RankedMemory extends Measured {
  /** See match.ts; 0 is just enough to show it. */
  readonly certainty: number;
  /** What ratings moved, −1..1 of what they may. */
  readonly feedback?: number;
  /** Likeness of meaning to the query, where vectors were asked. */
  readonly likeness?: number;
}

/**
 * Rank what `admits` lets through against a query: relevance, then newest, then id. The views are those the reader may see, and no others.
 *
 * @param limit  how many of the best are answered
 * @param size   memories that `admits` lets through, about
 */
export function rank(
  views: readonly IndexView[],
  asked: Asked,
  admits: Admits | undefined,
  limit = Number.POSITIVE_INFINITY,
  size = views.reduce((sum, view) => sum + view.size, 0),
): RankedMemory[] {
  const weighing = weigh(views, asked.terms, admits, size);
  const author = namedAuthor(views, asked);
  return gather(views, weighing.terms, admits, (gathered) => bestOf({ ...weighing, asked, author, gathered }, limit, size));
}

/** All candidates are measured; only the best become objects. */
function bestOf(query: Weighed, limit: number, size: number): RankedMemory[] {
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
  return order.slice(0, limit).map((index) => {
    const measured = measureOf(index).measured(slots[index]!, ranks[index]!);
    return { ...measured, certainty: certaintyOf(measured, size) };
  });
}

/** The one author a query names; nobody when it names several. */
function namedAuthor(views: readonly IndexView[], asked: Asked): string | undefined {
  const named = [...asked.words].filter((word) => views.some((view) => view.authorNumber(word) !== NONE));
  return named.length === 1 ? named[0] : undefined;
}
