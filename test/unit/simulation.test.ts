import { expect, onTestFinished, test } from 'vitest';
import { sessionMachine } from '../../machines/session.machine.ts';
import type { RunEffect } from '../../src/runtime/session-host.ts';
import { signalLogConformance } from '../helpers/signal-log-conformance.ts';
import { MemoryLog } from '../simulation/memory-log.ts';
import { type SimulationOptions, simulate } from '../simulation/simulation.ts';
import type { Weather } from '../simulation/weather.ts';

const SEEDS = 50;
/** Seeds a broken rule is given to be seen in. */
const PROOF_SEEDS = 40;

signalLogConformance('the simulated log', async () => new MemoryLog());

test('many sessions keep every promise in every weather', async () => {
  const met = new Map<string, number>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const { violation, names } = await simulate({ seed, sessions: 3, steps: 120 });
    expect(violation && { seed, ...violation }).toBeNull();
    for (const [name, count] of names) met.set(name, (met.get(name) ?? 0) + count);
  }
  // A simulation in which nothing goes wrong would prove nothing.
  const rare = [
    'harness:error',
    'turn:rejected',
    'compaction:complete',
    'turn:steered',
    'tool:approval:resolved',
    'session:resumed',
    'session:passivated',
  ];
  for (const name of [...rare, 'supervisor:child:restarted', 'session:ended']) expect([name, met.get(name) ?? 0]).not.toEqual([name, 0]);
});

test('the same seed is the same run, signal by signal', async () => {
  const first = await simulate({ seed: 7, sessions: 4, steps: 300 });
  const second = await simulate({ seed: 7, sessions: 4, steps: 300 });
  expect(second.digest).toBe(first.digest);
  expect((await simulate({ seed: 8, sessions: 4, steps: 300 })).digest).not.toBe(first.digest);
});

test.each([
  ['hasPrompt', false, 'the view shows the state'],
  ['mailboxFull', false, 'the mailbox is bounded'],
  ['settled', true, 'every call has a result'],
  ['awaitsApproval', false, 'the view shows the state'],
] as const)('a machine whose guard %s is always %s is seen: %s', async (guard, answer, invariant) => {
  withGuard(guard, () => answer);
  expect(await seedThatBreaks(invariant)).not.toBeNull();
});

test('a restart that repeats unsafe tools is seen', async () => {
  const bend =
    (run: RunEffect): RunEffect =>
    (host, pending, signal) =>
      run(host, pending, signal, null);
  const weather: Partial<Weather> = {
    steps: { land: 30, answer: 20, immediate: 10, time: 1, command: 15, fault: 5 },
    faults: { crash: 1, drain: 0, disk: 0, forward: 0, back: 0, bug: 0, echo: 0 },
    model: { text: 0, tools: 1, empty: 0, overloaded: 0, failed: 0, refused: 0, cut: 0, overflow: 0, malformed: 0 },
  };
  expect(await seedThatBreaks('an unsafe tool runs once', { bend, weather })).not.toBeNull();
});

test('work that never answers is seen', async () => {
  const silent = new Set(['session-end', 'session-start']);
  const bend =
    (run: RunEffect): RunEffect =>
    async (host, pending, signal, restored) =>
      pending.kind === 'hook' && silent.has(pending.hook) ? [] : run(host, pending, signal, restored);
  expect(await seedThatBreaks('every request is answered', { bend })).not.toBeNull();
});

/** Breaks a guard of the machine for the rest of this test. */
function withGuard(name: string, guard: () => boolean): void {
  const guards = sessionMachine.implementations.guards as Record<string, unknown>;
  const sound = guards[name];
  guards[name] = guard;
  onTestFinished(() => {
    guards[name] = sound;
  });
}

/** The first seed in which the promise is broken, null when all keep it. */
async function seedThatBreaks(invariant: string, more: Pick<SimulationOptions, 'bend' | 'weather'> = {}): Promise<number | null> {
  for (let seed = 1; seed <= PROOF_SEEDS; seed += 1) {
    const { violation } = await simulate({ seed, sessions: 3, steps: 150, ...more });
    if (violation?.invariant === invariant) return seed;
  }
  return null;
}
