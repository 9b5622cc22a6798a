import { createHash } from 'node:crypto';
import type { AgentYaml } from '../contract/config.ts';
import type { documentOperations } from '../contract/documents.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { DOCUMENT, type DocumentNote, type DocumentStore } from '../core/document.ts';
import { cutDocument } from '../core/document-chunk.ts';
import { AppError } from '../core/errors.ts';
import { type MemoryDraft, ownerOf, type Reader, scopeOf } from '../core/memory-store.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import { agentOf } from './hook-session.ts';
import { actorOf } from './memory-actor.ts';
import { memoryDraft } from './memory-input.ts';

/** A piece that nobody weighed is less than a memory somebody meant to keep. */
const IMPORTANCE = 0.3;

export interface DocumentDeps {
  readonly documents: DocumentStore;
  readonly config: AgentYaml;
}

type Ingest = ParsedInputOf<(typeof documentOperations)['ingestDocument']>;

/** Handlers of /api/documents. */
export function createDocumentHandlers({ documents, config }: DocumentDeps): Handlers<typeof documentOperations> {
  return {
    ingestDocument: (input, context) => ingest({ documents, config }, input, context),
    listDocuments: async ({ agentId, limit, offset }, context) => {
      const listed = await documents.list(ownerOf(scopeOf(agentOf(agentId, context))), limit, offset);
      return { documents: listed, count: listed.length };
    },
    forgetDocument: async (input, context) => {
      const reader = scopeOf(agentOf(input.agentId, context), context.caller);
      const name = { agentId: ownerOf(reader), source: input.source };
      const forgotten = await documents.forget(name, noteOf(reader, input.reason, context));
      if (forgotten) return { source: input.source, ...forgotten, success: true };
      const detail = `no document of the source ${JSON.stringify(input.source)} was taken in by the agent ${name.agentId}`;
      throw new AppError('document_not_found', { detail });
    },
  };
}

/** All pieces become findable or none: what a call or a process that ends in between leaves is the text of before. */
async function ingest({ documents, config }: DocumentDeps, input: Ingest, context: RequestContext) {
  const reader = scopeOf(agentOf(input.agentId, context), context.caller);
  const name = { agentId: ownerOf(reader), source: input.source };
  const { title, chunks } = cutDocument(input.content, input.format, input.title);
  const draft = draftOf(config, reader, input, context);
  const hash = hashOf(input, title, draft);
  if (chunks.length === 0) {
    const detail = 'content holds nothing but white space and headings; send a text';
    throw new AppError('invalid_request', { detail, errors: [{ pointer: '/content', detail }] });
  }
  const pieces = chunks.map((content) => ({ ...draft, content }));
  const reason = `the document ${input.source} has a new text`;
  const note = noteOf(reader, reason, context);
  const { status, ids, forgotten } = await documents.replace({ ...name, title, hash, pieces }, note, context.signal);
  return { source: input.source, hash, success: true as const, status, chunks: ids.length, ids, forgotten };
}

function noteOf(reader: Reader, reason: string, context: RequestContext): DocumentNote {
  return { reader, reason, changedBy: context.client, actor: actorOf(context) };
}

/** What all pieces share. The text of a document is data: nothing at its beginning is read as tags or as `critical:`. */
function draftOf(config: AgentYaml, reader: Reader, input: Ingest, context: RequestContext): MemoryDraft {
  const { importance, tags, scope, visibility, who, project, sessionKey, source } = input;
  const shared = { who, config, sourceType: DOCUMENT, sourceId: source, project, sessionKey, importance: IMPORTANCE };
  return memoryDraft(
    reader,
    { content: DOCUMENT, type: DOCUMENT, importance, tags, scope, visibility },
    { ...shared, actor: actorOf(context) },
  );
}

/** Of the text and of everything else that makes other memories of it. */
function hashOf({ content, format }: Ingest, title: string | null, { scope, tags, project, importance }: MemoryDraft): string {
  return createHash('sha256')
    .update(JSON.stringify([content, format, title, scope, tags, project ?? null, importance]))
    .digest('hex');
}
