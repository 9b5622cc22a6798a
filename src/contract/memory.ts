import { z } from 'zod';
import { AskingAgent, Timestamp } from './ids.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { MEMORIES, MEMORY_BY_ID } from './scope.ts';

/** Who may see a memory: everybody, its agent alone, or nobody until it is brought back. */
export const Scope = z.enum(['global', 'private', 'archived']);
export type Scope = z.output<typeof Scope>;

/** Longest memory in characters; longer ones are refused by name, never cut. */
export const MEMORY_CHARS_MAX = 100_000;
export const QUERY_CHARS_MAX = 10_000;
export const RECALL_LIMIT_MAX = 100;
export const RECALL_LIMIT = 10;
/** Memories a query or filter chooses to be forgotten, unless said otherwise. */
const FORGET_LIMIT = 20;

/**
 * A limit that is too small or too large is taken as the nearest one that is not: clients that exist send both. A number may stand in a string,
 * as in a query string; what is no number, such as null or '', is refused and not taken for 0.
 */
export const clampedLimit = (value: number, max: number) =>
  z
    .preprocess(
      (sent) => (typeof sent === 'string' && sent.trim() !== '' ? Number(sent) : sent),
      z
        .number()
        .int()
        .transform((limit) => Math.min(Math.max(limit, 1), max)),
    )
    .default(value);

/** The beginning of a time span; a date alone is the beginning of its day, UTC. */
export const Since = z.union([Timestamp, z.iso.date().transform((date) => `${date}T00:00:00.000Z`)], {
  error: 'since must be a time such as 2025-03-01T00:00:00Z, or a date such as 2025-03-01 (UTC)',
});

/** `a,b` or `["a","b"]`; stored as a list. */
export const Tags = z.union([z.array(z.string().max(128)).max(64), z.string().max(4_096), z.null()]);
/** Numbers are accepted because older clients and models send them. */
export const MemoryId = z.union([z.string().min(1).max(128), z.number()]).transform(String);

export const Memory = z.object({
  id: z.string(),
  content: z.string(),
  type: z.string(),
  importance: z.number(),
  tags: z.string().nullable(),
  pinned: z.boolean(),
  who: z.string(),
  agentId: z.string(),
  scope: Scope,
  project: z.string().nullable(),
  source_type: z.string(),
  source_id: z.string().nullable(),
  session_id: z.string().nullable(),
  /** The older memory this one took the place of. */
  supersedes: z.string().nullable(),
  /** The newer memory that took its place: it is still found, behind that one. */
  superseded_by: z.string().nullable(),
  version: z.int(),
  created_at: z.string(),
  updated_at: z.string(),
  access_count: z.int(),
});
export type Memory = z.output<typeof Memory>;

export const MemoryHistoryEntry = z.object({
  event: z.enum(['created', 'updated', 'superseded', 'deleted', 'recovered']),
  version: z.int(),
  reason: z.string().nullable(),
  changedBy: z.string(),
  /** operator, pipeline, harness, sdk or daemon, as the caller said. */
  actorType: z.string().nullable(),
  oldContent: z.string().nullable(),
  newContent: z.string().nullable(),
  /** What an update changed: content, type, importance, tags, pinned. */
  changedFields: z.array(z.string()).nullable(),
  sessionId: z.string().nullable(),
  requestId: z.string().nullable(),
  createdAt: z.string(),
});
export type MemoryHistoryEntry = z.output<typeof MemoryHistoryEntry>;

/** Fields a memory is written with, on hooks and on the memory API alike. */
export const MemoryFields = {
  content: z.string().trim().min(1).max(MEMORY_CHARS_MAX),
  type: z.string().min(1).max(64).optional(),
  importance: z.number().min(0).max(1).optional(),
  tags: Tags.optional(),
  pinned: flag.optional(),
  who: z.string().max(256).optional(),
  project: z.string().max(4_096).optional(),
  agentId: AskingAgent,
  scope: Scope.optional(),
  /** Older word for scope. */
  visibility: Scope.optional(),
  /** Back-dated import. */
  createdAt: Timestamp.optional(),
  idempotencyKey: z.string().max(256).optional(),
  sessionKey: z.string().max(512).optional(),
  /** Id of the older memory that this one takes the place of. */
  supersedes: MemoryId.optional(),
};

