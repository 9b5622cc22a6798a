import type { AgentYaml } from '../contract/config.ts';
import type { WorkflowSource } from '../contract/workflow.ts';
import type { workflowConfigOperations } from '../contract/workflow-operations.ts';
import { AppError } from '../core/errors.ts';
import type { Handlers } from '../core/operation-call.ts';

/** GET /api/workflows */
export function createWorkflowConfig(config: () => AgentYaml): Handlers<typeof workflowConfigOperations> {
  return { workflowConfig: () => ({ workflows: workflowsOf(config()) }) };
}

/** The workflows of agent.yaml, complete. @throws AppError `config_invalid` when one names an agent that does not react */
export function workflowsOf({ workflows = {}, agents }: AgentYaml): WorkflowSource[] {
  const roster = agents?.roster ?? [];
  return Object.entries(workflows).map(([name, { agents: names, input = null, ...terms }]) => ({
    name,
    input,
    ...terms,
    agents: names.map((agent) => {
      const reactive = roster.find((entry) => entry.name === agent)?.reactive;
      if (reactive) return { name: agent, ...reactive };
      const known = roster.filter((entry) => entry.reactive).map((entry) => entry.name);
      throw new AppError('config_invalid', {
        detail: `agent.yaml: workflows.${name}.agents names "${agent}"; agents of the roster with \`reactive\`: ${known.join(', ') || 'none'}`,
      });
    }),
  }));
}
