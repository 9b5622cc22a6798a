import { createHash } from 'node:crypto';
import type { documentOperations } from '../contract/documents.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { DocumentName, DocumentStore } from '../core/document.ts';
import { cutDocument } from '../core/document-chunk.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { type MemoryDraft, type MemoryStore, ownerOf, type Reader, scopeOf } from '../core/memory-store.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import { agentOf } from './hook-session.ts';
import { actorOf } from './memory-actor.ts';
import { memoryDraft } from './memory-input.ts';

/** Type and `source_type` of the pieces. */
export const DOCUMENT = 'document';
/** A piece that nobody weighed is less than a memory somebody meant to keep. */
const IMPORTANCE = 0.3;
const WHO_DEFAULT = 'daemon';
/** Pieces written at once. */
const WRITES_AT_ONCE = 64;

export interface DocumentDeps {
  readonly memories: MemoryStore;
  readonly documents: DocumentStore;
}

type Ingest = ParsedInputOf<(typeof documentOperations)['ingestDocument']>;

/** Handlers of /api/documents. Two calls about one document run one after the other. */
export function createDocumentHandlers(deps: DocumentDeps): Handlers<typeof documentOperations> {
  const inTurn = createTurns();
  return {
    ingestDocument: (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const name = { agentId: ownerOf(reader), source: input.source };
      return inTurn(name, () => ingest(deps, { reader, name, input, context }));
    },
    listDocuments: async ({ agentId, limit, offset }, context) => {
      const documents = await deps.documents.list(ownerOf(scopeOf(agentOf(agentId, context))), limit, offset);
      return { documents, count: documents.length };
    },
    forgetDocument: (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context));
      const name = { agentId: ownerOf(reader), source: input.source };
      return inTurn(name, async () => {
        const known = await deps.documents.get(name);
        if (!known) {
          const detail = `no document of the source ${JSON.stringify(input.source)} was taken in by the agent ${name.agentId}`;
          throw new AppError('document_not_found', { detail });
        }
        const forgotten = await forgetPieces(deps, { reader, name, ids: known.ids, reason: input.reason, context });
        await deps.documents.remove(name);
        return { source: input.source, forgotten, kept: known.ids.length - forgotten, success: true };
      });
    },
  };
}

interface Ingestion {
  readonly reader: Reader;
  readonly name: DocumentName;
  readonly input: Ingest;
  readonly context: RequestContext;
}

/** Each step can be done again: a process that ends in between leaves a document without a hash, and the next call completes it. */
async function ingest({ documents, memories }: DocumentDeps, { reader, name, input, context }: Ingestion) {
  const { title, chunks } = cutDocument(input.content, input.format, input.title);
  const draft = draftOf(reader, input, context);
  const hash = hashOf(input, title, draft);
  const known = await documents.get(name);
  const told = { source: input.source, hash, success: true as const };
  if (known?.entry.hash === hash) return { ...told, status: 'unchanged' as const, chunks: known.ids.length, ids: known.ids, forgotten: 0 };
  if (chunks.length === 0) {
    const detail = 'content holds nothing but white space and headings; send a text';
    throw new AppError('invalid_request', { detail, errors: [{ pointer: '/content', detail }] });
  }
  await documents.begin({ ...name, title, scope: draft.scope });
  const ids: string[] = [];
  for (let from = 0; from < chunks.length; from += WRITES_AT_ONCE) {
    context.signal.throwIfAborted();
    const page = chunks.slice(from, from + WRITES_AT_ONCE);
    const kept = await Promise.all(page.map((content) => memories.remember({ ...draft, content })));
    const written = kept.map(({ memory }) => memory.id);
    await documents.add(name, from, written);
    ids.push(...written);
  }
  // The same words twice in a document are one memory.
  const held = [...new Set(ids)];
  const left = (known?.ids ?? []).filter((id) => !held.includes(id));
  const reason = `the document ${input.source} has a new text`;
  const forgotten = await forgetPieces({ documents, memories }, { reader, name, ids: left, reason, context });
  await documents.finish(name, hash, held);
  return { ...told, status: known?.entry.hash ? ('updated' as const) : ('ingested' as const), chunks: held.length, ids: held, forgotten };
}

/** What all pieces share. The text of a document is data: nothing at its beginning is read as tags or as `critical:`. */
function draftOf(reader: Reader, input: Ingest, context: RequestContext): MemoryDraft {
  const { importance, tags, scope, who, project, sessionKey, source } = input;
  const shared = { who: who ?? WHO_DEFAULT, sourceType: DOCUMENT, sourceId: source, project, sessionKey, importance: IMPORTANCE };
  return memoryDraft(reader, { content: DOCUMENT, type: DOCUMENT, importance, tags, scope }, { ...shared, actor: actorOf(context) });
}

/** Of the text and of everything else that makes other memories of it. */
function hashOf({ content, format }: Ingest, title: string | null, { scope, tags, project, importance }: MemoryDraft): string {
  return createHash('sha256')
    .update(JSON.stringify([content, format, title, scope, tags, project ?? null, importance]))
    .digest('hex');
}

interface Pieces {
  readonly reader: Reader;
  readonly name: DocumentName;
  readonly ids: readonly string[];
  readonly reason: string;
  readonly context: RequestContext;
}

/** Memories that were there before the document, that another document holds too, or that somebody pinned, stay. */
async function forgetPieces({ documents, memories }: DocumentDeps, { reader, name, ids, reason, context }: Pieces): Promise<number> {
  let forgotten = 0;
  const note = { reason, changedBy: context.client, actor: actorOf(context) };
  for (const id of await documents.unshared(name, ids)) {
    const memory = await memories.get(reader, id);
    if (memory?.source_type !== DOCUMENT) continue;
    try {
      await memories.forget(reader, id, note);
      forgotten += 1;
    } catch (error) {
      if (!isAppError(error) || error.status >= 500) throw error;
    }
  }
  return forgotten;
}

/** Runs what concerns one document one after the other. */
function createTurns() {
  const last = new Map<string, Promise<unknown>>();
  return async <T>({ agentId, source }: DocumentName, run: () => Promise<T>): Promise<T> => {
    const key = JSON.stringify([agentId, source]);
    const before = last.get(key) ?? Promise.resolve();
    const mine = before.then(run, run);
    last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (last.get(key) === mine) last.delete(key);
    }
  };
}