const ShownScope = Scope.exclude(['archived'], { error: 'must be global or private; archived memories are not found' });

/** Narrows what a caller may see to one scope; `visibility` is the older word for it. */
export const ScopeFilters = { scope: ShownScope.optional(), visibility: ShownScope.optional() };

/** On whose behalf a route of the memory API is called. */
export const Asking = {
  agentId: AskingAgent,
  /** `agent:<name>:<rest>` names the agent where agentId does not. */
  sessionKey: z.string().max(512).optional(),
};

export const RecallFilters = {
  query: z.string().max(QUERY_CHARS_MAX),
  limit: clampedLimit(RECALL_LIMIT, RECALL_LIMIT_MAX),
  ...Asking,
  ...ScopeFilters,
  project: z.string().max(4_096).optional(),
  type: z.string().max(64).optional(),
  tags: Tags.optional(),
  who: z.string().max(256).optional(),
  pinned: flag.optional(),
  importance_min: z.coerce.number().min(0).max(1).optional(),
  since: Since.optional(),
  until: Timestamp.optional(),
  /** Least score in 0..1; `minScore` is accepted as well. */
  min_score: z.coerce.number().min(0).max(1).optional(),
  minScore: z.coerce.number().min(0).max(1).optional(),
  /** Say with each result why it stands where it stands. */
  explain: flag.optional(),
};

/** Why a result stands where it stands. */
export const RecallExplanation = z.object({
  /** What orders the results of one query; means nothing beyond it. */
  relevance: z.number(),
  /** Share of the query's weight that the memory holds, and that it holds together with its neighbours in the session. */
  coverage: z.number(),
  around: z.number(),
  /** −1..1 of what ratings may move. */
  feedback: z.number(),
  /** Cosine to the query, where vectors were asked. */
  likeness: z.number().nullable(),
  /** Signs of relevance before their weights. */
  features: z.record(z.string(), z.number()),
  /** The signs that count in plain words, greatest first; `share` is of all that speaks for the memory, below 0 of what speaks against it. */
  parts: z.array(z.object({ name: z.string(), says: z.string(), share: z.number() })),
  /** How sure it is, 0 being just enough to be shown; null when only likeness of meaning is known. */
  certainty: z.number().nullable(),
  /** What the hook of a prompt would make of it, in plain words. */
  inject: z.string(),
});

export const RecalledMemory = Memory.extend({
  /** Absolute in 0..1, not relative to the best hit: the share of the query's weight it covers, half of it together with its neighbours. */
  score: z.number(),
  /** To be relied on, possibly related, worth a line beside a strong one, or not to be shown unasked; the larger the store, the more it takes. */
  match: z.enum(['strong', 'possible', 'faint', 'none']),
  source: z.string(),
  content_length: z.int(),
  truncated: z.boolean(),
  explain: RecallExplanation.optional(),
});
export type RecalledMemory = z.output<typeof RecalledMemory>;

export const RecallAnswer = z.object({
  results: z.array(RecalledMemory),
  count: z.int(),
  query: z.string(),
  method: z.enum(['keyword', 'fts', 'hybrid', 'none']),
  /** Why it is not the method that was configured. */
  degraded: z.string().optional(),
  /** The best hit covers the query well enough to be trusted without a second look. */
  strong: z.boolean(),
});
export type RecallAnswer = z.output<typeof RecallAnswer>;

export const ChangedMemory = z.object({
  id: z.string(),
  status: z.enum(['updated', 'no_changes', 'deleted', 'recovered']),
  success: z.literal(true),
  currentVersion: z.int(),
  newVersion: z.int(),
  contentChanged: z.boolean().optional(),
});

