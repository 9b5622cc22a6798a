import type { MemoryRecord } from '../contract/memory-lifecycle.ts';
import type { Reader } from './memory-store.ts';

export interface ExportPage {
  readonly records: readonly MemoryRecord[];
  /** Cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
}

export interface ImportAnswer {
  readonly imported: number;
  readonly overwritten: number;
  /** There already, under the same id. */
  readonly skipped: number;
  /** Not taken in: another living memory of the same agent and scope has the same content. */
  readonly duplicates: readonly { readonly id: string; readonly duplicateMemoryId: string }[];
}

/** Memories with their ids, times and history, out of one store and into another; what is imported and exported again is equal. */
export interface MemoryTransfer {
  /**
   * In the order in which they were stored.
   *
   * @param reader  whose living memories; null is everything there is, for a backup
   * @param after   cursor of the page before, 0 for the first
   */
  exportPage(reader: Reader | null, after: number, limit: number): Promise<ExportPage>;
  /** All or nothing. */
  importRecords(records: readonly MemoryRecord[], conflict: 'skip' | 'overwrite'): Promise<ImportAnswer>;
}
