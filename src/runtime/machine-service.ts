import { hash } from 'node:crypto';
import type { AnyStateMachine } from 'xstate';
import { statechartGraph, statechartMermaid } from '../../machines/graph.ts';
import { sessionMachine } from '../../machines/session.machine.ts';
import { supervisorMachine } from '../../machines/supervisor.machine.ts';
import { workflowMachine } from '../../machines/workflow.machine.ts';
import type { MachineGraph, MachineRef } from '../contract/runtime.ts';
import { AppError } from '../core/errors.ts';
import type { SessionView } from '../core/session-view.ts';

interface Statechart {
  readonly ref: MachineRef;
  readonly graph: MachineGraph;
  readonly machine: AnyStateMachine;
}

let known: ReadonlyMap<string, Statechart> | null = null;

/** The statecharts of this program by id; walked once. */
function statecharts(): ReadonlyMap<string, Statechart> {
  known ??= new Map(
    [sessionMachine, supervisorMachine, workflowMachine].map((machine) => [machine.id, describe(machine as unknown as AnyStateMachine)]),
  );
  return known;
}

function describe(machine: AnyStateMachine): Statechart {
  const walked = statechartGraph(machine);
  const digest = hash('sha256', JSON.stringify(walked), 'base64url').slice(0, 16);
  const ref = { id: machine.id, version: machine.version ?? '0', digest };
  return { ref, graph: { ...ref, ...walked }, machine };
}

export function machineRefs(): MachineRef[] {
  return [...statecharts().values()].map(({ ref }) => ref);
}

export function sessionMachineRef(): MachineRef {
  return statecharts().get('session')!.ref;
}

/** @throws AppError `machine_not_found` */
export function machineGraph(id: string): MachineGraph {
  return find(id).graph;
}

/** @throws AppError `machine_not_found` */
export function machineMermaid(id: string): string {
  return statechartMermaid(find(id).machine);
}

/** The live machine of one session: where it is, what it would take now, where it came from. */
export function liveMachine(view: SessionView) {
  const { edges, nodes } = machineGraph('session');
  const parents = new Map(nodes.map((node) => [node.id, node.parent]));
  const active = new Set<string>();
  for (let id of view.active as (string | null)[]) for (; id; id = parents.get(id) ?? null) active.add(id);
  const next = new Set(edges.filter((edge) => edge.kind === 'event' && active.has(edge.source)).map((edge) => edge.event));
  return {
    machine: view.machine,
    state: view.session.state,
    value: view.session.value,
    active: nodes.map((node) => node.id).filter((id) => active.has(id)),
    next: view.session.state === 'ended' ? [] : [...next].sort(),
    since: view.since,
    history: view.transitions,
  };
}

function find(id: string): Statechart {
  const statechart = statecharts().get(id);
  if (!statechart)
    throw new AppError('machine_not_found', { detail: `no machine "${id}"; there are: ${[...statecharts().keys()].join(', ')}` });
  return statechart;
}
