import { MEMORY_CHARS_MAX, type Memory, memoryOperations, QUERY_CHARS_MAX, RECALL_LIMIT, RECALL_LIMIT_MAX } from '../contract/memory.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { CallOptions, DaemonClient } from '../core/operation-call.ts';
import { withTagPrefix } from '../core/tag-prefix.ts';
import type { Tool, ToolContext } from '../core/tool.ts';

/** Deadline of one memory call in ms, as spec/mcp-server has it. */
export const MEMORY_TIMEOUT_MS = 10_000;

const { recall, remember, getMemory, modifyMemory, forgetMemory } = memoryOperations;

const ID = { type: 'string', minLength: 1, maxLength: 128, description: 'Memory id, as memory_search and memory_store give it' };
const TYPE = { type: 'string', minLength: 1, maxLength: 64, description: 'Kind of memory: fact, preference, decision, ...' };
const IMPORTANCE = { type: 'number', minimum: 0, maximum: 1, description: 'Importance from 0 to 1' };
const TAGS = { type: 'string', maxLength: 4_096, description: 'Comma-separated tags' };
const VISIBILITY = {
  type: 'string',
  enum: ['global', 'private'],
  description: 'private: only this agent finds it; global: every agent may. As configured for the agent when left out',
};
const content = (description: string) => ({ type: 'string', minLength: 1, maxLength: MEMORY_CHARS_MAX, description });
const reason = (description: string) => ({ type: 'string', minLength: 1, maxLength: 2_000, description });

/**
 * The built-in memory tools: each is one or two daemon operations with the session's agent, and no rule of its own.
 * Faults of the daemon pass through as AppError with their code.
 *
 * @source spec/native-runtime, "Tool"; spec/mcp-server, "Tool Reference"
 */
export function createMemoryTools(daemon: DaemonClient): Tool[] {
  return [memorySearch(daemon), memoryStore(daemon), memoryGet(daemon), memoryModify(daemon), memoryForget(daemon)];
}

function memorySearch(daemon: DaemonClient): Tool {
  type Input = { query: string; limit?: number; type?: string; min_score?: number };
  return {
    ...builtin('memory_search', 'pure', 'Search stored memories by words and meaning; best matches first.'),
    inputSchema: fields(['query'], {
      query: { type: 'string', maxLength: QUERY_CHARS_MAX, description: 'What to look for' },
      limit: { type: 'integer', minimum: 1, maximum: RECALL_LIMIT_MAX, description: `Most results; ${RECALL_LIMIT} when left out` },
      type: { ...TYPE, description: 'Only memories of this kind' },
      min_score: { type: 'number', minimum: 0, maximum: 1, description: 'Leave out results that score less' },
    }),
    async execute(input, context) {
      const { query, limit, type, min_score } = input as Input;
      // No project: asked for by name a memory may be of any project; an explicit one would hide those without.
      const asked = { query, limit, type, min_score, agentId: context.agent };
      const { results } = await daemon.call(recall, asked, options(context));
      return results.map((memory) => ({ ...shown(memory), score: memory.score, ...(memory.truncated ? { truncated: true } : {}) }));
    },
  };
}

function memoryStore(daemon: DaemonClient): Tool {
  type Input = { content: string; type?: string; importance?: number; tags?: string; visibility?: 'global' | 'private' };
  return {
    ...builtin('memory_store', 'idempotent', 'Save a new memory. The same content again is the same memory.'),
    inputSchema: fields(['content'], {
      content: content('What to remember'),
      type: TYPE,
      importance: IMPORTANCE,
      tags: TAGS,
      visibility: VISIBILITY,
    }),
    async execute(input, context) {
      const { type, importance, visibility, ...told } = input as Input;
      const { sessionKey, agent, project, callKey } = context;
      const memory = await daemon.call(
        remember,
        {
          ...withTagPrefix(told, MEMORY_CHARS_MAX),
          type,
          importance,
          visibility,
          agentId: agent,
          sessionKey,
          project: project || undefined,
          idempotencyKey: callKey,
        },
        options(context),
      );
      return { ...shown(memory), ...(memory.deduped ? { deduped: true } : {}) };
    },
  };
}

