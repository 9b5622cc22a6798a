import { type AnyStateMachine, createMachine } from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import { sessionMachine } from '../../machines/session.machine.ts';

interface Edge {
  readonly guard?: string;
  readonly target?: string;
  readonly actions?: string | readonly string[];
}
type Edges = string | Edge | readonly (string | Edge)[];
interface Config {
  readonly on?: Readonly<Record<string, Edges>>;
  readonly always?: Edges;
  readonly states?: Readonly<Record<string, Config>>;
}

export interface Mutant {
  /** Id of the edge that is wrong. */
  readonly edge: string;
  readonly change: string;
  readonly machine: AnyStateMachine;
}

/** A copy of the session machine in which the first edge of a state for an event leads elsewhere. Only ever a model, never the product. */
export function withEdgeTo(state: string, event: string, target: string): AnyStateMachine {
  return changed({ source: state, event, index: 0 }, (edge) => ({ ...edge, target }));
}

/** For each edge that moves a session the machine with that edge leading elsewhere, and for each action the machine without it. */
export function mutants(): Mutant[] {
  const { edges } = statechartGraph(sessionMachine);
  return edges
    .filter(({ id }) => id !== 'session.ending#prompt:received#0')
    .flatMap(({ id, source, event, target, actions }) => {
      const index = Number(id.split('#').at(-1));
      const found: Mutant[] = [];
      if (target[0] !== source) {
        const elsewhere = target[0] === 'session.passivated' ? '#session.idle' : '#session.passivated';
        found.push({
          edge: id,
          change: `${id} leads to ${elsewhere}`,
          machine: changed({ source, event, index }, (edge) => ({ ...edge, target: elsewhere })),
        });
      }
      for (const action of actions) {
        const without = (edge: Edge) => ({ ...edge, actions: [edge.actions ?? []].flat().filter((name) => name !== action) });
        found.push({ edge: id, change: `${id} without ${action}`, machine: changed({ source, event, index }, without) });
      }
      return found;
    });
}

function changed(place: { source: string; event: string; index: number }, change: (edge: Edge) => Edge): AnyStateMachine {
  const config = rewrite(sessionMachine.config as unknown as Config, 'session', place, change);
  return createMachine(config as never, sessionMachine.implementations as never) as unknown as AnyStateMachine;
}

function rewrite(
  config: Config,
  id: string,
  place: { source: string; event: string; index: number },
  change: (edge: Edge) => Edge,
): Config {
  if (id === place.source) {
    const edges = (given: Edges | undefined) =>
      [given ?? []].flat().map((edge, index) => {
        const whole: Edge = typeof edge === 'string' ? { target: edge } : edge;
        return index === place.index ? change(whole) : whole;
      });
    if (place.event === '') return { ...config, always: edges(config.always) };
    return { ...config, on: { ...config.on, [place.event]: edges(config.on?.[place.event]) } };
  }
  if (!place.source.startsWith(`${id}.`)) return config;
  const states = Object.entries(config.states ?? {}).map(([key, child]) => [key, rewrite(child, `${id}.${key}`, place, change)] as const);
  return { ...config, states: Object.fromEntries(states) };
}
