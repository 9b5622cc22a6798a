import { test } from 'vitest';
import { type Crowd, runKillCrowd } from '../e2e/kill-crowd.ts';
import { canLimitCpu } from '../helpers/process-limits.ts';
import { createRandom, SEED } from '../helpers/seeded-random.ts';

/** KILLS of the environment instead of a run's own number, for a short look. */
const kills = (own: number): number => Number(process.env.KILLS ?? own);

async function soak(name: string, crowd: Omit<Crowd, 'random'>): Promise<void> {
  const result = await runKillCrowd({ ...crowd, random: createRandom(SEED) });
  console.info(`${name}: ${JSON.stringify(result)}`);
}

test(`500 kills at random moments under load of 50 sessions and 4 workflows lose, double, repeat and fail nothing (SEED=${SEED})`, () =>
  soak('kills at full speed', { sessions: 50, workflows: 4, kills: kills(500) }));

test.runIf(canLimitCpu)(`100 kills with 12 % of a core (SEED=${SEED})`, () =>
  soak('kills at 12 % of a core', { sessions: 10, workflows: 2, kills: kills(100), limits: { cpuShare: 0.12 }, slowness: 8 }),
);

test(`60 kills in ten minutes with 256 descriptors and 300 readers (SEED=${SEED})`, () =>
  soak('kills with 256 descriptors', {
    sessions: 20,
    workflows: 2,
    kills: kills(60),
    readers: 300,
    limits: { descriptors: 256 },
    slowness: 13,
  }));
