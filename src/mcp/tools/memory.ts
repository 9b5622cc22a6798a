import type { MCP_MEMORY_TOOLS } from '../../contract/mcp-memory-tools.ts';
import type { Memory } from '../../contract/memory.ts';
import { MEMORY_CHARS_MAX, memoryOperations } from '../../contract/memory.ts';
import { memoryLifecycleOperations } from '../../contract/memory-lifecycle.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { withTagPrefix } from '../../core/tag-prefix.ts';
import type { McpToolHandlers } from './tool-handler.ts';

const { recall, remember, getMemory, patchMemory, deleteMemory } = memoryOperations;
const { listMemories, memoryFeedback } = memoryLifecycleOperations;

/** @source spec/mcp-server, "Tool Reference" */
export const memoryTools: McpToolHandlers<typeof MCP_MEMORY_TOOLS> = {
  async memory_search(input, daemon) {
    const { results, count, method } = await daemon.call(recall, input);
    return { results: results.map((memory) => ({ ...brief(memory), score: memory.score })), count, method };
  },
  async memory_store({ type, importance, visibility, ...told }, daemon) {
    // The daemon knows an agent by itself; without one, the program is who says it.
    const origin = { who: daemon.agentId === undefined ? daemon.harness : undefined, project: daemon.workspace };
    const {
      embedded: _,
      success: __,
      ...memory
    } = await daemon.call(remember, {
      ...withTagPrefix(told, MEMORY_CHARS_MAX),
      type,
      importance,
      visibility,
      ...origin,
    });
    return memory;
  },
  memory_get: (input, daemon) => daemon.call(getMemory, input),
  async memory_list(input, daemon) {
    const { memories, total, next } = await daemon.call(listMemories, input);
    return { memories: memories.map(brief), total, next };
  },
  async memory_modify({ id, reason, ...changes }, daemon) {
    if (Object.values(changes).every((change) => change === undefined)) {
      throw new AppError('invalid_request', { detail: 'nothing to change; give content, type, importance or tags' });
    }
    const { status } = await daemon.call(patchMemory, { id, reason, ...changes });
    const { history: _, ...memory } = await daemon.call(getMemory, { id });
    return { ...memory, status };
  },
  async memory_forget({ id, reason }, daemon) {
    try {
      const { status } = await daemon.call(deleteMemory, { id, reason });
      return { id, status };
    } catch (error) {
      // What a person pinned, a person lets go.
      if (!isAppError(error, 'memory_pinned')) throw error;
      throw new AppError('memory_pinned', { detail: `memory ${id} is pinned and stays; the user can unpin it`, cause: error });
    }
  },
  async memory_feedback({ session_key, ratings }, daemon) {
    const { ok, recorded } = await daemon.call(memoryFeedback, { sessionKey: session_key, feedback: ratings });
    return { ok, recorded };
  },
};

/** What a model needs of a memory: every further field costs tokens in each result. */
function brief({ id, content, type, importance, tags, agentId, scope, created_at, truncated }: Memory & { truncated?: boolean }) {
  return { id, content, type, importance, tags, agentId, scope, created_at, ...(truncated ? { truncated } : {}) };
}
