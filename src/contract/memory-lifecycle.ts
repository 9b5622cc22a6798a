import { z } from 'zod';
import { AgentName, AskingAgent, Timestamp } from './ids.ts';
import {
  Asking,
  ChangedMemory,
  clampedLimit,
  Memory,
  MemoryHistoryEntry,
  MemoryId,
  memoryOperations,
  QUERY_CHARS_MAX,
  REASON_CHARS_MAX,
  RECALL_LIMIT,
  RECALL_LIMIT_MAX,
  RecallAnswer,
  RecallFilters,
  Scope,
  ScopeFilters,
  Since,
  Tags,
} from './memory.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { MEMORIES, MEMORY_BY_ID, ONE_AGENT, WHOLE_WORKSPACE } from './scope.ts';

/** How long a forgotten memory can be brought back; after that it is erased, with its history. Unit: days. */
export const RETENTION_DAYS = 30;
/** Memories on one page of a list. */
export const LIST_LIMIT_MAX = 1_000;
const LIST_LIMIT = 100;
/** Entries of one memory's history that are shown; the newest ones. */
export const HISTORY_LIMIT_MAX = 1_000;
const HISTORY_LIMIT = 200;
/** Ratings taken from one call. */
export const RATINGS_MAX = 200;
/** Memories on one page of an export, and in one call of an import. */
export const TRANSFER_MEMORIES_MAX = 1_000;
const IMPORT_BODY_BYTES_MAX = 32 * 1_048_576;
/** Values of an import; its memories are parsed in pieces. */
const IMPORT_VALUES_MAX = 100_000;

/** First line of an export. */
export const MemoryFileHeader = z.looseObject({ format: z.literal('signet-memories'), version: z.literal(1) });

/** One line of an export: a memory with all that the store knows of it. Times are ISO 8601 UTC. */
export const MemoryRecord = z.object({
  id: z.string().min(1).max(128),
  content: z.string().min(1),
  type: z.string().min(1).max(64).default('fact'),
  importance: z.number().min(0).max(1).default(0.5),
  tags: Tags.default(null),
  pinned: z.boolean().default(false),
  who: z.string().max(256).default('import'),
  agentId: AgentName.default('default'),
  scope: Scope.default('global'),
  project: z.string().max(4_096).nullable().default(null),
  source_type: z.string().max(64).default('import'),
  source_id: z.string().max(512).nullable().default(null),
  session_id: z.string().max(512).nullable().default(null),
  idempotency_key: z.string().max(256).nullable().default(null),
  supersedes: z.string().max(128).nullable().default(null),
  version: z.int().min(1).default(1),
  access_count: z.int().min(0).default(0),
  created_at: Timestamp,
  updated_at: Timestamp.optional(),
  deleted_at: Timestamp.nullable().default(null),
  history: z
    .array(MemoryHistoryEntry.extend({ createdAt: Timestamp }))
    .max(HISTORY_LIMIT_MAX)
    .default([]),
});
export type MemoryRecord = z.output<typeof MemoryRecord>;
/** Left out, the scope is what the agent's memories have when nothing is said. */
export const ImportedRecord = MemoryRecord.extend({ scope: Scope.optional() });
export type ImportedRecord = z.output<typeof ImportedRecord>;

/** Lenient towards clients that exist: unknown fields are ignored on every route here. */
const existing = { tag: 'memory', unknownFields: 'ignore' } as const;
const reading = { ...existing, method: 'GET', role: 'readonly' } as const;

const ListFilters = {
  ...Asking,
  project: z.string().max(4_096).optional(),
  type: z.string().max(64).optional(),
  tags: Tags.optional(),
  who: z.string().max(256).optional(),
  ...ScopeFilters,
  pinned: flag.optional(),
  importance_min: z.coerce.number().min(0).max(1).optional(),
  since: Since.optional(),
  until: Timestamp.optional(),
};

