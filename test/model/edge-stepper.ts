import {
  type ActorScope,
  type AnyStateMachine,
  type AnyStateNode,
  type AnyTransitionDefinition,
  createActor,
  type InspectionEvent,
} from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import type { EdgeTaken } from '../../machines/pure-step.ts';
import { STEP_ACTION } from '../../machines/step-action.ts';

type AnySnapshot = Parameters<AnyStateMachine['transition']>[0];
type AnyEvent = Parameters<AnyStateMachine['transition']>[1];

export interface EdgeStep<S, O> {
  readonly snapshot: S;
  readonly said: readonly O[];
  /** Ids of the edges taken, as `statechartGraph` names them: two edges between the same states are told apart. */
  readonly edges: readonly string[];
  /** The same as the product records them. */
  readonly steps: readonly EdgeTaken[];
}

export interface EdgeStepper<S, E, O> {
  begin(input: unknown): EdgeStep<S, O>;
  next(snapshot: S, event: E): EdgeStep<S, O>;
}

/**
 * Any statechart as a pure function that tells which edges it took, independent of the one the product uses.
 * Throws what a guard or an action throws.
 */
export function createEdgeStepper<S, E, O>(machine: AnyStateMachine): EdgeStepper<S, E, O> {
  const ids = edgeIds(machine);
  let taken: AnyTransitionDefinition[] = [];
  let said: O[] = [];
  const inspect = (event: InspectionEvent) => {
    if (event.type === '@xstate.microstep') taken.push(...(event._transitions as AnyTransitionDefinition[]));
  };
  const self = createActor(machine, { inspect } as never);
  const scope = {
    self,
    defer: () => {},
    id: self.id,
    logger: () => {},
    sessionId: self.sessionId,
    stopChild: () => {},
    system: self.system,
    emit: (output: O) => said.push(output),
    actionExecutor: ({ type, params, exec }: { type: string; params: { event: O }; exec: () => void }) => {
      if (type === STEP_ACTION) exec();
      else if (type === 'xstate.emit') said.push(params.event);
      else throw new Error(`the machine does more than emit: ${type}`);
    },
  } as unknown as ActorScope<AnySnapshot, AnyEvent>;
  const collect = (run: () => AnySnapshot): EdgeStep<S, O> => {
    taken = [];
    said = [];
    const snapshot = run();
    if (snapshot.status === 'error') throw snapshot.error;
    return { snapshot: snapshot as S, said, edges: taken.map((edge) => ids.get(edge)!), steps: taken.map(describe) };
  };
  return {
    begin: (input) => collect(() => machine.getInitialSnapshot(scope, input as never)),
    next: (snapshot, event) => collect(() => machine.transition(snapshot as never, event as never, scope)),
  };
}

/** Edge ids in the order the exported graph has them. */
function edgeIds(machine: AnyStateMachine): ReadonlyMap<AnyTransitionDefinition, string> {
  const definitions: AnyTransitionDefinition[] = [];
  const walk = (node: AnyStateNode) => {
    definitions.push(
      ...([...node.transitions.values()].flat() as AnyTransitionDefinition[]),
      ...((node.always ?? []) as AnyTransitionDefinition[]),
    );
    for (const child of Object.values(node.states)) walk(child as AnyStateNode);
  };
  walk(machine.root);
  const { edges } = statechartGraph(machine);
  return new Map(definitions.map((definition, index) => [definition, edges[index]!.id]));
}

function describe({ source, target, eventType }: AnyTransitionDefinition): EdgeTaken {
  const kind = eventType === '' ? 'always' : eventType.startsWith('xstate.done.') ? 'done' : 'event';
  return { source: source.id, target: (target ?? [source]).map((node) => node.id), event: eventType, kind };
}
