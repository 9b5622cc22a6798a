import { expect, test } from 'vitest';
import { type SyncTimer, TouchedAgents } from '../../src/daemon/agent-sync/touched-agents.ts';

/** Time that goes on only when told to. */
function handTimer(): SyncTimer & { pass(ms: number): void } {
  let nowMs = 0;
  const due = new Map<object, { at: number; run: () => void }>();
  return {
    now: () => nowMs,
    after: (ms, run) => {
      const key = {};
      due.set(key, { at: nowMs + ms, run });
      return () => void due.delete(key);
    },
    pass: (ms) => {
      nowMs += ms;
      for (const [key, { at, run }] of due) {
        if (at > nowMs) continue;
        due.delete(key);
        run();
      }
    },
  };
}

function collect(work: () => Promise<void> = async () => {}) {
  const timer = handTimer();
  const runs: (readonly string[])[] = [];
  const touched = new TouchedAgents({
    ...{ quietMs: 2_000, waitMsMax: 20_000, timer },
    run: async (names) => {
      runs.push(names);
      await work();
    },
  });
  return { timer, runs, touched };
}

test('500 changes of 5 agents within two seconds are one run, with each of them once', () => {
  const { timer, runs, touched } = collect();
  for (let change = 0; change < 500; change += 1) {
    touched.touch([`agent-${change % 5}`]);
    timer.pass(4);
  }
  expect(runs).toEqual([]);
  timer.pass(2_000);
  expect(runs).toEqual([['agent-0', 'agent-1', 'agent-2', 'agent-3', 'agent-4']]);
  timer.pass(60_000);
  expect(runs).toHaveLength(1);
});

test('who never stops changing files waits no longer than the longest wait', async () => {
  const { timer, runs, touched } = collect();
  for (let second = 0; second < 45; second += 1) {
    touched.touch(['dot']);
    timer.pass(1_000);
    // A run that has ended says so in the next turn.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(runs).toEqual([['dot'], ['dot']]);
});

test('what changes while a run goes on gets a run of its own, and no two go on at once', async () => {
  let finish: () => void = () => {};
  const { timer, runs, touched } = collect(() => new Promise((resolve) => (finish = resolve)));
  touched.touch(['dot']);
  timer.pass(2_000);
  touched.touch(['rose']);
  timer.pass(60_000);
  expect(runs).toEqual([['dot']]);
  finish();
  const later = (): readonly (readonly string[])[] => {
    timer.pass(2_000);
    return runs;
  };
  await expect.poll(later).toEqual([['dot'], ['rose']]);
  finish();
});

test('nothing begins after the end', async () => {
  const { timer, runs, touched } = collect();
  touched.touch(['dot']);
  await touched.close();
  timer.pass(60_000);
  touched.touch(['dot']);
  timer.pass(60_000);
  expect(runs).toEqual([]);
});
