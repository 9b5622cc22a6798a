import { expect, test } from 'vitest';
import { createFairSlots, type LimitMet } from '../../src/runtime/slots.ts';

const NEVER = new AbortController().signal;

/** Takers in the order in which they were served. */
function watch(slots: ReturnType<typeof createFairSlots>) {
  const served: string[] = [];
  const releases: (() => void)[] = [];
  return {
    served,
    take: (key: string, name: string) =>
      void slots.take(key, NEVER).then((release) => {
        served.push(name);
        releases.push(release);
      }),
    /** Gives back the slot that was granted first of those still held. */
    async next() {
      await settled();
      releases.shift()!();
      await settled();
    },
  };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a key with a long line does not starve another one: they are served in turn, each in its own order', async () => {
  const slots = createFairSlots(1, () => 1);
  const { served, take, next } = watch(slots);
  for (const name of ['a1', 'a2', 'a3', 'a4']) take('a', name);
  for (const name of ['b1', 'b2']) take('b', name);
  take('c', 'c1');
  for (let grants = 0; grants < 6; grants += 1) await next();
  expect(served).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']);
});

test('a key at its own limit waits while others take what is free', async () => {
  const met: LimitMet[] = [];
  const slots = createFairSlots(10, (key) => (key === 'small' ? 1 : 10));
  const first = await slots.take('small', NEVER);
  let isGranted = false;
  void slots.take('small', NEVER, (limit) => met.push(limit)).then(() => (isGranted = true));
  await slots.take('other', NEVER);
  expect({ isGranted, met, waiting: slots.waiting }).toEqual({
    isGranted: false,
    met: [{ scope: 'key', limit: 1, current: 1 }],
    waiting: 1,
  });
  first();
  await settled();
  expect({ isGranted, waiting: slots.waiting }).toEqual({ isGranted: true, waiting: 0 });
});

test('one who gives up leaves the line, and a slot that is given back twice counts once', async () => {
  const met: LimitMet[] = [];
  const slots = createFairSlots(1, () => 1);
  const release = await slots.take('a', NEVER);
  const leaving = new AbortController();
  const left = slots.take('b', leaving.signal, (limit) => met.push(limit));
  let isGranted = false;
  void slots.take('c', NEVER).then(() => (isGranted = true));
  leaving.abort(new Error('gone'));
  await expect(left).rejects.toThrow('gone');
  release();
  release();
  await settled();
  expect({ isGranted, waiting: slots.waiting, met }).toEqual({
    isGranted: true,
    waiting: 0,
    met: [{ scope: 'total', limit: 1, current: 1 }],
  });
  let isThird = false;
  void slots.take('d', NEVER).then(() => (isThird = true));
  await settled();
  expect(isThird).toBe(false);
});

test('nobody is given a slot whose signal has aborted before', async () => {
  const slots = createFairSlots(1, () => 1);
  await expect(slots.take('a', AbortSignal.abort(new Error('late')))).rejects.toThrow('late');
  await slots.take('a', NEVER);
  expect(slots.waiting).toBe(0);
});