export const memoryLifecycleOperations = {
  saveMemory: defineOperation({
    ...memoryOperations.remember,
    id: 'saveMemory',
    path: '/api/memory/save',
    scope: MEMORIES,
    summary: 'Older name of POST /api/memory/remember.',
  }),
  memoryHistory: defineOperation({
    ...reading,
    id: 'memoryHistory',
    path: '/api/memory/:id/history',
    scope: MEMORY_BY_ID,
    summary: 'What became of a memory, oldest first: each version with its reason, its author and the contents before and after.',
    input: z.object({ id: MemoryId, limit: clampedLimit(HISTORY_LIMIT, HISTORY_LIMIT_MAX), ...Asking }),
    output: z.object({ memoryId: z.string(), count: z.int(), history: z.array(MemoryHistoryEntry) }),
    errors: ['memory_not_found'],
  }),
  recoverMemory: defineOperation({
    ...existing,
    id: 'recoverMemory',
    method: 'POST',
    path: '/api/memory/:id/recover',
    scope: MEMORY_BY_ID,
    role: 'agent',
    summary: `Bring a forgotten memory back, within ${RETENTION_DAYS} days.`,
    input: z.object({
      id: MemoryId,
      reason: z.string().trim().min(1).max(REASON_CHARS_MAX).default('recovered'),
      if_version: z.int().min(1).optional(),
      changed_by: z.string().max(256).optional(),
      ...Asking,
    }),
    output: ChangedMemory.extend({ retentionDays: z.int() }),
    errors: ['memory_not_found', 'memory_not_deleted', 'retention_expired', 'version_conflict', 'duplicate_content_hash'],
  }),
  memoryFeedback: defineOperation({
    ...existing,
    id: 'memoryFeedback',
    method: 'POST',
    path: '/api/memory/feedback',
    scope: { ...MEMORY_BY_ID, keys: ['sessionKey', 'session_key'] },
    role: 'agent',
    summary: 'Rate memories a session was shown: −1 misleading, 0 of no use, 1 needed. The last rating of a session counts.',
    input: z
      .object({
        sessionKey: z.string().max(512).optional(),
        /** Alias of sessionKey. */
        session_key: z.string().max(512).optional(),
        feedback: z.record(z.string(), z.number().min(-1).max(1)).optional(),
        /** Alias of feedback. */
        ratings: z.record(z.string(), z.number().min(-1).max(1)).optional(),
        agentId: AskingAgent,
      })
      .refine((input) => input.sessionKey || input.session_key, { path: ['sessionKey'], message: 'sessionKey is required' })
      .refine((input) => input.feedback ?? input.ratings, {
        path: ['feedback'],
        message: 'feedback is required: ratings from -1 to 1 by memory id',
      })
      .refine((input) => Object.keys(input.feedback ?? input.ratings ?? {}).length <= RATINGS_MAX, {
        path: ['feedback'],
        message: `feedback takes at most ${RATINGS_MAX} ratings in one call`,
      }),
    output: z.object({ ok: z.literal(true), success: z.literal(true), recorded: z.int() }),
    errors: ['storage_failed'],
  }),
  listMemories: defineOperation({
    ...reading,
    id: 'listMemories',
    path: '/api/memories',
    scope: MEMORIES,
    summary:
      'Memories an agent may see, newest first, page by page. With forgotten=1 those that were forgotten and can still be recovered, the last forgotten first. Archived ones are never among them.',
    input: z.object({
      ...ListFilters,
      forgotten: flag.optional(),
      limit: clampedLimit(LIST_LIMIT, LIST_LIMIT_MAX),
      offset: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
    }),
    output: z.object({
      /** The times are told of forgotten memories alone; until the second one `POST /api/memory/:id/recover` brings the memory back. */
      memories: z.array(Memory.extend({ deleted_at: z.string().optional(), recoverable_until: z.string().optional() })),
      /** Over all pages. */
      total: z.int(),
      /** Offset of the next page; null on the last one. */
      next: z.int().nullable(),
      stats: z.object({ total: z.int(), withEmbeddings: z.int(), critical: z.int() }),
    }),
    errors: ['storage_failed'],
    source: 'spec/multi-agent',
  }),
  searchMemories: defineOperation({
    ...reading,
    id: 'searchMemories',
    path: '/api/memory/search',
    scope: MEMORIES,
    summary: 'Recall by a query string; answers as POST /api/memory/recall does.',
    input: z
      .object({ ...RecallFilters, query: RecallFilters.query.optional(), q: RecallFilters.query.optional() })
      .refine((input) => input.q ?? input.query, {
        path: ['q'],
        message: 'q is required: what to look for',
      }),
    output: RecallAnswer,
    errors: ['storage_failed'],
  }),
  searchMemoriesLegacy: defineOperation({
    ...reading,
    id: 'searchMemoriesLegacy',
    path: '/memory/search',
    scope: MEMORIES,
    summary: 'Oldest form of the search: without q by filters alone; distinct=who lists the authors instead.',
    input: z.object({
      ...RecallFilters,
      query: RecallFilters.query.optional(),
      q: z.string().max(QUERY_CHARS_MAX).optional(),
      distinct: z.literal('who').optional(),
    }),
    output: z.object({
      results: z.array(Memory.extend({ score: z.number().optional() })).optional(),
      values: z.array(z.string()).optional(),
    }),
    errors: ['storage_failed'],
    source: 'spec/multi-agent',
  }),
  similarMemories: defineOperation({
    ...reading,
    id: 'similarMemories',
    path: '/memory/similar',
    scope: MEMORY_BY_ID,
    summary: 'Memories like this one, best first: by meaning where there is an embedder, else by words.',
    input: z.object({ id: MemoryId, k: clampedLimit(RECALL_LIMIT, RECALL_LIMIT_MAX), type: z.string().max(64).optional(), ...Asking }),
    output: z.object({
      results: z.array(
        z.object({
          ...Memory.pick({ id: true, content: true, type: true, created_at: true }).shape,
          tags: z.array(z.string()),
          score: z.number(),
        }),
      ),
    }),
    errors: ['memory_not_found'],
  }),
  memoryTimeline: defineOperation({
    ...reading,
    id: 'memoryTimeline',
    path: '/api/memory/timeline',
    scope: MEMORY_BY_ID,
    summary: 'What was remembered today, in the seven days before and in the thirty before those (UTC): how much, and the newest of each.',
    input: z.object({ limit: clampedLimit(RECALL_LIMIT, RECALL_LIMIT_MAX), ...Asking }),
    output: z.object({
      buckets: z.array(
        z.object({
          name: z.enum(['today', 'week', 'month']),
          /** First moment of it; it ends where the one before it begins. */
          since: z.string(),
          count: z.int(),
          memories: z.array(Memory),
        }),
      ),
    }),
    errors: ['storage_failed'],
  }),
  exportMemories: defineOperation({
    ...reading,
    id: 'exportMemories',
    path: '/api/memories/export',
    scope: { ...ONE_AGENT, widening: ['all'] },
    role: 'operator',
    summary:
      'Memories with their history as JSON lines: on the first page a header, then one memory a line, last `{"next": cursor}` or `{"end": true}`.',
    input: z.object({
      agentId: AskingAgent,
      /** Everything there is, for a backup: all agents, private, archived and forgotten memories as well. */
      all: flag.default(false),
      after: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
      limit: clampedLimit(TRANSFER_MEMORIES_MAX, TRANSFER_MEMORIES_MAX),
    }),
    output: z.string(),
    contentType: 'application/x-ndjson; charset=utf-8',
    errors: ['storage_failed'],
  }),
  importMemories: defineOperation({
    ...existing,
    id: 'importMemories',
    method: 'POST',
    path: '/api/memories/import',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Take in memories of an export under their own ids. What is there already stays as it is, unless conflict is overwrite.',
    input: z.object({
      memories: z.array(ImportedRecord).min(1).max(TRANSFER_MEMORIES_MAX),
      conflict: z.enum(['skip', 'overwrite']).default('skip'),
    }),
    output: z.object({
      imported: z.int(),
      overwritten: z.int(),
      skipped: z.int(),
      /** Not taken in because a living memory has the same content. */
      duplicates: z.array(z.object({ id: z.string(), duplicateMemoryId: z.string() })),
      success: z.literal(true),
    }),
    errors: ['storage_failed'],
    bodyBytesMax: IMPORT_BODY_BYTES_MAX,
    bodyValuesMax: IMPORT_VALUES_MAX,
  }),
};
