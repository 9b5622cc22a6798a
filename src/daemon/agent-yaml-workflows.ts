import type { AgentYaml } from '../contract/config.ts';
import { readOutputSchema } from './output-schema.ts';
import { fixOf } from './workflow-config.ts';

/** Something about the workflows of agent.yaml, with its place. */
export interface WorkflowNote {
  readonly path: readonly PropertyKey[];
  readonly text: string;
}

export const NO_SCHEDULES =
  'there are no schedules; remove it, and let cron, a systemd timer or the like run `signet workflow run <name> --detach` on time';

/** `start: "0 3 * * *"` of a workflow. */
export function isSchedule(path: readonly PropertyKey[]): boolean {
  return path.length === 3 && path[0] === 'workflows' && path[2] === 'start';
}

/**
 * Mistakes that no schema tells.
 *
 * @param value  the file as it stands, without the defaults
 */
export function workflowFaults(folder: string, value: unknown, { agents }: AgentYaml): WorkflowNote[] {
  const schemas = (agents?.roster ?? []).flatMap(({ reactive }, index): WorkflowNote[] => {
    if (typeof reactive?.output !== 'string') return [];
    const { problem } = readOutputSchema(folder, reactive.output);
    const path = ['agents', 'roster', index, 'reactive', 'output'];
    return problem === undefined ? [] : [{ path, text: `${reactive.output} ${problem}` }];
  });
  return [...schemas, ...saidTwice(value)];
}

/** Agents that workflows name and that do not react: told, and refused when such a workflow is to run. */
export function strangersIn({ workflows = {}, agents }: AgentYaml): WorkflowNote[] {
  const roster = agents?.roster ?? [];
  const reacts = (name: string): boolean => roster.some((entry) => entry.name === name && entry.reactive !== undefined);
  return Object.entries(workflows).flatMap(([workflow, entry]) =>
    entry.agents.flatMap((agent, index): WorkflowNote[] =>
      reacts(agent)
        ? []
        : [{ path: ['workflows', workflow, 'agents', index], text: `no reactive agent "${agent}"; ${fixOf(agent, roster)}` }],
    ),
  );
}

/** A time span given in both forms. */
function saidTwice(value: unknown): WorkflowNote[] {
  const { agents, workflows } = value as {
    agents?: { roster?: { reactive?: Spans & { limits?: Spans } }[] };
    workflows?: Record<string, Spans>;
  };
  const places: [WorkflowNote['path'], Spans | undefined][] = [
    ...(agents?.roster ?? []).flatMap(({ reactive }, index): [WorkflowNote['path'], Spans | undefined][] => {
      const path = ['agents', 'roster', index, 'reactive'];
      return [
        [path, reactive],
        [[...path, 'limits'], reactive?.limits],
      ];
    }),
    ...Object.entries(workflows ?? {}).map(([name, entry]): [WorkflowNote['path'], Spans] => [['workflows', name], entry]),
  ];
  return places.flatMap(([path, spans]) =>
    (['debounce', 'timeout'] as const)
      .filter((key) => spans?.[key] !== undefined && spans[`${key}Ms`] !== undefined)
      .map((key) => ({ path: [...path, key], text: `${key}Ms says the same; give one of them` })),
  );
}

type Spans = { readonly [K in 'debounce' | 'debounceMs' | 'timeout' | 'timeoutMs']?: unknown };
