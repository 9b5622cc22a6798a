import { expect, test } from 'vitest';
import { runKillScripts } from '../e2e/kill-runs.ts';
import { runKillScript } from '../e2e/kill-script.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';

/** Of all boundaries, which `npm run soak` takes. */
const SAMPLES = 30;
const BOUNDARIES_MIN = 150;

test(`T2: kill -9 at ${SAMPLES} sampled boundaries of the log loses nothing, doubles nothing and repeats no finished tool (SEED=${SEED})`, {
  timeout: 300_000,
}, async () => {
  const { boundaries } = await runKillScript([]);
  expect(boundaries).toBeGreaterThanOrEqual(BOUNDARIES_MIN);
  const random = createRandom(SEED);
  const points = Array.from({ length: BOUNDARIES_MIN }, (_, index) => ({ point: index + 1, rank: random() }));
  const sampled = points.sort((a, b) => a.rank - b.rank).slice(0, SAMPLES);
  expect(await runKillScripts(sampled.map(({ point }) => [point]))).toBe(SAMPLES);
});