function memoryGet(daemon: DaemonClient): Tool {
  return {
    ...builtin('memory_get', 'pure', 'Read one memory by its id, with the history of its changes.'),
    inputSchema: fields(['id'], { id: ID }),
    async execute(input, context) {
      const { id } = input as { id: string };
      const memory = await daemon.call(getMemory, { id, agentId: context.agent }, options(context));
      return { ...shown(memory), updated_at: memory.updated_at, version: memory.version, history: memory.history };
    },
  };
}

function memoryModify(daemon: DaemonClient): Tool {
  type Input = { id: string; reason: string; content?: string; type?: string; importance?: number; tags?: string };
  return {
    // It sets values and counts nothing: done twice it leaves what doing it once leaves.
    ...builtin('memory_modify', 'idempotent', 'Change a memory; fields that are left out stay. The reason is kept in its history.'),
    inputSchema: fields(['id', 'reason'], {
      id: ID,
      reason: reason('Why the memory is changed'),
      content: content('New content'),
      type: TYPE,
      importance: IMPORTANCE,
      tags: { ...TAGS, description: 'New comma-separated tags' },
    }),
    async execute(input, context) {
      const { id, reason, ...changes } = input as Input;
      if (Object.keys(changes).length === 0) {
        throw new AppError('invalid_request', { detail: 'nothing to change; give content, type, importance or tags' });
      }
      const { results } = await daemon.call(modifyMemory, { id, reason, ...changes, agentId: context.agent }, options(context));
      requireDone(id, results[0]?.status, ['updated', 'no_changes']);
      const memory = await daemon.call(getMemory, { id, agentId: context.agent }, options(context));
      return { ...shown(memory), updated_at: memory.updated_at, version: memory.version };
    },
  };
}

function memoryForget(daemon: DaemonClient): Tool {
  return {
    ...builtin('memory_forget', 'idempotent', 'Forget a memory: it is never found again. The reason is kept.'),
    inputSchema: fields(['id', 'reason'], { id: ID, reason: reason('Why the memory is forgotten') }),
    async execute(input, context) {
      const { id, reason } = input as { id: string; reason: string };
      try {
        const { results } = await daemon.call(forgetMemory, { id, reason, agentId: context.agent }, options(context));
        requireDone(id, results[0]?.status, ['deleted', 'memory_deleted']);
      } catch (error) {
        // Run again after a crash the first run may have done it: gone is gone.
        if (!isAppError(error, 'memory_deleted')) throw error;
      }
      return { id, status: 'deleted' };
    },
  };
}

function builtin(name: string, toolClass: Tool['class'], description: string): Omit<Tool, 'inputSchema' | 'execute'> {
  return { name, description, class: toolClass, origin: 'builtin', timeoutMs: MEMORY_TIMEOUT_MS };
}

function fields(required: readonly string[], properties: Record<string, object>): Tool['inputSchema'] {
  return { type: 'object', properties, required, additionalProperties: false };
}

function options(context: ToolContext): CallOptions {
  return { signal: context.signal, timeoutMs: MEMORY_TIMEOUT_MS, limit: context.limit };
}

/** What a model needs of a memory: every further field costs tokens in each result. */
function shown({ id, content, type, importance, tags, agentId, scope, created_at }: Memory): Record<string, unknown> {
  return { id, content, type, importance, tags, agentId, scope, created_at };
}

/** A batch answers per memory; for a single one anything but success is a failure. */
function requireDone(id: string, status: string | undefined, good: readonly string[]): void {
  if (status !== undefined && good.includes(status)) return;
  throw new AppError('tool_failed', { detail: `memory ${id} was left as it is: ${status ?? 'the daemon said nothing about it'}` });
}
