import { z } from 'zod';
import { DESTROYS, defineMcpTool, READS, WRITES } from './mcp-tool.ts';
import { MEMORY_CHARS_MAX, MemoryHistoryEntry, QUERY_CHARS_MAX, REASON_CHARS_MAX } from './memory.ts';
import { RATINGS_MAX } from './memory-lifecycle.ts';

const id = z.string().min(1).max(128).describe('Memory id, as memory_search, memory_list and memory_store give it');
const type = z.string().min(1).max(64).describe('Kind of memory: fact, preference, decision, ...');
const importance = z.number().min(0).max(1).describe('Importance from 0 to 1');
const tags = z.string().max(4_096).describe('Comma-separated tags');
const content = z.string().trim().min(1).max(MEMORY_CHARS_MAX);
const reason = z.string().trim().min(1).max(REASON_CHARS_MAX);
/** Too large ones are taken as the largest: clients that exist send them. */
const limit = (text: string) => z.number().int().min(1).describe(text);

const visibility = z
  .enum(['global', 'private'])
  .describe('private: only the agent of this connection finds it; global: every agent may. Default: as configured for the agent');

const briefMemory = {
  id: z.string(),
  content: z.string(),
  type: z.string(),
  importance: z.number(),
  tags: z.string().nullable(),
  /** Whose it is, and who else sees it: global or private. */
  agentId: z.string(),
  scope: z.string(),
  created_at: z.string(),
};
const fullMemory = { ...briefMemory, updated_at: z.string(), version: z.number() };

/** @source spec/mcp-server, "Tool Reference" */
export const MCP_MEMORY_TOOLS = {
  memory_search: defineMcpTool({
    title: 'Search memories',
    description: 'Search stored memories by words and by meaning; the best matches come first.',
    input: z.strictObject({
      query: z.string().max(QUERY_CHARS_MAX).describe('What to look for'),
      limit: limit('Most results, up to 100; default 10').optional(),
      type: type.describe('Only memories of this kind').optional(),
      min_score: z.number().min(0).max(1).describe('Leave out results that score less, 0 to 1').optional(),
    }),
    output: z.object({
      results: z.array(z.object({ ...briefMemory, score: z.number() })),
      count: z.number(),
      method: z.string(),
    }),
    list: 'results',
    hints: READS,
  }),
  memory_store: defineMcpTool({
    title: 'Store a memory',
    description: 'Save a new memory: a fact, a preference, a decision. The same content again is the same memory.',
    input: z.strictObject({
      content: content.describe('What to remember, understandable by itself'),
      type: type.optional(),
      importance: importance.optional(),
      tags: tags.optional(),
      visibility: visibility.optional(),
    }),
    output: z.object({ ...fullMemory, deduped: z.boolean().optional(), warning: z.string().optional() }),
    hints: WRITES,
  }),
  memory_get: defineMcpTool({
    title: 'Read a memory',
    description: 'Read one memory by its id, with the history of its changes.',
    input: z.strictObject({ id }),
    output: z.object({
      ...fullMemory,
      history: z.array(MemoryHistoryEntry.pick({ event: true, version: true, reason: true, createdAt: true })),
    }),
    hints: READS,
  }),
  memory_list: defineMcpTool({
    title: 'List memories',
    description: 'List memories, newest first, page by page.',
    input: z.strictObject({
      limit: limit('Most memories, up to 1000; default 100').optional(),
      offset: z.number().int().min(0).describe('How many of the newest to leave out; default 0').optional(),
      type: type.describe('Only memories of this kind').optional(),
    }),
    output: z.object({ memories: z.array(z.object(briefMemory)), total: z.number(), next: z.number().nullable() }),
    list: 'memories',
    hints: READS,
  }),
  memory_modify: defineMcpTool({
    title: 'Change a memory',
    description: 'Change a memory; fields that are left out stay as they are. The reason is kept in its history.',
    input: z.strictObject({
      id,
      reason: reason.describe('Why the memory is changed'),
      content: content.describe('New content').optional(),
      type: type.describe('New kind').optional(),
      importance: importance.describe('New importance from 0 to 1').optional(),
      tags: tags.describe('New comma-separated tags; an empty text removes them').optional(),
    }),
    output: z.object({ ...fullMemory, status: z.string() }),
    hints: DESTROYS,
  }),
  memory_forget: defineMcpTool({
    title: 'Forget a memory',
    description: 'Forget a memory: it is never found again. It stays in the database for a while, marked with the reason.',
    input: z.strictObject({ id, reason: reason.describe('Why the memory is forgotten') }),
    output: z.object({ id: z.string(), status: z.string() }),
    hints: DESTROYS,
  }),
  memory_feedback: defineMcpTool({
    title: 'Rate memories',
    description: 'Rate how relevant memories were that this session was given: 1 directly helpful, 0 unused, -1 harmful or misleading.',
    input: z.strictObject({
      session_key: z.string().min(1).max(512).describe('Key of the current session'),
      ratings: z
        .record(z.string(), z.number().min(-1).max(1))
        .refine((ratings) => Object.keys(ratings).length <= RATINGS_MAX, {
          message: `ratings takes at most ${RATINGS_MAX} entries in one call`,
        })
        .describe('Score from -1 to 1 by memory id'),
    }),
    output: z.object({ ok: z.boolean(), recorded: z.number() }),
    hints: WRITES,
  }),
};
