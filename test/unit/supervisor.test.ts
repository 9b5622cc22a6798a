import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { isAppError } from '../../src/core/errors.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { Supervisor } from '../../src/runtime/supervisor.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { sessionCreated } from '../helpers/session-created.ts';

const CREATED = sessionCreated('ses_supervised');

let folder: string;
let log: SignalLog;
let supervisor: Supervisor;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-supervisor-'));
  log = await openSignalLog({ path: join(folder, 'signals.db') });
  supervisor = new Supervisor({ log, clock: systemClock, logger: silentLogger, hub: new LiveHub(), random: () => 0, sessionsMax: 10 });
  supervisor.useEffects(async (_host, pending) =>
    pending.kind === 'hook'
      ? [{ name: 'hook:end', payload: { hook: pending.hook, key: pending.key, bypassed: false, durationMs: 1 } }]
      : [],
  );
});

afterEach(async () => {
  await supervisor.drain(10);
  await log.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A decision that throws is what a bug in a guard or an action looks like from outside. */
async function crash(): Promise<void> {
  const host = await supervisor.get('ses_supervised');
  await host
    .handle(() => {
      throw new Error('a bug');
    })
    .catch(() => {});
}

async function names(): Promise<string[]> {
  return (await log.read('session:ses_supervised', 0, 1_000)).map((signal) => signal.name);
}

test('a crashed session is restarted from its log, and its neighbour does not notice', async () => {
  const neighbour = await supervisor.create({ ...CREATED, session: 'ses_neighbour' }, 'test');
  await supervisor.create(CREATED, 'test');
  await crash();

  await expect.poll(names, { timeout: 5_000 }).toContain('supervisor:child:restarted');
  const host = await supervisor.get('ses_supervised');
  expect(await host.until((view) => (view.session.state === 'idle' ? 'idle' : undefined))).toBe('idle');
  expect(neighbour.closed).toBe(false);
});

test('a session that crashes again and again is put aside until somebody resumes it', async () => {
  await supervisor.create(CREATED, 'test');
  for (let crashes = 1; crashes <= 4; crashes += 1) {
    await crash();
    if (crashes < 4)
      await expect
        .poll(async () => (await names()).filter((name) => name === 'supervisor:child:restarted').length, { timeout: 5_000 })
        .toBe(crashes);
  }

  await expect.poll(names, { timeout: 5_000 }).toContain('session:quarantined');
  expect(isAppError(await supervisor.get('ses_supervised').catch((error: unknown) => error), 'session_quarantined')).toBe(true);
  expect(supervisor.whyAside('ses_supervised')).toMatchObject({ code: 'session_quarantined' });
  expect((await supervisor.resume('ses_supervised')).id).toBe('ses_supervised');
});
