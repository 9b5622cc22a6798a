import { expect, test } from 'vitest';
import { sessionStepper, simplePaths } from '../model/paths.ts';
import { Lanes, seededRandom } from '../model/proof.ts';
import { isPossible, REGIONS } from '../model/regions.ts';

const LANES = 3;
/** Paths a set of servers takes before it is restarted and replaced; each session stays in memory until then. */
const PATHS_PER_LANES = 300;
/** Every how manieth path of a region is taken; 1 takes all. */
const STRIDE = Number(process.env.SOAK_STRIDE ?? 1);

const seed = Number(process.env.MODEL_SEED ?? Date.now() % 1_000_000);
console.info(`session paths: MODEL_SEED=${seed} SOAK_STRIDE=${STRIDE}`);
const random = seededRandom(seed);
const stepper = sessionStepper();

test.for(REGIONS)('a running server takes all simple paths of: $name', async ({ name, takes }) => {
  const paths = simplePaths(stepper, takes)
    .filter(isPossible)
    .filter((_, index) => index % STRIDE === 0);
  expect(paths.length).toBeGreaterThan(0);
  for (let from = 0; from < paths.length; from += PATHS_PER_LANES) {
    const lanes = await Lanes.open(LANES);
    try {
      const part = paths.slice(from, from + PATHS_PER_LANES);
      await Promise.all(part.map((path) => lanes.use((lane) => lane.prove(stepper, path, random))));
      const same = await Promise.all(lanes.all.map((lane) => lane.restart(stepper)));
      expect(same.reduce((sum, count) => sum + count, 0)).toBe(part.length);
    } finally {
      await lanes.close();
    }
  }
  console.info(`${name}: ${paths.length} paths`);
});
