import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { WorkflowAgentRules, WorkflowLimits } from '../../src/contract/workflow.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { compilePatterns } from '../../src/core/signal-pattern.ts';
import { sealNext } from '../../src/core/signal-seal.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { WorkflowFeed } from '../../src/runtime/workflow/workflow-feed.ts';
import { WorkflowService } from '../../src/runtime/workflow/workflow-service.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { replaceInLog } from '../helpers/replaced-log.ts';

let log: SignalLog;
let hub: LiveHub;
const places = new Map<string, { seq: number; digest: string }>();

beforeEach(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-feed-'));
  log = await openSignalLog({ path: join(folder, 'signals.db') });
  hub = new LiveHub();
  places.clear();
  onTestFinished(async () => {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

/** One more signal of a session, stored and published; returns its log-wide number. */
async function say(session: string, name: string): Promise<number> {
  const stream = `session:${session}`;
  const { seq, digest } = places.get(session) ?? { seq: 0, digest: '' };
  const source = { kind: 'machine' as const, session, agent: 'default' };
  const next = { name, payload: {}, timestamp: '2026-01-01T00:00:00.000Z', source, cause: null };
  const signal = sealNext({ stream, seq, digest }, next);
  const { firstGseq } = await log.append({ stream, epoch: 0, expected: seq, signals: [signal] });
  places.set(session, { seq: seq + 1, digest: signal.digest! });
  hub.publish(session, [{ ...signal, gseq: firstGseq } as Signal]);
  return firstGseq;
}

test('a run is woken by what it wants, and passes over the rest without reading it', async () => {
  const feed = new WorkflowFeed({ hub, log, logger: silentLogger });
  const woken: string[] = [];
  const names = compilePatterns(['turn:end']);
  const join = (id: string, elsewhere: boolean) =>
    feed.join({ id, own: names, elsewhere: elsewhere ? names : null, wake: () => woken.push(id) });
  const [self, wide] = [join('flow_self', false), join('flow_wide', true)];
  onTestFinished(() => [self, wide].forEach((seat) => void seat.leave()));

  await say('other', 'turn:start');
  const foreign = await say('other', 'turn:end');
  await expect.poll(() => woken).toEqual(['flow_wide']);
  expect(wide.skip(0)).toBe(foreign - 1);
  expect(wide.isBehind(foreign - 1)).toBe(true);
  expect(self.isBehind(0)).toBe(false);
  expect(self.skip(0)).toBe(foreign);

  await say('flow_self_a1', 'harness:end');
  const own = await say('flow_self_a1', 'turn:end');
  await expect.poll(() => woken).toContain('flow_self');
  expect(self.skip(foreign)).toBe(own - 1);
  expect(self.skip(own)).toBe(own);
  expect(self.isBehind(own)).toBe(false);
});

test('who joins later is not told of what came before, and reads it by itself', async () => {
  const feed = new WorkflowFeed({ hub, log, logger: silentLogger });
  const names = compilePatterns(['turn:end']);
  const first = feed.join({ id: 'flow_first', own: names, elsewhere: names, wake: () => undefined });
  const seen = await say('other', 'turn:end');
  await expect.poll(() => first.isBehind(0)).toBe(true);
  const late = feed.join({ id: 'flow_late', own: names, elsewhere: names, wake: () => undefined });
  expect(late.isBehind(seen - 1)).toBe(true);
  expect(late.skip(seen - 1)).toBe(seen - 1);
  expect(late.isBehind(seen)).toBe(false);
  first.leave();
  late.leave();
});

test('the place that the slowest run has read to is known, also before the runs of the last process are back', async () => {
  const held = Promise.withResolvers<null>();
  const slow = replaceInLog(log, { card: () => held.promise });
  const deps = { log: slow, hub, clock: systemClock, logger: silentLogger, supervisor: { admit: () => undefined } };
  const daemon = { call: async () => ({ agents: [] }) };
  const service = new WorkflowService({ deps: { ...deps, daemon } } as never);
  expect(service.readUntil).toBe(0);
  await service.sweep();
  expect(service.readUntil).toBe(Number.POSITIVE_INFINITY);

  const rules = WorkflowAgentRules.parse({ name: 'one', activateOn: ['turn:end'], from: { scope: 'project' }, session: 'new' });
  const waits = WorkflowAgentRules.parse({ name: 'two', activateOn: ['workflow:start'], debounceMs: 3_600_000 });
  const agents = [rules, waits].map((agent) => ({ ...agent, prompt: () => 'Go.' }));
  const terms = { name: 'code', agents, state: {}, input: null, timeoutMs: 60_000, project: 'p', source: null };
  await service.start({ ...terms, limits: WorkflowLimits.parse({}) }, { id: 'slow_flow', client: 'test' });
  await say('other', 'turn:start');
  await expect.poll(() => service.readUntil).toBe(hub.headGseq);
  const wanted = await say('other', 'turn:end');
  const later = await say('other', 'turn:start');
  // The router waits for the card of the session: it has not read what it wants.
  await expect.poll(() => hub.headGseq).toBe(later);
  await expect.poll(() => service.readUntil).toBe(wanted - 1);
  held.resolve(null);
  await expect.poll(() => service.readUntil).toBe(later);
  service.close();
});
