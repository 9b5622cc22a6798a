import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { clampedLimit, REASON_CHARS_MAX, Scope, Tags } from './memory.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { MEMORIES, ONE_AGENT } from './scope.ts';

/** Longest document that is taken in, in characters: a book of 400 pages. */
export const DOCUMENT_CHARS_MAX = 1_000_000;
/** Longest name of a source, in characters: a path or an address. */
export const SOURCE_CHARS_MAX = 1_024;
/** A document of the longest kind in an escaped JSON body; unit: bytes. */
export const DOCUMENT_BODY_BYTES_MAX = 4 * 1_048_576;
export const DOCUMENTS_LISTED_MAX = 500;
const DOCUMENTS_LISTED = 100;

/** How a text is cut: by its headings, or by its paragraphs alone. */
export const DocumentFormat = z.enum(['markdown', 'text']);
export type DocumentFormat = z.output<typeof DocumentFormat>;

export const DocumentSource = z.string().trim().min(1).max(SOURCE_CHARS_MAX);

/** A text that was taken in piece by piece; each piece is a memory with `source_type: document` and this source. */
export const DocumentEntry = z.object({
  source: z.string(),
  title: z.string().nullable(),
  agentId: z.string(),
  scope: Scope,
  /** `writing`: the text that was there before is found, or none. `forgetting`: its pieces are going. */
  state: z.enum(['whole', 'writing', 'forgetting']),
  /** SHA-256 of the last text that is whole; null while the first is written. */
  hash: z.string().nullable(),
  chunks: z.int(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type DocumentEntry = z.output<typeof DocumentEntry>;

const documents = { tag: 'documents', unknownFields: 'ignore' } as const;

export const documentOperations = {
  ingestDocument: defineOperation({
    ...documents,
    id: 'ingestDocument',
    method: 'POST',
    path: '/api/documents',
    scope: MEMORIES,
    role: 'agent',
    summary:
      'Take in a text or Markdown document as memories, piece by piece. The same text of the same source again changes nothing; a new text takes the place of the old one.',
    input: z.object({
      /** Where it comes from, such as a path or an address: by this name it is replaced and forgotten. */
      source: DocumentSource,
      content: z.string().min(1).max(DOCUMENT_CHARS_MAX),
      title: z.string().trim().min(1).max(256).optional(),
      format: DocumentFormat.default('markdown'),
      tags: Tags.optional(),
      importance: z.number().min(0).max(1).optional(),
      project: z.string().max(4_096).optional(),
      agentId: AskingAgent,
      scope: Scope.optional(),
      /** Older word for scope. */
      visibility: Scope.optional(),
      sessionKey: z.string().max(512).optional(),
      who: z.string().max(256).optional(),
    }),
    output: z.object({
      source: z.string(),
      status: z.enum(['ingested', 'updated', 'unchanged']),
      hash: z.string(),
      /** Pieces in the order of the document. */
      chunks: z.int(),
      ids: z.array(z.string()),
      /** Memories of the older text that are gone. */
      forgotten: z.int(),
      success: z.literal(true),
    }),
    errors: ['version_conflict', 'storage_failed'],
    bodyBytesMax: DOCUMENT_BODY_BYTES_MAX,
    source: 'spec/mcp-server',
  }),
  listDocuments: defineOperation({
    ...documents,
    id: 'listDocuments',
    method: 'GET',
    path: '/api/documents',
    scope: ONE_AGENT,
    role: 'readonly',
    summary: 'Documents of an agent, the newest change first.',
    input: z.object({
      agentId: AskingAgent,
      limit: clampedLimit(DOCUMENTS_LISTED, DOCUMENTS_LISTED_MAX),
      offset: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
    }),
    output: z.object({ documents: z.array(DocumentEntry), count: z.int() }),
    errors: ['storage_failed'],
  }),
  forgetDocument: defineOperation({
    ...documents,
    id: 'forgetDocument',
    method: 'DELETE',
    path: '/api/documents',
    scope: ONE_AGENT,
    role: 'agent',
    summary: 'Forget a document by its source. Pieces that another document holds as well, or that somebody pinned, stay.',
    input: z.object({
      source: DocumentSource,
      reason: z.string().trim().min(1).max(REASON_CHARS_MAX).default('the document was forgotten'),
      agentId: AskingAgent,
    }),
    output: z.object({ source: z.string(), forgotten: z.int(), kept: z.int(), success: z.literal(true) }),
    errors: ['document_not_found', 'storage_failed'],
  }),
};
