import { getShortestPaths, getSimplePaths } from '@xstate/graph';
import { describe, expect, test } from 'vitest';
import { type AnyStateMachine, createActor, createMachine } from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import {
  type SupervisorContext,
  type SupervisorEvent,
  type SupervisorOutput,
  sessionRegistryLogic,
  supervisorMachine,
} from '../../machines/supervisor.machine.ts';
import { createEdgeStepper } from '../model/edge-stepper.ts';

interface Snapshot {
  readonly value: string;
  readonly context: SupervisorContext;
  readonly status: string;
}

const machine = supervisorMachine as unknown as AnyStateMachine;
const stepper = createEdgeStepper<Snapshot, SupervisorEvent, SupervisorOutput>(machine);
const crash = (at: number, session = 'a', agent = 'default'): SupervisorEvent => ({ type: 'CHILD_CRASHED', session, agent, at, jitter: 1 });
const started = (session = 'a'): SupervisorEvent => ({ type: 'CHILD_STARTED', session });

/** So many sessions of an agent that each crash once, within a minute. */
const crowd = (sessions: number, agent: string): SupervisorEvent[] =>
  Array.from({ length: sessions }, (_, index) => [started(`${agent}${index}`), crash(index, `${agent}${index}`, agent)]).flat();

function run(...events: SupervisorEvent[]) {
  const said: SupervisorOutput[] = [];
  const edges: string[] = [];
  let { snapshot } = stepper.begin(undefined);
  for (const event of events) {
    const step = stepper.next(snapshot, event);
    said.push(...step.said);
    edges.push(...step.edges);
    snapshot = step.snapshot;
  }
  return { said, edges, value: snapshot.value, context: snapshot.context };
}

/** The life of one session: only what runs can stop or crash, and what was put aside has to be resumed before it is started. */
function eventsOf({ value, context }: Snapshot): SupervisorEvent[] {
  if (value === 'stopped') return [];
  const leave: SupervisorEvent = value === 'running' ? { type: 'DRAIN' } : { type: 'DRAINED' };
  if (context.alive > 0) return [{ type: 'CHILD_STOPPED', session: 'a' }, crash(0), leave];
  if (context.quarantined.length === 0) return [started(), leave];
  return value === 'running' ? [{ type: 'CHILD_RESUMED', session: 'a' }, leave] : [leave];
}

const logic = {
  transition: (snapshot: Snapshot, event: SupervisorEvent) => stepper.next(snapshot, event).snapshot,
  getInitialSnapshot: () => stepper.begin(undefined).snapshot,
  getPersistedSnapshot: (snapshot: Snapshot) => snapshot,
};
const options = {
  events: eventsOf,
  serializeState: ({ value, context }: Snapshot) =>
    JSON.stringify([value, context.alive, context.crashes.a?.length ?? 0, context.quarantined]),
  limit: 10_000,
};
type Steps = { event: SupervisorEvent | { type: 'xstate.init' }; state: Snapshot }[];
const eventsIn = (steps: Steps) => steps.slice(1).map(({ event }) => event as SupervisorEvent);

