import { afterEach, describe, expect, test, vi } from 'vitest';
import type { AnyStateMachine } from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import { createPureMachine } from '../../machines/pure-step.ts';
import { type WorkflowMachine, workflowMachine } from '../../machines/workflow.machine.ts';
import type { WorkflowEvent, WorkflowInput, WorkflowOutput } from '../../machines/workflow-context.ts';
import { WAITING_TRIGGERS_MAX } from '../../machines/workflow-course.ts';
import { workflowSteps } from '../../machines/workflow-steps.ts';
import { WorkflowAgentRules, WorkflowLimits } from '../../src/contract/workflow.ts';
import type { WorkflowPayloadOf } from '../../src/contract/workflow-signals.ts';
import { deepFreeze } from '../../src/core/deep-freeze.ts';

const AT = 1_000;
const machine = createPureMachine<WorkflowMachine, WorkflowEvent, WorkflowOutput>(workflowMachine);
type Snapshot = ReturnType<typeof machine.begin>['snapshot'];

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function started(agents: object[], limits: object = {}): WorkflowInput {
  return {
    at: AT,
    started: {
      workflow: 'flow_1',
      name: 'flow',
      agents: agents.map((agent) => WorkflowAgentRules.parse({ activateOn: ['x:y'], ...agent })),
      state: { kept: 1 },
      input: null,
      limits: { ...WorkflowLimits.parse(limits), timeoutMs: 60_000 },
      project: null,
      source: null,
      bodyDigest: '',
    },
  };
}

let serial = 0;
function seen(agents: readonly string[], extra: Partial<WorkflowPayloadOf<'workflow:signal'>> = {}): WorkflowEvent {
  serial += 1;
  const matches = agents.map((agent) => ({ agent, when: true, prompt: `for ${agent}` }));
  const payload = {
    signal: `sig_${serial}`,
    root: 'sig_1',
    depth: 3,
    name: 'x:y',
    gseq: serial,
    cause: null,
    chain: 0,
    within: [],
    matches,
  };
  return { type: 'workflow:signal', at: AT + serial, payload: { ...payload, ...extra } };
}

function result(activation: number, extra: Partial<WorkflowPayloadOf<'workflow:result'>> = {}): WorkflowEvent {
  const usage = { inputTokens: 10, outputTokens: 5 };
  const payload = { activation, attempt: 1, ok: true, output: 'out', usage, costUsd: 0.5, emits: [], ends: false };
  return { type: 'workflow:result', at: AT + 500, payload: { ...payload, ...extra } };
}

const SETTLED: WorkflowEvent = { type: 'workflow:settled', at: AT + 900, payload: { gseq: 9 } };
const TIMEOUT: WorkflowEvent = { type: 'timer:fired', at: AT + 800, payload: { id: 'timeout' } };
const ABORT: WorkflowEvent = { type: 'workflow:abort', at: AT + 800, payload: { by: 'test' } };
const FAULT: WorkflowEvent = { type: 'workflow:fault', at: AT + 800, payload: { code: 'internal', message: 'broken' } };

/** Everything said, as `name what`, and where it ended. */
function run(input: WorkflowInput, events: readonly WorkflowEvent[]): { said: string[]; snapshot: Snapshot } {
  let { snapshot } = machine.begin(deepFreeze(input));
  const said: string[] = [];
  for (const event of events) {
    const step = machine.next(snapshot, deepFreeze(event));
    snapshot = step.snapshot;
    said.push(...step.said.map(({ type, payload }) => `${type} ${payload.reason ?? payload.agent ?? payload.id ?? ''}`.trim()));
  }
  return { said, snapshot };
}

function actionsOf(source: string, event: string): string[] {
  return statechartGraph(workflowMachine as unknown as AnyStateMachine)
    .edges.filter((edge) => edge.source === source && edge.event === event)
    .flatMap((edge) => edge.actions);
}

