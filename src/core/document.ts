import type { DocumentEntry } from '../contract/documents.ts';
import type { ChangeNote, MemoryDraft, Reader } from './memory-store.ts';

/** `source_type` of the pieces. */
export const DOCUMENT = 'document';

/** Documents belong to an agent: the same source of two agents is two documents. */
export interface DocumentName {
  readonly agentId: string;
  readonly source: string;
}

/** Who asks and why, as the history of the pieces tells it. */
export interface DocumentNote extends ChangeNote {
  readonly reader: Reader;
}

export interface DocumentDraft extends DocumentName {
  readonly title: string | null;
  readonly hash: string;
  /** In the order of the text; one or more. */
  readonly pieces: readonly MemoryDraft[];
}

/**
 * Documents and the memories that are their pieces. Written page by page, so that others are answered meanwhile: a text is found only when all of it
 * is laid down, and one that broke off is gone. Calls about the same document run one after the other.
 */
export interface DocumentStore {
  /** Its text is this one now; pieces of an older text are forgotten. The same words twice in a text are one memory. Nothing happens for the same hash. @param signal  breaks it off between two pages, as long as not all of it is laid down */
  replace(
    draft: DocumentDraft,
    note: DocumentNote,
    signal?: AbortSignal,
  ): Promise<{ readonly status: 'ingested' | 'updated' | 'unchanged'; readonly ids: string[]; readonly forgotten: number }>;
  /** Pieces that were memories before, that another document holds, or that somebody pinned, stay. Undefined when there is no such document. */
  forget(name: DocumentName, note: DocumentNote): Promise<{ forgotten: number; kept: number } | undefined>;
  /** Newest change first. */
  list(agentId: string, limit: number, offset: number): Promise<DocumentEntry[]>;
}
