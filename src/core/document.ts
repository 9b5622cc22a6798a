import type { DocumentEntry } from '../contract/documents.ts';

/** Documents belong to an agent: the same source of two agents is two documents. */
export interface DocumentName {
  readonly agentId: string;
  readonly source: string;
}

export interface DocumentDraft extends DocumentName {
  readonly title: string | null;
  readonly scope: 'global' | 'private';
}

/** Which memories are pieces of which document. The memories themselves are the memory store's. */
export interface DocumentStore {
  get(name: DocumentName): Promise<{ entry: DocumentEntry; ids: string[] } | undefined>;
  /** Note that its pieces are being written: the hash is null until `finish`. */
  begin(draft: DocumentDraft): Promise<void>;
  /** These memories are pieces of it, from this place on. */
  add(name: DocumentName, place: number, ids: readonly string[]): Promise<void>;
  /** Those of `ids` that no other document holds. */
  unshared(name: DocumentName, ids: readonly string[]): Promise<string[]>;
  /** It has this text now, and no other pieces than these. */
  finish(name: DocumentName, hash: string, ids: readonly string[]): Promise<void>;
  remove(name: DocumentName): Promise<void>;
  /** Newest change first. */
  list(agentId: string, limit: number, offset: number): Promise<DocumentEntry[]>;
}
