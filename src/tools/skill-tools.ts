import { agentFileOperations } from '../contract/agent-files.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import type { Tool } from '../core/tool.ts';

/** Deadline of one call of the daemon, in ms. */
const SKILL_TIMEOUT_MS = 10_000;

/**
 * How a session reads a skill that its first text only names. Faults of the daemon pass through as AppError with their code.
 *
 * @source spec/multi-agent, "Skills"
 */
export function createSkillTools(daemon: DaemonClient): Tool[] {
  return [
    {
      name: 'skill_read',
      description: 'Read what a skill says, before working on something it is about. A long one comes page by page.',
      class: 'pure',
      origin: 'builtin',
      timeoutMs: SKILL_TIMEOUT_MS,
      inputSchema: {
        type: 'object',
        properties: {
          name: { type: 'string', minLength: 1, maxLength: 256, description: 'Name of the skill' },
          offset: { type: 'integer', minimum: 0, description: 'Where the page begins: `next` of the page before; 0 when left out' },
        },
        required: ['name'],
        additionalProperties: false,
      },
      execute: (input, { agent, signal }) => {
        const { name, offset } = input as { name: string; offset?: number };
        return daemon.call(agentFileOperations.getSkill, { name, offset, agentId: agent }, { signal, timeoutMs: SKILL_TIMEOUT_MS });
      },
    },
  ];
}
