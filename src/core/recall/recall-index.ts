import type { MemoryFilter } from '../memory-store.ts';
import { admitsOf } from './filter.ts';
import { type Entry, type IndexedMemory, IndexView, type Newcomer } from './index-view.ts';
import type { Asked } from './query.ts';
import { type RankedMemory, rank } from './rank.ts';

interface Indexed {
  readonly view: string;
  readonly entry: Entry;
}

/** All memories that may be recalled, each in its view; nothing is ever looked up without naming the views. */
export class RecallIndex {
  readonly #views = new Map<string, IndexView>();
  readonly #bySeq = new Map<number, Indexed>();

  get size(): number {
    return this.#bySeq.size;
  }

  has(seq: number): boolean {
    return this.#bySeq.has(seq);
  }

  /** Add a memory, or take it in anew after a change. */
  put(viewName: string, memory: IndexedMemory): void {
    this.drop(memory.seq);
    let view = this.#views.get(viewName);
    if (!view) {
      view = new IndexView();
      this.#views.set(viewName, view);
    }
    this.#bySeq.set(memory.seq, { view: viewName, entry: view.add(memory) });
  }

  drop(seq: number): void {
    const known = this.#bySeq.get(seq);
    if (!known) return;
    this.#bySeq.delete(seq);
    const view = this.#views.get(known.view)!;
    view.remove(known.entry);
    if (view.size === 0) this.#views.delete(known.view);
  }

  /** The best `limit`, best first; the views are those the reader may see, and no others. */
  rank(viewNames: readonly string[], asked: Asked, filter: MemoryFilter, limit?: number): RankedMemory[] {
    const views = viewNames.flatMap((name) => this.#views.get(name) ?? []);
    return rank(views, asked, admitsOf(filter), limit, sizeOf(views, filter));
  }

  /** Memories in these views, and how many of them hold a term. */
  counts(viewNames: readonly string[], term: string): { readonly documents: number; readonly all: number } {
    const views = viewNames.flatMap((name) => this.#views.get(name) ?? []);
    const documents = views.reduce((sum, view) => sum + (view.posting(term)?.slots.length ?? 0), 0);
    return { documents, all: views.reduce((sum, view) => sum + view.size, 0) };
  }

  /** A check of rows: the memory, if it is in one of these views and passes the filter. */
  finder(viewNames: readonly string[], filter: MemoryFilter): (seq: number) => Entry | undefined {
    const admits = admitsOf(filter);
    return (seq) => {
      const known = this.#bySeq.get(seq);
      return known && viewNames.includes(known.view) && (admits?.(known.entry) ?? true) ? known.entry : undefined;
    };
  }

  /** The memory of the same view whose place a new one takes, judged by its words; undefined when there is none. */
  predecessor(viewName: string, memory: Newcomer): Entry | undefined {
    return this.#views.get(viewName)?.predecessor(memory);
  }

  /** Older memories of the same view about the same subject, see `IndexView.sharing`. */
  sharing(viewName: string, stems: readonly string[], memory: Newcomer): Entry[] {
    return this.#views.get(viewName)?.sharing(stems, memory) ?? [];
  }

  /** The memory of the same view and session right before a new one. */
  before(viewName: string, memory: Newcomer): Entry | undefined {
    return this.#views.get(viewName)?.before(memory);
  }

  /** Rules, preferences and pinned memories of these views that stand: pinned ones first, then the most important, then the newest. */
  standing(viewNames: readonly string[], filter: MemoryFilter, limit: number): Entry[] {
    const admits = admitsOf(filter);
    const views = viewNames.flatMap((name) => this.#views.get(name) ?? []);
    const found = views.flatMap((view) =>
      [...view.standing].filter((entry) => entry.sourceType !== 'document' && (admits?.(entry) ?? true)),
    );
    found.sort(
      (a, b) =>
        Number(b.pinned) - Number(a.pinned) || b.importance - a.importance || b.createdAtMs - a.createdAtMs || (a.id < b.id ? -1 : 1),
    );
    return found.slice(0, limit);
  }
}

/** About how many memories a filter lets through: those of a project are counted, what else it asks for is not. */
function sizeOf(views: readonly IndexView[], { project, aroundProject }: MemoryFilter): number {
  const counted = (view: IndexView): number => {
    if (project !== undefined) return view.sizeOf(project);
    return aroundProject === undefined ? view.size : view.sizeOf(aroundProject) + view.sizeOf(null);
  };
  return views.reduce((sum, view) => sum + counted(view), 0);
}
