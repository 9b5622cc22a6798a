import { expect, test } from 'vitest';
import { createQuietWatch } from '../../src/quiet-collector.ts';

const MIB = 1_048_576;
const looks = (watch: ReturnType<typeof createQuietWatch>, cpuMs: readonly number[], heapBytes = 40 * MIB) =>
  cpuMs.map((each) => watch.look(each, heapBytes));

test('memory is given back once after a start, at the second quiet look', () => {
  expect(looks(createQuietWatch(), [700, 3, 3, 3, 3])).toEqual([false, false, true, false, false]);
});

test('it is given back again only after work that is worth it', () => {
  const watch = createQuietWatch();
  looks(watch, [3, 3]);
  // A busy machine: each look costs more than usual, now and then one counts as busy, none is work.
  expect(looks(watch, [15, 19, 25, 15, 15, 30, 12, 12])).toEqual(Array(8).fill(false));
  expect(looks(watch, [300, 3, 3, 3])).toEqual([false, false, true, false]);
});

test('a heap that is large is left alone until it is not', () => {
  const watch = createQuietWatch();
  expect(looks(watch, [500, 3, 3], 200 * MIB)).toEqual([false, false, false]);
  expect(looks(watch, [3], 100 * MIB)).toEqual([true]);
});
