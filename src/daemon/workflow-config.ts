import type { AgentYaml } from '../contract/config.ts';
import { durationMs } from '../contract/duration.ts';
import type { ReactiveAgent, WorkflowAgentSource, WorkflowSource } from '../contract/workflow.ts';
import { AppError } from '../core/errors.ts';
import { nameHint } from '../core/nearest-name.ts';
import { readOutputSchema } from './output-schema.ts';

/**
 * The workflows of agent.yaml, complete.
 *
 * @throws AppError `config_invalid` when one names an agent that does not react, or a schema that cannot be read
 */
export function workflowsOf(folder: string, { workflows = {}, agents }: AgentYaml): WorkflowSource[] {
  const roster = agents?.roster ?? [];
  return Object.entries(workflows).map(([name, { agents: names, input = null, timeout, ...terms }]) => ({
    name,
    input,
    ...terms,
    ...(timeout === undefined ? {} : { timeoutMs: durationMs(timeout) }),
    agents: names.map((agent) => {
      const reactive = roster.find((entry) => entry.name === agent)?.reactive;
      if (reactive) return agentOf(folder, agent, reactive);
      throw new AppError('config_invalid', { detail: `agent.yaml: workflows.${name}.agents names "${agent}"; ${fixOf(agent, roster)}` });
    }),
  }));
}

/** What to do about a workflow that names an agent which does not react. */
export function fixOf(agent: string, roster: readonly { readonly name: string; readonly reactive?: unknown }[]): string {
  const reacting = roster.filter((entry) => entry.reactive).map((entry) => entry.name);
  const isKnown = roster.some((entry) => entry.name === agent);
  const fix = isKnown ? `give "${agent}" a section \`reactive\`` : `add "${agent}" with a section \`reactive\` to agents.roster`;
  return `${nameHint(agent, reacting, 'agents of the roster with `reactive`')}. Or ${fix}`;
}

function agentOf(folder: string, name: string, { debounce, limits, output, ...rules }: ReactiveAgent): WorkflowAgentSource {
  const { timeout, ...bounds } = limits;
  const schema = typeof output === 'string' ? schemaOf(folder, name, output) : output;
  return {
    name,
    ...rules,
    ...(debounce === undefined ? {} : { debounceMs: durationMs(debounce) }),
    limits: { ...bounds, ...(timeout === undefined ? {} : { timeoutMs: durationMs(timeout) }) },
    ...(schema === undefined ? {} : { output: { ...schema } }),
  };
}

/** Read when a run begins: the file may have changed since agent.yaml was read. */
function schemaOf(folder: string, agent: string, path: string) {
  const { schema, problem } = readOutputSchema(folder, path);
  if (schema) return schema;
  throw new AppError('config_invalid', { detail: `agent.yaml: \`output\` of the agent "${agent}": ${path} ${problem}` });
}
