import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { MemoryId, QUERY_CHARS_MAX } from './memory.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { LINE } from './scope.ts';

export const TURNS_LISTED_MAX = 1_000;
export const TURNS_LISTED = 200;
export const TURN_HITS_MAX = 100;
export const SUMMARIES_LISTED_MAX = 200;

/** One turn as it was said. Roles are those of the harness: user, assistant, tool, … */
export const StoredTurn = z.object({ number: z.int(), role: z.string(), content: z.string(), at: z.string().nullable() });
export type StoredTurn = z.output<typeof StoredTurn>;

/** A summary in the temporal graph. */
export const TemporalNode = z.object({
  id: z.string(),
  kind: z.enum(['session', 'compaction', 'arc', 'epoch']),
  /** 0 of a session, 1 of an arc of sessions, 2 of an epoch of arcs. */
  depth: z.int(),
  agentId: z.string(),
  project: z.string().nullable(),
  sessionKey: z.string().nullable(),
  harness: z.string().nullable(),
  content: z.string(),
  /** The memory that holds the same text. */
  memoryId: z.string().nullable(),
  /** The node this one was condensed into. */
  parentId: z.string().nullable(),
  earliestAt: z.string(),
  latestAt: z.string(),
  createdAt: z.string(),
});
export type TemporalNode = z.output<typeof TemporalNode>;

const key = z.string().min(1).max(600);
const sessions = { tag: 'sessions', role: 'readonly', unknownFields: 'ignore' } as const;

export const transcriptOperations = {
  getTranscript: defineOperation({
    ...sessions,
    id: 'getTranscript',
    method: 'GET',
    path: '/api/sessions/:key/transcript',
    scope: LINE,
    summary: 'The raw turns an agent’s sessions under this key left behind, oldest first. They outlive the session.',
    input: z.object({
      key,
      agentId: AskingAgent,
      /** Turns after this number. */
      after: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
      limit: wholeNumber(1, TURNS_LISTED_MAX).default(TURNS_LISTED),
    }),
    output: z.object({
      sessionKey: z.string(),
      agentId: z.string(),
      harness: z.string(),
      project: z.string().nullable(),
      turns: z.array(StoredTurn),
      /** Turns there are in all. */
      total: z.int(),
      /** `after` of the next page; null on the last one. */
      next: z.int().nullable(),
    }),
    errors: ['transcript_not_found'],
    source: 'spec/hooks',
  }),
  searchTranscripts: defineOperation({
    ...sessions,
    id: 'searchTranscripts',
    method: 'POST',
    path: '/api/sessions/search',
    scope: { agent: ['agentId'], project: ['project'] },
    summary: 'Search the raw turns of one agent’s sessions: any word may match, best first.',
    input: z.object({
      query: z.string().max(QUERY_CHARS_MAX),
      agentId: AskingAgent,
      project: z.string().max(4_096).optional(),
      sessionKey: key.optional(),
      limit: wholeNumber(1, TURN_HITS_MAX).default(10),
    }),
    output: z.object({
      results: z.array(
        StoredTurn.extend({
          sessionKey: z.string(),
          project: z.string().nullable(),
          /** Share of the query's distinct words that the turn holds, 0..1. */
          score: z.number(),
        }),
      ),
      count: z.int(),
    }),
    errors: [],
  }),
  getContinuity: defineOperation({
    ...sessions,
    id: 'getContinuity',
    method: 'GET',
    path: '/api/sessions/:key/continuity',
    scope: LINE,
    summary: 'How well the sessions under this key were served by what they remembered, and what a session that goes on starts from.',
    input: z.object({ key, agentId: AskingAgent }),
    output: z.object({
      sessionKey: z.string(),
      agentId: z.string(),
      /** The summary of the last compaction, and the last prompts (kept every ten of them) or, once it has ended, its last words. */
      checkpoint: z.object({ text: z.string(), at: z.string() }).nullable(),
      /** Newest first; one for each time the session was rated. */
      scores: z.array(
        z.object({
          score: z.number(),
          confidence: z.number(),
          reasoning: z.string(),
          memoriesUsed: z.int(),
          at: z.string(),
        }),
      ),
      /** How much each memory the session was shown mattered to it, 0..1. */
      memories: z.array(z.object({ id: z.string(), relevance: z.number(), at: z.string() })),
    }),
    errors: [],
  }),
  listSummaries: defineOperation({
    ...sessions,
    id: 'listSummaries',
    method: 'GET',
    path: '/api/sessions/summaries',
    scope: { agent: ['agentId'], project: ['project'] },
    summary: 'The temporal graph of one agent: summaries of sessions and compactions, and what they were condensed into; newest first.',
    input: z.object({
      agentId: AskingAgent,
      project: z.string().max(4_096).optional(),
      sessionKey: key.optional(),
      depth: wholeNumber(0, 2).optional(),
      /** Only what was condensed into this node. */
      parentId: z.string().max(64).optional(),
      limit: wholeNumber(1, SUMMARIES_LISTED_MAX).default(50),
      offset: wholeNumber(0, 1_000_000).default(0),
    }),
    output: z.object({
      summaries: z.array(
        TemporalNode.extend({
          /** The same under the names older clients read. */
          agent_id: z.string(),
          session_key: z.string().nullable(),
          token_count: z.int(),
          earliest_at: z.string(),
          latest_at: z.string(),
          created_at: z.string(),
          childCount: z.int(),
        }),
      ),
      total: z.int(),
    }),
    errors: [],
  }),
  memorySources: defineOperation({
    id: 'memorySources',
    method: 'GET',
    path: '/api/memory/:id/sources',
    scope: LINE,
    tag: 'memory',
    role: 'readonly',
    unknownFields: 'ignore',
    summary: 'The raw turns an extracted memory was taken from; empty for one that was written by hand.',
    input: z.object({ id: MemoryId, agentId: AskingAgent }),
    output: z.object({
      id: z.string(),
      sources: z.array(z.object({ sessionKey: z.string(), from: z.int(), to: z.int(), turns: z.array(StoredTurn) })),
    }),
    errors: ['memory_not_found'],
  }),
};
