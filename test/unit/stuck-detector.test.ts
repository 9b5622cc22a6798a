import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Pending } from '../../machines/session-context.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import type { InputDraft, SessionSnapshot } from '../../src/runtime/session-state.ts';
import { busyStay, type StuckDetector, startStuckDetector } from '../../src/runtime/stuck-detector.ts';
import { Supervisor } from '../../src/runtime/supervisor.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { sessionCreated } from '../helpers/session-created.ts';

const LIMITS = { startTimeoutMs: 100, endTimeoutMs: 100, researchTimeoutMs: 100, toolCallsMax: 2, stuckGraceMs: 200 };
const CREATED = sessionCreated('ses_watched');

const PROMPT: Extract<InputDraft, { name: 'prompt:received' }>['payload'] = {
  promptId: 'p1',
  content: 'Think.',
  attachments: [],
  delivery: 'queue',
  client: 'test',
  tools: [],
  preTools: [],
  bodyDigest: 'd',
};

let folder: string;
let log: SignalLog;
let supervisor: Supervisor;
let detector: StuckDetector;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-stuck-'));
  log = await openSignalLog({ path: join(folder, 'signals.db') });
  supervisor = new Supervisor({ log, clock: systemClock, logger: silentLogger, hub: new LiveHub(), random: () => 0, sessionsMax: 10 });
  detector = startStuckDetector({
    hosts: () => supervisor.hosts(),
    limits: LIMITS,
    logger: silentLogger,
    restart: (host, error) => supervisor.restart(host, error),
  });
});

afterEach(async () => {
  detector.close();
  await supervisor.drain(10);
  await log.close();
  rmSync(folder, { recursive: true, force: true });
});

function answered(pending: Pending): InputDraft[] {
  return pending.kind === 'hook'
    ? [{ name: 'hook:end', payload: { hook: pending.hook, key: pending.key, bypassed: false, durationMs: 1 } }]
    : [];
}

async function payloads(name: string): Promise<Record<string, unknown>[]> {
  const signals = await log.read('session:ses_watched', 0, 1_000);
  return signals.filter((signal) => signal.name === name).map((signal) => signal.payload);
}

test('a session whose work hears neither its deadline nor its abort is restarted from its log, and counted', async () => {
  let calls = 0;
  supervisor.useEffects(async (_host, pending) => {
    calls += 1;
    return calls === 1 ? new Promise(() => {}) : answered(pending);
  });
  await supervisor.create(CREATED, 'test');
  await expect
    .poll(() => payloads('supervisor:child:restarted'), { timeout: 10_000 })
    .toMatchObject([{ attempt: 1, error: 'SessionStuck' }]);
  const host = await supervisor.get('ses_watched');
  expect(await host.until((view) => (view.session.state === 'idle' ? 'idle' : undefined))).toBe('idle');
  expect({ count: detector.count, calls }).toEqual({ count: 1, calls: 2 });
});

test('a turn whose work ignores the abort ends after the grace time, and the session still leaves memory', async () => {
  supervisor.useEffects(async (_host, pending) => (pending.kind === 'model' ? new Promise(() => {}) : answered(pending)));
  const limits = { ...CREATED.limits, abortGraceMs: 50, idleTtlMs: 50 };
  const host = await supervisor.create({ ...CREATED, limits }, 'test');
  await host.until((view) => (view.session.state === 'idle' ? true : undefined));
  await host.handle(() => [{ name: 'prompt:received', payload: PROMPT }]);
  await host.until((view) => (view.session.state === 'generating' ? true : undefined));
  await host.handle(() => [{ name: 'turn:cancel', payload: { by: 'test' } }]);
  await expect.poll(() => payloads('turn:end'), { timeout: 10_000 }).toMatchObject([{ promptId: 'p1', stopReason: 'cancelled' }]);
  await expect.poll(() => supervisor.peek('ses_watched'), { timeout: 10_000 }).toBeUndefined();
  expect({ stuck: detector.count, state: (await supervisor.view('ses_watched')).session.state }).toEqual({ stuck: 0, state: 'passivated' });
});

test('a session that rests, waits for a person or has time left is not stuck', () => {
  const at = (value: unknown, context: object = {}) =>
    busyStay(
      {
        status: 'active',
        value,
        context: { limits: CREATED.limits, calls: [], pending: [], turn: null, ...context },
      } as unknown as SessionSnapshot,
      LIMITS,
    );
  const turn = { number: 3, startedAt: 1_000, deadlineAt: 61_000, researched: 0 };
  expect([at('idle'), at('passivated')]).toEqual([null, null]);
  expect(at({ turn: { 'tool-looping': 'awaiting-approval' } }, { turn, calls: [{ state: 'waiting' }] })).toBeNull();
  expect(at('starting')).toEqual({ stay: 'starting', budgetMs: 100 });
  expect(at('ending')).toEqual({ stay: 'ending', budgetMs: 100 });
  expect(at('aborting', { abort: { at: 7 } })).toEqual({ stay: 'aborting 7', budgetMs: 1_000 });
  expect(at({ turn: { generating: 'calling' } }, { turn })).toEqual({ stay: 'turn 3', budgetMs: 61_000 });
  expect(at({ turn: { compacting: 'summarizing' } }, { compactions: 2 })).toEqual({ stay: 'compaction 2', budgetMs: 60_000 });
});

test('research tools that wait for each other have the time of all of them', () => {
  const context = { turn: { number: 1, researched: 1 }, pending: [1, 2, 3, 4], calls: [], limits: CREATED.limits };
  expect(busyStay({ status: 'active', value: { turn: 'researching' }, context } as unknown as SessionSnapshot, LIMITS)).toEqual({
    stay: 'turn 1 research',
    budgetMs: 300,
  });
});
