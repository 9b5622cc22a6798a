import { test } from 'vitest';
import { runKillCrowd } from '../e2e/kill-crowd.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';

test(`300 kills at random moments under load of 50 sessions lose, double and repeat nothing (SEED=${SEED})`, async () => {
  const result = await runKillCrowd({ sessions: 50, kills: 300, random: createRandom(SEED) });
  console.info(`kill crowd: ${JSON.stringify(result)}`);
});
