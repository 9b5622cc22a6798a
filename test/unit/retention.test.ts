import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { RetentionConfig } from '../../src/contract/config.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { type Retention, startRetention } from '../../src/runtime/retention.ts';
import { Supervisor } from '../../src/runtime/supervisor.ts';
import { verifySession } from '../../src/runtime/verify.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { startSignet } from '../helpers/signet.ts';

const MS_PER_DAY = 86_400_000;
/** Enough for more than 200 signals before the last two of them. */
const TURNS = 14;

/** A workspace with one ended, one long and one short session; then its log alone, `days` later. */
async function workspace(days: number) {
  const folder = mkdtempSync(join(tmpdir(), 'signet-retention-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const signet = await startSignet({ folder });
  const talk = async (turns: number) => {
    const { id } = await signet.client.session.create({});
    for (let turn = 0; turn < turns; turn += 1) await signet.client.session.prompt(id, { content: `turn ${turn}` });
    return id;
  };
  const [long, short, ended] = [await talk(TURNS), await talk(3), await talk(1)];
  await signet.client.session.end(ended);
  await signet.close();
  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db') });
  onTestFinished(() => log.close());
  const clock = { ...systemClock, now: () => systemClock.now() + days * MS_PER_DAY };
  const hub = new LiveHub();
  const supervisor = new Supervisor({ log, clock, logger: silentLogger, hub, random: () => 0, sessionsMax: 10 });
  hub.headGseq = await log.headGseq();
  const retention = (config: RetentionConfig, readUntil = () => Number.POSITIVE_INFINITY): Retention => {
    const started = startRetention({ supervisor, log, hub, clock, logger: silentLogger, readUntil }, config);
    onTestFinished(() => started.close());
    return started;
  };
  return { log, retention, long, short, ended };
}

test('logs of sessions at rest are trimmed to the turns that are kept, once; those that gain little are left', async () => {
  const { log, retention, long, short, ended } = await workspace(0);
  const rounds = retention({ keepTurns: 2 });

  expect(await rounds.run()).toEqual({ trimmed: 1, forgotten: 0 });

  const kept = await log.read(`session:${long}`, 0, 1_000);
  expect(kept.filter(({ name }) => name === 'turn:start').map(({ payload }) => payload.turn)).toEqual([TURNS - 1, TURNS]);
  expect(await verifySession(log, long)).toMatchObject({ verified: true, divergence: null });
  for (const id of [short, ended]) expect((await log.read(`session:${id}`, 0, 1))[0]?.seq).toBe(1);
  expect(await rounds.run()).toEqual({ trimmed: 0, forgotten: 0 });
});

test('sessions that ended long ago are forgotten, others are not', async () => {
  const { log, retention, long, short, ended } = await workspace(40);
  expect(await retention({ sessionDays: 50 }).run()).toEqual({ trimmed: 0, forgotten: 0 });
  expect(await retention({ sessionDays: 30 }).run()).toEqual({ trimmed: 0, forgotten: 1 });
  expect(await log.card(ended)).toBeNull();
  expect(await log.read(`session:${ended}`, 0, 1)).toEqual([]);
  for (const id of [long, short]) expect(await log.card(id)).toMatchObject({ id });
});

test('without a wish nothing is dropped, and a round that is stopped drops nothing more', async () => {
  const { log, retention, long, ended } = await workspace(40);
  expect(await retention({}).run()).toEqual({ trimmed: 0, forgotten: 0 });
  const stopped = retention({ keepTurns: 1, sessionDays: 1 });
  await stopped.close();
  expect(await stopped.run()).toEqual({ trimmed: 0, forgotten: 0 });
  expect((await log.read(`session:${long}`, 0, 1))[0]?.seq).toBe(1);
  expect(await log.card(ended)).not.toBeNull();
});

test('what a workflow that is behind has not read stays, and goes when it has', async () => {
  const { log, retention, long, ended } = await workspace(40);
  const signals = await log.read(`session:${long}`, 0, 1_000);
  const middle = signals.filter(({ name }) => name === 'turn:end')[TURNS - 2]!;
  let readUntil = middle.gseq;
  const rounds = retention({ keepTurns: 1, sessionDays: 1 }, () => readUntil);

  expect(await rounds.run()).toEqual({ trimmed: 1, forgotten: 0 });

  const [first] = await log.read(`session:${long}`, 0, 1);
  expect(first!.seq).toBeLessThanOrEqual(middle.seq + 1);
  expect(first!.seq).toBeGreaterThan(1);
  expect(await verifySession(log, long)).toMatchObject({ verified: true, divergence: null });
  expect(await log.card(ended)).not.toBeNull();

  readUntil = Number.POSITIVE_INFINITY;
  expect(await rounds.run()).toMatchObject({ forgotten: 1 });
  expect(await log.card(ended)).toBeNull();
});