describe('the supervisor machine', () => {
  const simple = getSimplePaths(logic as never, options as never).map(({ steps }) => eventsIn(steps as unknown as Steps));

  test('takes every edge on its simple paths and the events that lead back', () => {
    const shortest = getShortestPaths(logic as never, options as never).map(({ steps }) => eventsIn(steps as unknown as Steps));
    const taken = new Set<string>();
    // One session's life has no twenty crashes, and damage is found where there is no life yet.
    const others = [[...crowd(20, 'c'), started()], []];
    for (const events of [...simple, ...shortest, ...others]) {
      let { snapshot } = stepper.begin(undefined);
      for (const event of events) snapshot = stepper.next(snapshot, event).snapshot;
      for (const event of [...eventsOf(snapshot), crash(30, 'a', 'c'), { type: 'CHILD_DAMAGED', session: 'a' } as const])
        for (const edge of stepper.next(snapshot, event).edges) taken.add(edge);
    }
    expect(
      statechartGraph(machine)
        .edges.map(({ id }) => id)
        .filter((id) => !taken.has(id)),
    ).toEqual([]);
  });

  test('counts sessions exactly on every path: none is lost, none is counted twice', () => {
    expect(simple.length).toBeGreaterThan(20);
    for (const events of simple) {
      const born = events.filter(({ type }) => type === 'CHILD_STARTED').length;
      const gone = events.filter(({ type }) => type === 'CHILD_STOPPED' || type === 'CHILD_CRASHED').length;
      const { context, said, value } = run(...events);
      expect(context.alive, JSON.stringify(events)).toBe(born - gone);
      const drained = events.findIndex(({ type }) => type === 'DRAIN');
      const crashes = events.slice(0, drained < 0 ? events.length : drained).filter(({ type }) => type === 'CHILD_CRASHED').length;
      expect(said, 'each crash before draining is answered once').toHaveLength(crashes);
      if (events.some(({ type }) => type === 'DRAINED')) expect(value).toBe('stopped');
    }
  });

  test('restarts a crashed session after a wait that doubles with each crash', () => {
    const { said, context } = run(started(), crash(0), started(), crash(1_000), started(), crash(2_000));
    expect(said).toEqual([
      { type: 'restart', session: 'a', attempt: 1, delayMs: 200 },
      { type: 'restart', session: 'a', attempt: 2, delayMs: 400 },
      { type: 'restart', session: 'a', attempt: 3, delayMs: 800 },
    ]);
    expect(context.alive).toBe(0);
  });

  test('spreads restarts: the wait is at least half of the full one', () => {
    const { said } = run(started(), { type: 'CHILD_CRASHED', session: 'a', agent: 'default', at: 0, jitter: 0 });
    expect(said).toEqual([{ type: 'restart', session: 'a', attempt: 1, delayMs: 100 }]);
  });

  test('puts a session aside at its fourth crash within a minute, and only that one', () => {
    const { said, context } = run(
      started(),
      crash(0),
      started(),
      crash(1),
      started(),
      crash(2),
      started('b'),
      started(),
      crash(3),
      crash(4, 'b'),
    );
    expect(said.slice(3)).toEqual([
      { type: 'quarantine', session: 'a', restarts: 3, scope: 'session' },
      { type: 'restart', session: 'b', attempt: 1, delayMs: 200 },
    ]);
    expect(context.quarantined).toEqual(['a']);
  });

  test('forgets crashes older than a minute: a session that crashes now and then is always restarted', () => {
    const { said } = run(started(), crash(0), started(), crash(1), started(), crash(2), started(), crash(60_000));
    expect(said.at(-1)).toEqual({ type: 'restart', session: 'a', attempt: 3, delayMs: 800 });
  });

  test('puts a session aside at its first crash when the sessions of its agent crashed twenty times within a minute', () => {
    const { said, context } = run(...crowd(20, 'bad'), started('z'), crash(20, 'z', 'bad'), started('y'), crash(21, 'y', 'good'));
    expect(said.slice(0, 20).map(({ type }) => type)).toEqual(Array.from({ length: 20 }, () => 'restart'));
    expect(said.slice(20)).toEqual([
      { type: 'quarantine', session: 'z', restarts: 0, scope: 'agent' },
      { type: 'restart', session: 'y', attempt: 1, delayMs: 200 },
    ]);
    expect(context.quarantined).toEqual(['z']);
  });

  test('restarts sessions of an agent again once its crashes are a minute old, and remembers nobody else', () => {
    const { said, context } = run(...crowd(20, 'bad'), started('z'), crash(60_020, 'z', 'bad'));
    expect(said.at(-1)).toEqual({ type: 'restart', session: 'z', attempt: 1, delayMs: 200 });
    expect(context).toMatchObject({ crashes: { z: [60_020] }, agentCrashes: { bad: [60_020] } });
    expect(Object.keys(context.crashes)).toEqual(['z']);
  });

  test('puts a session with a damaged log aside once, until somebody resumes it', () => {
    const damaged: SupervisorEvent = { type: 'CHILD_DAMAGED', session: 'a' };
    expect(run(damaged, damaged)).toMatchObject({ said: [], context: { alive: 0, quarantined: ['a'] } });
    expect(run(damaged, { type: 'CHILD_RESUMED', session: 'a' }).context.quarantined).toEqual([]);
  });

  test('gives a session that was put aside a clean start once it is resumed', () => {
    const events = [started(), crash(0), started(), crash(1), started(), crash(2), started(), crash(3)];
    const { said, context } = run(...events, { type: 'CHILD_RESUMED', session: 'a' }, started(), crash(4));
    expect(context.quarantined).toEqual([]);
    expect(said.at(-1)).toEqual({ type: 'restart', session: 'a', attempt: 1, delayMs: 200 });
  });

  test('restarts nothing while it drains, and stops when it has', () => {
    const { said, value, context } = run(
      started(),
      started('b'),
      { type: 'DRAIN' },
      crash(0),
      { type: 'CHILD_STOPPED', session: 'b' },
      { type: 'DRAINED' },
    );
    expect({ said, value, alive: context.alive }).toEqual({ said: [], value: 'stopped', alive: 0 });
  });
});

describe('the session registry', () => {
  const child = createMachine({ initial: 'on', states: { on: { on: { STOP: 'off' } }, off: { type: 'final' } } });

  test('starts a child as its own, and stops it', () => {
    const registry = createActor(sessionRegistryLogic).start();
    registry.send({ type: 'START', id: 'a', logic: child });
    const actor = registry.getSnapshot().actors.get('a')!;
    expect(actor.getSnapshot().status).toBe('active');
    registry.send({ type: 'STOP', id: 'a' });
    expect(actor.getSnapshot().status).toBe('stopped');
    expect(registry.getSnapshot().actors.size).toBe(0);
  });

  test('takes the stop of a child that is not there, or has ended, for done', () => {
    const registry = createActor(sessionRegistryLogic).start();
    registry.send({ type: 'STOP', id: 'never' });
    registry.send({ type: 'START', id: 'a', logic: child });
    registry.getSnapshot().actors.get('a')!.send({ type: 'STOP' });
    registry.send({ type: 'STOP', id: 'a' });
    expect(registry.getSnapshot()).toMatchObject({ status: 'active', actors: new Map() });
  });
});