describe('the workflow machine', () => {
  test('activates within concurrency, lets the rest wait, and lets go of it in order', () => {
    const { said, snapshot } = run(started([{ name: 'a', concurrency: 2 }]), [seen(['a']), seen(['a']), seen(['a']), result(1), result(2)]);
    expect(said).toEqual(['agent:activated a', 'agent:activated a', 'agent:completed a', 'agent:activated a', 'agent:completed a']);
    expect(snapshot.context.live).toMatchObject([{ activation: 3, session: 'flow_1_a3', prompt: 'for a' }]);
  });

  test('holds a bounded number of triggers', () => {
    const { said } = run(
      started([{ name: 'a' }]),
      Array.from({ length: WAITING_TRIGGERS_MAX + 2 }, () => seen(['a'])),
    );
    expect(said).toEqual(['agent:activated a', 'agent:skipped concurrency']);
  });

  test('refuses by self, depth, when and budget, in this order', () => {
    const input = started([{ name: 'a', limits: { depth: 2, activations: 1 } }]);
    const unwanted = { matches: [{ agent: 'a', when: false, prompt: '' }] };
    const { said } = run(input, [
      seen(['a'], { ...unwanted, within: ['a'], chain: 9 }),
      seen(['a'], { within: ['a'], chain: 9 }),
      seen(['a'], { chain: 2 }),
      seen(['a'], { chain: 1 }),
      seen(['a']),
    ]);
    expect(said).toEqual([
      'agent:skipped when',
      'agent:skipped self',
      'agent:skipped depth',
      'agent:activated a',
      'budget:exceeded a',
      'agent:skipped budget',
    ]);
  });

  test('counts tokens and dollars of the agent and of the run', () => {
    const spent = (agents: object[], limits: object) => run(started(agents, limits), [seen(['a']), result(1), seen(['a'])]).said.at(-1);
    expect(spent([{ name: 'a' }], { tokens: 15 })).toBe('agent:skipped budget');
    expect(spent([{ name: 'a' }], { tokens: 16 })).toBe('agent:activated a');
    expect(spent([{ name: 'a' }], { usd: 0.5 })).toBe('agent:skipped budget');
    expect(spent([{ name: 'a', limits: { tokens: 15 } }], {})).toBe('agent:skipped budget');
    expect(spent([{ name: 'a', limits: { usd: 0.4 } }], {})).toBe('agent:skipped budget');
  });

  test('takes an outcome once: another attempt, or one that nobody waits for, is nothing', () => {
    const { said } = run(started([{ name: 'a' }]), [seen(['a']), result(1), result(1), result(7)]);
    expect(said).toEqual(['agent:activated a', 'agent:completed a']);
  });

  test('tries a failed activation again under a session of its own, as often as it may', () => {
    const failed = (attempt: number) => result(1, { attempt, ok: false, output: null, error: { code: 'provider_failed', message: 'no' } });
    const { said, snapshot } = run(started([{ name: 'a', limits: { retries: 1 } }]), [seen(['a']), failed(1)]);
    expect(snapshot.context.live).toMatchObject([{ attempt: 2, session: 'flow_1_a1_2' }]);
    expect(said).toEqual(['agent:activated a', 'agent:failed a']);
    const end = run(started([{ name: 'a', limits: { retries: 1 } }]), [seen(['a']), failed(1), failed(2), SETTLED]);
    expect(end.said.at(-1)).toBe('workflow:end error');
  });

  test('ends only when nothing runs or waits, with the reason it has', () => {
    expect(run(started([{ name: 'a' }]), [SETTLED]).said).toEqual(['workflow:end quiescent']);
    expect(run(started([{ name: 'a' }]), [seen(['a']), SETTLED]).said).toEqual(['agent:activated a']);
    expect(run(started([{ name: 'a' }]), [seen(['a']), result(1, { ends: true }), SETTLED]).said.at(-1)).toBe('workflow:end end-when');
    expect(run(started([{ name: 'a' }]), [TIMEOUT, SETTLED]).said.at(-1)).toBe('workflow:end timeout');
    expect(run(started([{ name: 'a' }]), [ABORT, SETTLED]).said.at(-1)).toBe('workflow:end aborted');
    expect(run(started([{ name: 'a' }]), [FAULT, SETTLED]).said.at(-1)).toBe('workflow:end error');
  });

  test('keeps the first reason of its end, and what runs is stopped when anyone asks for it', () => {
    const ending = run(started([{ name: 'a', concurrency: 2 }]), [seen(['a']), seen(['a']), result(1, { ends: true })]);
    expect(ending.snapshot.context.ending).toEqual({ reason: 'end-when', stops: false });
    for (const stop of [TIMEOUT, ABORT, FAULT]) {
      const { snapshot } = machine.next(ending.snapshot, stop);
      expect(snapshot.context.ending).toEqual({ reason: 'end-when', stops: true });
    }
  });

  test('refuses what waits, and what still comes, once it terminates', () => {
    const agents = [{ name: 'a' }, { name: 'b', debounceMs: 50 }];
    const { said } = run(started(agents), [seen(['a', 'b']), seen(['a']), ABORT, seen(['a'])]);
    expect(said).toEqual([
      'agent:activated a',
      'timer:set debounce:b',
      'workflow:terminating aborted',
      'agent:skipped terminated',
      'agent:skipped terminated',
      'agent:skipped terminated',
    ]);
  });

  test('takes the newest trigger of a debounced agent when its time has come', () => {
    const fired: WorkflowEvent = { type: 'timer:fired', at: AT + 700, payload: { id: 'debounce:b' } };
    const { said, snapshot } = run(started([{ name: 'b', debounceMs: 50 }]), [seen(['b']), seen(['b']), fired]);
    expect(said).toEqual(['timer:set debounce:b', 'agent:skipped debounced', 'timer:set debounce:b', 'agent:activated b']);
    expect(snapshot.context.debounced).toEqual({});
  });

  test('fails an activation whose prompt could not be made, without a session', () => {
    const fault = { code: 'invalid_expression', message: 'prompt: no' };
    const { said, snapshot } = run(started([{ name: 'a' }]), [
      seen(['a'], { matches: [{ agent: 'a', when: true, prompt: '', fault }] }),
      SETTLED,
    ]);
    expect(said).toEqual(['agent:activated a', 'agent:failed a', 'workflow:end error']);
    expect(snapshot.context.live).toEqual([]);
  });

  test('uses no clock, chance or timers, changes nothing it was given, and gives the same for the same', () => {
    const forbid = (what: string) => () => {
      throw new Error(`a statechart used ${what}`);
    };
    vi.spyOn(Math, 'random').mockImplementation(forbid('Math.random'));
    vi.spyOn(Date, 'now').mockImplementation(forbid('Date.now'));
    vi.spyOn(crypto, 'randomUUID').mockImplementation(forbid('crypto.randomUUID'));
    for (const name of ['setTimeout', 'setInterval', 'queueMicrotask', 'fetch']) vi.stubGlobal(name, forbid(name));
    const ran = new Set<string>();
    const fired: WorkflowEvent = { type: 'timer:fired', at: AT + 700, payload: { id: 'debounce:b' } };
    const input = started([
      { name: 'a', updates: 'k' },
      { name: 'b', debounceMs: 5 },
    ]);
    let { snapshot } = machine.begin(deepFreeze(input));
    for (const event of [
      seen(['a', 'b']),
      fired,
      result(1, { emits: ['a:done'] }),
      TIMEOUT,
      FAULT,
      ABORT,
      seen(['a']),
      result(2),
      SETTLED,
    ]) {
      const before = JSON.stringify(snapshot.context);
      const once = machine.next(snapshot, deepFreeze(event));
      const twice = machine.next(snapshot, event);
      expect(JSON.stringify(snapshot.context)).toBe(before);
      expect([twice.snapshot.value, twice.snapshot.context, twice.said]).toEqual([once.snapshot.value, once.snapshot.context, once.said]);
      for (const action of once.steps.flatMap(({ source, event: name }) => actionsOf(source, name))) ran.add(action);
      snapshot = once.snapshot;
    }
    expect(Object.keys(workflowSteps).filter((name) => !ran.has(name))).toEqual([]);
    expect(snapshot.value).toBe('ended');
    expect(snapshot.context.state).toEqual({ kept: 1, k: 'out' });
  });
});
