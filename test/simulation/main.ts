import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type SimulationResult, simulate } from './simulation.ts';

/** Time spent on finding a shorter run that still fails; unit: milliseconds. */
const SHORTEN_MS_MAX = 20_000;

const USAGE = `Usage: npm run simulate -- [--seeds N] [--seed S] [--sessions M] [--steps K] [--json]

Runs many sessions on the program's own code with simulated time, disk, model, tools and daemon, and checks what must always hold.
The same seed is the same run.

  --seeds N     how many seeds to run, from 1 or from --seed on   (200)
  --seed S      the first seed; alone: only this one
  --sessions M  sessions at the beginning                         (3)
  --steps K     things that happen before everything is let rest  (200)
  --json        one JSON line a seed`;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string' },
    seed: { type: 'string' },
    sessions: { type: 'string', default: '3' },
    steps: { type: 'string', default: '200' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

if (values.help) process.stdout.write(`${USAGE}\n`);
else await main();

async function main(): Promise<void> {
  const sessions = whole('sessions', values.sessions);
  const steps = whole('steps', values.steps);
  const first = values.seed === undefined ? 1 : whole('seed', values.seed);
  const count = values.seeds === undefined ? (values.seed === undefined ? 200 : 1) : whole('seeds', values.seeds);
  const sum = { signals: 0, turns: 0, lives: 0, failed: 0 };
  const started = performance.now();
  for (let seed = first; seed < first + count; seed += 1) {
    const result = await simulate({ seed, sessions, steps });
    sum.signals += result.signals;
    sum.turns += result.turns;
    sum.lives += result.lives;
    if (values.json) process.stdout.write(`${JSON.stringify(brief(result))}\n`);
    if (result.violation) {
      sum.failed += 1;
      await tell(result, sessions, steps);
    }
  }
  const seconds = ((performance.now() - started) / 1_000).toFixed(1);
  if (!values.json)
    process.stdout.write(
      `${count} seeds, ${sum.turns} turns, ${sum.signals} signals, ${sum.lives} lives of the process in ${seconds} s: ${sum.failed} failed\n`,
    );
  if (sum.failed > 0) process.exitCode = 1;
}

async function tell(failed: SimulationResult, sessions: number, steps: number): Promise<void> {
  const shortest = await shorten(failed, sessions, steps);
  const file = join(mkdtempSync(join(tmpdir(), 'signet-simulation-')), `seed-${failed.seed}.jsonl`);
  const signals = await shortest.result.log.feed({ after: 0, limit: Number.POSITIVE_INFINITY });
  writeFileSync(file, signals.map((signal) => `${JSON.stringify(signal)}\n`).join(''));
  const { invariant, detail } = shortest.result.violation!;
  process.stderr.write(
    [
      `seed=${failed.seed} broke "${invariant}" after ${shortest.steps} steps: ${detail}`,
      `  npm run simulate -- --seed ${failed.seed} --sessions ${sessions} --steps ${shortest.steps}`,
      `  ${file}`,
      '',
    ].join('\n'),
  );
}

/** The first steps of a seed are the same however many follow: fewer of them may break the same promise. */
async function shorten(failed: SimulationResult, sessions: number, steps: number) {
  const started = performance.now();
  const { invariant, step } = failed.violation!;
  let best = { result: failed, steps };
  for (let fewer = 0; fewer <= Math.min(step, steps - 1) && performance.now() - started < SHORTEN_MS_MAX; fewer += 1) {
    const result = await simulate({ seed: failed.seed, sessions, steps: fewer });
    if (result.violation?.invariant !== invariant) continue;
    best = { result, steps: fewer };
    break;
  }
  return best;
}

function brief({ seed, violation, signals, turns, lives, digest }: SimulationResult): object {
  return { seed, ok: violation === null, signals, turns, lives, digest, ...(violation ? { violation } : {}) };
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  process.stderr.write(`--${name} must be a whole number, not ${text}\n`);
  return process.exit(2);
}
