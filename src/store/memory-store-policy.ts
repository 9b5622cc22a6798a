import { type ReadPolicies, underPolicies } from '../core/agent-policy.ts';
import type { MemoryStore, Reader, SessionStore } from '../core/memory-store.ts';
import type { MemoryTransfer } from '../core/memory-transfer.ts';

export interface ReadingStores {
  readonly memories: MemoryStore;
  readonly sessions: SessionStore;
  readonly transfer: MemoryTransfer;
}

/**
 * The stores behind the read policies of the roster: whoever reads gets its circle here, and nowhere else. Every method is written out, so that
 * a new one does not pass by unseen.
 */
export function underReadPolicies({ memories, sessions, transfer }: ReadingStores, policies: () => ReadPolicies): ReadingStores {
  const as = (reader: Reader): Reader => underPolicies(reader, policies());
  return {
    memories: {
      remember: (draft) => memories.remember(draft),
      recall: (reader, query) => memories.recall(as(reader), query),
      ranked: (reader, ranking) => memories.ranked(as(reader), ranking),
      get: (reader, id) => memories.get(as(reader), id),
      list: (reader, page) => memories.list(as(reader), page),
      authors: (reader, filter) => memories.authors(as(reader), filter),
      history: (reader, id, limit) => seenHistory(memories, as(reader), id, limit),
      change: (reader, id, change, note) => memories.change(as(reader), id, change, note),
      forget: (reader, id, note) => memories.forget(as(reader), id, note),
      recover: (reader, id, note) => memories.recover(as(reader), id, note),
      purge: (limit) => memories.purge(limit),
      count: () => memories.count(),
      indexStatus: () => memories.indexStatus(),
    },
    sessions: { ...sessions, feedback: (reader, line, ratings) => sessions.feedback(as(reader), line, ratings) },
    transfer: {
      exportPage: async (reader, after, limit) => {
        const page = await transfer.exportPage(reader === null ? null : as(reader), after, limit);
        return reader === null || as(reader).circle === undefined ? page : { ...page, records: page.records.map(withoutLinks) };
      },
      importRecords: (records, conflict) => transfer.importRecords(records, conflict),
    },
  };
}

/** A history names the memory that took the place of this one, which somebody with a circle may not see. */
async function seenHistory(memories: MemoryStore, reader: Reader, id: string, limit: number | undefined) {
  const history = await memories.history(reader, id, limit);
  if (reader.circle === undefined || !history.some(({ event }) => event === 'superseded')) return history;
  const isNamed = ((await memories.get(reader, id))?.superseded_by ?? null) !== null;
  return isNamed ? history : history.filter(({ event }) => event !== 'superseded');
}

function withoutLinks<R extends { readonly history: readonly { readonly event: string }[] }>(record: R): R {
  return { ...record, history: record.history.filter(({ event }) => event !== 'superseded') };
}
