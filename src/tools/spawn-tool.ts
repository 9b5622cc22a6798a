import { TOOL_TIMEOUT_MS_MAX } from '../contract/tool.ts';
import type { SpawnSession } from '../core/session-spawner.ts';
import type { Tool } from '../core/tool.ts';

/** How long an answer is waited for when the call does not say; unit: milliseconds. */
const WAIT_MS = 300_000;
const WAIT_MS_MIN = 1_000;
/** Time for the result to be told before the call's own deadline; unit: milliseconds. */
const RESULT_MARGIN_MS = 1_000;
const PROMPT_CHARS_MAX = 100_000;

interface Input {
  readonly prompt: string;
  readonly agent?: string;
  readonly model?: string;
  readonly title?: string;
  readonly wait?: boolean;
  readonly timeoutMs?: number;
}

/** The built-in tool with which a session hands a task to a session of its own. A call that is made again finds the child of the first. */
export function createSpawnTool(spawn: SpawnSession): Tool {
  return {
    name: 'spawn_session',
    description:
      'Hand a task to a new session of your own, which works on it with the same tools and knows only what the prompt says. ' +
      'Answers with what it said. Several calls at once work in parallel.',
    class: 'idempotent',
    origin: 'builtin',
    internal: true,
    timeoutMs: TOOL_TIMEOUT_MS_MAX,
    inputSchema: {
      type: 'object',
      required: ['prompt'],
      additionalProperties: false,
      properties: {
        prompt: { type: 'string', minLength: 1, maxLength: PROMPT_CHARS_MAX, description: 'The task, with all it takes to do it' },
        agent: {
          type: 'string',
          minLength: 1,
          maxLength: 64,
          description: 'Agent that does it; your own when left out. Others only where the configuration allows them',
        },
        model: { type: 'string', minLength: 1, maxLength: 256, description: 'Model that does it' },
        title: { type: 'string', maxLength: 512, description: 'Short name of the task' },
        wait: { type: 'boolean', description: 'false: answer at once with the id of the session and let it work' },
        timeoutMs: {
          type: 'integer',
          minimum: WAIT_MS_MIN,
          maximum: TOOL_TIMEOUT_MS_MAX - RESULT_MARGIN_MS,
          description: `Longest wait in ms; ${WAIT_MS} when left out`,
        },
      },
    },
    execute(input, { sessionId, callKey, limit, signal, used }) {
      const { wait = true, timeoutMs = WAIT_MS, ...wish } = input as Input;
      return spawn({ ...wish, wait, timeoutMs, parent: sessionId, callKey, limit, ...(used ? { used } : {}) }, signal);
    },
  };
}
