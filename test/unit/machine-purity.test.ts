import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { AnyStateMachine } from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import { createPureMachine } from '../../machines/pure-step.ts';
import { type SessionMachine, sessionMachine } from '../../machines/session.machine.ts';
import { sessionSteps } from '../../machines/session-actions.ts';
import type { InputEvent, OutputEvent } from '../../machines/session-context.ts';
import { type Guard, sessionGuards } from '../../machines/session-guards.ts';
import { SESSION_INPUT, type SessionSnapshot } from '../model/moves.ts';
import { edgePaths, type Path, sessionEdges, sessionStepper } from '../model/paths.ts';

/** No client can bring it about; the machine has it all the same. */
const ENDING = 'session.ending#prompt:received#0';

let paths: Path[];
beforeAll(() => {
  paths = [...edgePaths(sessionStepper()).values()];
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Time, chance and every other way to the outside throw. */
function forbidTheOutside(): void {
  const forbid = (what: string) => () => {
    throw new Error(`a statechart used ${what}`);
  };
  vi.spyOn(Math, 'random').mockImplementation(forbid('Math.random'));
  vi.spyOn(Date, 'now').mockImplementation(forbid('Date.now'));
  vi.spyOn(performance, 'now').mockImplementation(forbid('performance.now'));
  vi.spyOn(crypto, 'randomUUID').mockImplementation(forbid('crypto.randomUUID'));
  vi.spyOn(crypto, 'getRandomValues').mockImplementation(forbid('crypto.getRandomValues'));
  for (const name of ['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'fetch']) vi.stubGlobal(name, forbid(name));
  const RealDate = Date;
  class GivenDate extends RealDate {
    constructor(...given: [number?]) {
      if (given.length === 0) throw new Error('a statechart used new Date()');
      super(...(given as [number]));
    }
  }
  vi.stubGlobal('Date', GivenDate);
}

/** An input for each state in which it means nothing, or nothing any more. */
function strangers(): InputEvent[] {
  const inputs = paths.flat().flatMap(({ move }) => move.inputs);
  const kinds = new Map(inputs.map((input) => [input.type, input]));
  return [...kinds.values()].flatMap((input) => {
    const strange = { key: 'none', id: 'none', promptId: 'none' };
    return [input, { ...input, payload: { ...input.payload, ...strange } } as InputEvent];
  });
}

/** Every path, input by input, on any machine that is the session machine. */
function walkAll(machine: AnyStateMachine, visit: (snapshot: SessionSnapshot) => void = () => {}): Set<string> {
  const stepper = sessionStepper(machine);
  const taken = new Set<string>();
  for (const path of paths) {
    let { snapshot } = stepper.begin(SESSION_INPUT);
    for (const { move } of path) {
      for (const input of move.inputs) {
        visit(snapshot);
        const step = stepper.next(snapshot, input);
        for (const edge of step.edges) taken.add(edge);
        snapshot = step.snapshot;
      }
    }
    visit(snapshot);
    if (snapshot.value !== 'ending') continue;
    const prompt = paths
      .flat()
      .flatMap(({ move }) => move.inputs)
      .find(({ type }) => type === 'prompt:received')!;
    for (const edge of stepper.next(snapshot, prompt).edges) taken.add(edge);
  }
  return taken;
}

describe('the session machine', () => {
  test('takes every edge, and so runs every step, without clock, chance or timers', () => {
    forbidTheOutside();
    const taken = walkAll(sessionMachine);
    const states = statechartGraph(sessionMachine);
    const run = new Set([
      ...states.edges.filter(({ id }) => taken.has(id)).flatMap(({ actions }) => actions),
      ...states.nodes.flatMap(({ entry, exit }) => [...entry, ...exit]),
    ]);
    expect(sessionEdges().filter((edge) => !taken.has(edge))).toEqual([]);
    expect(taken).toContain(ENDING);
    expect(Object.keys(sessionSteps).filter((name) => !run.has(name))).toEqual([]);
  });

  test('is asked by a test that would notice: the clock is out of reach', () => {
    forbidTheOutside();
    expect(() => Date.now()).toThrow('Date.now');
    expect(() => new Date()).toThrow('new Date()');
    expect(() => crypto.randomUUID()).toThrow('crypto.randomUUID');
  });

  test('answers each guard with yes and with no, and strange inputs never throw', () => {
    const answers = new Map<string, Set<boolean>>(Object.keys(sessionGuards).map((name) => [name, new Set()]));
    const watched = Object.entries(sessionGuards).map(([name, guard]) => [
      name,
      (args: Parameters<Guard>[0]) => {
        const answer = guard(args);
        answers.get(name)!.add(answer);
        return answer;
      },
    ]);
    const machine = sessionMachine.provide({ guards: Object.fromEntries(watched) });
    const odd = strangers();
    const stepper = sessionStepper(machine as unknown as AnyStateMachine);
    walkAll(machine as unknown as AnyStateMachine, (snapshot) => {
      if (snapshot.status === 'active') for (const input of odd) if (isPlausible(snapshot, input)) stepper.next(snapshot, input);
    });
    const oneSided = [...answers].filter(([, given]) => given.size < 2).map(([name, given]) => `${name}: only ${[...given].join()}`);
    expect(oneSided).toEqual([]);
  });

  test('changes nothing it was given, and gives the same for the same', () => {
    const pure = createPureMachine<SessionMachine, InputEvent, OutputEvent>(sessionMachine);
    for (const path of paths) {
      let { snapshot } = pure.begin(SESSION_INPUT);
      for (const input of path.flatMap(({ move }) => move.inputs)) {
        const before = JSON.stringify([snapshot.value, snapshot.context]);
        const frozen = deepFreeze(structuredClone(input));
        const first = pure.next(snapshot, frozen);
        const again = pure.next(snapshot, frozen);
        expect(JSON.stringify([snapshot.value, snapshot.context])).toBe(before);
        expect([again.snapshot.value, again.snapshot.context, again.said]).toEqual([
          first.snapshot.value,
          first.snapshot.context,
          first.said,
        ]);
        snapshot = first.snapshot;
      }
    }
  });
});

/** What the sender of an input sees to: work is only answered by its own kind of outcome. */
function isPlausible({ context }: SessionSnapshot, { payload }: InputEvent): boolean {
  return !('key' in payload) || !context.pending.some(({ key }) => key === payload.key);
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
