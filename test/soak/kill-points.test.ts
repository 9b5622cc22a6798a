import { expect, test } from 'vitest';
import { runKillScripts } from '../e2e/kill-runs.ts';
import { runKillScript } from '../e2e/kill-script.ts';

const BOUNDARIES_MIN = 150;
/** Every so manieth boundary is also taken with a second kill, while the next process brings the session back. */
const SECOND_KILL_EVERY = 4;
/** First boundaries of a process that finds work to do; the second kill takes them in turn. */
const COMING_BACK_BOUNDARIES = 6;

test('kill -9 at every boundary of the log, and again while the next process comes back, loses, doubles and repeats nothing', async () => {
  const { boundaries } = await runKillScript([]);
  expect(boundaries).toBeGreaterThanOrEqual(BOUNDARIES_MIN);
  const once = Array.from({ length: boundaries }, (_, index) => [index + 1]);
  const twice = once
    .filter((_, index) => index % SECOND_KILL_EVERY === 0)
    .map(([point], index) => [point!, 1 + (index % COMING_BACK_BOUNDARIES)]);
  // A process that wrote more at once may reach its end before the last of them.
  const kills = await runKillScripts(once);
  expect(kills).toBeGreaterThanOrEqual(BOUNDARIES_MIN);
  const again = await runKillScripts(twice);
  console.info(`kill points: ${boundaries} boundaries, ${kills} kills; with a second one ${twice.length} runs, ${again} kills`);
});