/** Lenient towards clients that exist: unknown fields are ignored, except where it would destroy more than was meant. */
const existing = { tag: 'memory', unknownFields: 'ignore' } as const;

/** Memories one call may change. */
export const BATCH_MEMORIES_MAX = 200;
export const REASON_CHARS_MAX = 2_000;
/** Settled when a memory is written; refused in a change, whatever it says. */
const FixedScope = { scope: z.unknown().optional(), visibility: z.unknown().optional() };
const Reason = z.string().trim().min(1).max(REASON_CHARS_MAX);

export const memoryOperations = {
  remember: defineOperation({
    ...existing,
    id: 'remember',
    method: 'POST',
    path: '/api/memory/remember',
    scope: MEMORIES,
    role: 'agent',
    summary: 'Store a memory. The same content again is the same memory.',
    input: z.object({ ...MemoryFields, sourceType: z.string().max(64).optional(), sourceId: z.string().max(512).optional() }),
    output: Memory.extend({
      embedded: z.boolean(),
      deduped: z.boolean().optional(),
      success: z.literal(true),
      /** It was stored, and something about it may not be what was meant: an agent nobody has set up. */
      warning: z.string().optional(),
    }),
    errors: ['memory_not_found', 'storage_failed'],
    source: 'spec/mcp-server',
  }),
  recall: defineOperation({
    ...existing,
    id: 'recall',
    method: 'POST',
    path: '/api/memory/recall',
    scope: MEMORIES,
    role: 'readonly',
    summary: 'Search memories an agent may see, best first; forgotten and archived ones never.',
    queryFields: ['explain'],
    input: z.object(RecallFilters),
    output: RecallAnswer,
    errors: ['storage_failed'],
    source: 'spec/native-runtime',
  }),
  getMemory: defineOperation({
    ...existing,
    id: 'getMemory',
    method: 'GET',
    path: '/api/memory/:id',
    scope: MEMORY_BY_ID,
    role: 'readonly',
    summary: 'One memory with its history.',
    input: z.object({ id: MemoryId, ...Asking }),
    output: Memory.extend({ history: z.array(MemoryHistoryEntry) }),
    errors: ['memory_not_found'],
    source: 'spec/native-runtime',
  }),
  patchMemory: defineOperation({
    ...existing,
    id: 'patchMemory',
    method: 'PATCH',
    path: '/api/memory/:id',
    scope: MEMORY_BY_ID,
    role: 'agent',
    summary: 'Change a memory; the reason is kept in its history.',
    input: z.object({
      id: MemoryId,
      reason: Reason,
      content: z.string().trim().min(1).max(MEMORY_CHARS_MAX).optional(),
      type: z.string().min(1).max(64).optional(),
      importance: z.number().min(0).max(1).optional(),
      tags: Tags.optional(),
      pinned: flag.optional(),
      ...FixedScope,
      if_version: z.int().min(1).optional(),
      changed_by: z.string().max(256).optional(),
      ...Asking,
    }),
    output: ChangedMemory,
    errors: ['memory_not_found', 'memory_deleted', 'version_conflict', 'duplicate_content_hash'],
    source: 'spec/mcp-server',
  }),
  deleteMemory: defineOperation({
    ...existing,
    id: 'deleteMemory',
    method: 'DELETE',
    path: '/api/memory/:id',
    scope: MEMORY_BY_ID,
    role: 'agent',
    summary: 'Forget a memory: kept, marked with the reason, never returned again.',
    input: z.object({
      id: MemoryId,
      reason: Reason,
      force: flag.optional(),
      if_version: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
      ...Asking,
    }),
    output: ChangedMemory,
    errors: ['memory_not_found', 'memory_deleted', 'version_conflict', 'memory_pinned'],
    source: 'spec/mcp-server',
  }),
  modifyMemory: defineOperation({
    ...existing,
    id: 'modifyMemory',
    method: 'POST',
    path: '/api/memory/modify',
    scope: MEMORY_BY_ID,
    role: 'agent',
    summary: 'Change one memory by id, or up to 200 by patches.',
    input: z.object({
      id: MemoryId.optional(),
      reason: Reason.optional(),
      content: z.string().trim().min(1).max(MEMORY_CHARS_MAX).optional(),
      type: z.string().min(1).max(64).optional(),
      importance: z.number().min(0).max(1).optional(),
      tags: Tags.optional(),
      pinned: flag.optional(),
      ...FixedScope,
      if_version: z.int().min(1).optional(),
      changed_by: z.string().max(256).optional(),
      ...Asking,
      /** Each `{id, reason?, if_version?}` with the fields to change, beside these or in `fields`; a wrong one is told in its own result. */
      patches: z.array(z.unknown()).min(1).max(BATCH_MEMORIES_MAX).optional(),
    }),
    output: z.object({
      total: z.int(),
      updated: z.int(),
      success: z.boolean(),
      results: z.array(z.looseObject({ id: z.string(), status: z.string() })),
    }),
    errors: ['memory_not_found', 'memory_deleted', 'version_conflict', 'duplicate_content_hash'],
    source: 'spec/native-runtime',
  }),
  /** It destroys: a filter it does not know is refused, since without it more would be forgotten than was meant. */
  forgetMemory: defineOperation({
    ...existing,
    unknownFields: 'refuse',
    id: 'forgetMemory',
    method: 'POST',
    path: '/api/memory/forget',
    scope: MEMORIES,
    role: 'agent',
    summary: 'Forget one memory by id, or up to 200 by ids, query or filters: shown first, done with mode execute.',
    input: z.object({
      id: MemoryId.optional(),
      ids: z.array(MemoryId).min(1).max(BATCH_MEMORIES_MAX).optional(),
      query: z.string().max(QUERY_CHARS_MAX).optional(),
      type: z.string().max(64).optional(),
      tags: Tags.optional(),
      who: z.string().max(256).optional(),
      source_type: z.string().max(64).optional(),
      ...ScopeFilters,
      project: z.string().max(4_096).optional(),
      pinned: flag.optional(),
      importance_min: z.number().min(0).max(1).optional(),
      since: Since.optional(),
      until: Timestamp.optional(),
      /** Least score of a query, in 0..1; `minScore` is accepted as well. */
      min_score: z.coerce.number().min(0).max(1).optional(),
      minScore: z.coerce.number().min(0).max(1).optional(),
      /** Memories that a query or filter may choose. */
      limit: clampedLimit(FORGET_LIMIT, BATCH_MEMORIES_MAX),
      mode: z.enum(['preview', 'execute']).optional(),
      reason: Reason.optional(),
      force: flag.optional(),
      /** For a single memory. */
      if_version: z.int().min(1).optional(),
      /** From the preview; needed beyond 25 memories. */
      confirm_token: z.string().max(128).optional(),
      /** Alias of confirm_token. */
      confirmToken: z.string().max(128).optional(),
      changed_by: z.string().max(256).optional(),
      ...Asking,
      /** Of clients that name their runtime path in every body; means nothing here. */
      runtimePath: z.string().max(64).optional(),
    }),
    output: z.object({
      mode: z.enum(['preview', 'execute']),
      requested: z.int(),
      deleted: z.int(),
      success: z.boolean(),
      results: z.array(z.looseObject({ id: z.string(), status: z.string() })),
      /** Of a preview. */
      count: z.int().optional(),
      requiresConfirm: z.boolean().optional(),
      confirmToken: z.string().optional(),
      candidates: z.array(z.object({ id: z.string(), score: z.number(), pinned: z.boolean(), version: z.int() })).optional(),
    }),
    errors: ['memory_not_found', 'memory_deleted', 'memory_pinned', 'version_conflict', 'confirmation_required'],
    source: 'spec/native-runtime',
  }),
};
