import { runKillScript } from './kill-script.ts';

/** Scripts under way at once; each is three processes that mostly wait. */
const LANES = 3;

/** The script once for each plan (see runKillScript); a plan that fails is named. @returns how many lives were ended by a kill */
export async function runKillScripts(plans: readonly (readonly number[])[]): Promise<number> {
  let next = 0;
  let kills = 0;
  const lane = async (): Promise<void> => {
    while (next < plans.length) {
      const plan = plans[next]!;
      next += 1;
      try {
        const { lives } = await runKillScript(plan);
        kills += lives - 1;
      } catch (cause) {
        throw new Error(`killed at boundary ${plan.join(', then ')} of the log: ${(cause as Error).message}`, { cause });
      }
    }
  };
  // All of them are waited for: none is left running when one fails.
  const ended = await Promise.allSettled(Array.from({ length: LANES }, lane));
  for (const outcome of ended) if (outcome.status === 'rejected') throw outcome.reason;
  return kills;
}
