import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { withinCpu } from '../../src/tools/cpu-bound.ts';

/** Uses so much CPU of this thread, however long that takes. */
function work(cpuMs: number): number {
  const used = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1_000;
  };
  const begin = used();
  let rounds = 0;
  while (used() - begin < cpuMs) rounds += 1;
  return rounds;
}

/** Threads that take the cores away, four for each. */
async function onBusyMachine(run: () => void): Promise<void> {
  const { availableParallelism } = await import('node:os');
  const workers = Array.from({ length: 4 * availableParallelism() }, () => new Worker('for (;;) {}', { eval: true }));
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('online', resolve))));
  try {
    run();
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

test('work that stays within its CPU is finished, and what it throws is thrown', () => {
  expect(withinCpu(1_000, () => 7)).toEqual({ value: 7 });
  expect(() =>
    withinCpu(1_000, () => {
      throw new RangeError('too deep');
    }),
  ).toThrow(new RangeError('too deep'));
});

test('work that takes more is stopped', () => {
  expect(withinCpu(20, () => work(60_000))).toBeUndefined();
});

test('time in which the thread did not run does not count', () => {
  const lock = new Int32Array(new SharedArrayBuffer(4));
  let attempts = 0;
  const done = withinCpu(50, () => {
    attempts += 1;
    // Two attempts wait on the wall for longer than they may; a machine that gives the thread no core looks the same.
    if (attempts < 3) Atomics.wait(lock, 0, 0, 60_000);
    return 'done';
  });
  expect([done, attempts]).toEqual([{ value: 'done' }, 3]);
});

test('a machine that is busy with others changes nothing', async () => {
  await onBusyMachine(() => {
    expect(withinCpu(200, () => work(100))).toEqual({ value: expect.any(Number) });
    expect(withinCpu(50, () => work(60_000))).toBeUndefined();
  });
});
