import { expect, test } from 'vitest';
import { createSteadyClock, orderedUuid } from '../../src/core/clock.ts';

const NOON_MS = Date.parse('2026-05-05T12:00:00.000Z');
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** A wall clock that can be set, and time that passes. */
function begin(newestMs: number | null = null) {
  const wall = { ms: NOON_MS, now: () => wall.ms };
  let elapsedMs = 5_000;
  const clock = createSteadyClock(wall, () => elapsedMs, newestMs);
  return {
    clock,
    set: (ms: number) => (wall.ms = ms),
    pass: (ms: number) => {
      wall.ms += ms;
      elapsedMs += ms;
    },
  };
}

test('a steady clock is the wall clock as long as that runs on, also when it is set forward', () => {
  const { clock, set, pass } = begin();
  expect(clock.now()).toBe(NOON_MS);
  pass(1_500);
  expect(clock.now()).toBe(NOON_MS + 1_500);
  set(NOON_MS + HOUR_MS);
  expect(clock.now()).toBe(NOON_MS + HOUR_MS);
});

test('when the wall clock is set back it goes on at its own pace, until the wall has caught up', () => {
  const { clock, set, pass } = begin();
  clock.now();
  set(NOON_MS - HOUR_MS);
  expect(clock.now()).toBe(NOON_MS);
  pass(200);
  expect(clock.now()).toBe(NOON_MS + 200);
  set(NOON_MS + 300);
  expect(clock.now()).toBe(NOON_MS + 300);
});

test('it goes on from what an earlier process wrote down, but not from a time that cannot be true', () => {
  const { clock, pass } = begin(NOON_MS + HOUR_MS);
  pass(10);
  expect(clock.now()).toBe(NOON_MS + HOUR_MS + 10);
  expect(begin(NOON_MS - HOUR_MS).clock.now()).toBe(NOON_MS);
  expect(begin(NOON_MS + DAY_MS + 1).clock.now()).toBe(NOON_MS);
});

test('ids of a later time stand behind those of an earlier one, and no two are the same', () => {
  const times = [0, 1, 1_700_000_000_000, 1_700_000_000_001, 2 ** 47];
  const ids = times.map(orderedUuid);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(ids.toSorted()).toEqual(ids);
  expect(ids.map((id) => Number.parseInt(id.slice(0, 13).replace('-', ''), 16))).toEqual(times);
  expect(new Set(Array.from({ length: 1_000 }, () => orderedUuid(1))).size).toBe(1_000);
});
