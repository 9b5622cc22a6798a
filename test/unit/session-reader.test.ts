import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { HEARTBEAT_MS, readSession } from '../../src/runtime/live/session-reader.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { startSignet } from '../helpers/signet.ts';

const STALLS_AT = 5;

afterEach(() => vi.useRealTimers());

test('a reader that waits through a heartbeat holds no page of the log meanwhile, and then gets the rest, each signal once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-reader-'));
  const signet = await startSignet({ folder });
  const { id } = await signet.client.session.create({});
  await signet.client.session.prompt(id, { content: 'hello' });
  const { seq } = await signet.client.session.get(id);
  await signet.close();
  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db') });
  onTestFinished(async () => {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  });
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const reads: number[] = [];
  const read: SignalLog['read'] = (stream, after, limit) => {
    reads.push(after);
    return log.read(stream, after, limit);
  };
  const stalled = Promise.withResolvers<void>();
  const drained = Promise.withResolvers<void>();
  const sent: number[] = [];
  const reading = readSession(
    { log: { ...log, read, readBefore: log.readBefore.bind(log) } as SignalLog, hub: new LiveHub(), clock: systemClock },
    {
      closed: new AbortController().signal,
      drained: () => drained.promise,
      write: ({ signal }) => {
        if (signal) sent.push(signal.seq);
        if (signal?.seq !== STALLS_AT) return true;
        stalled.resolve();
        return false;
      },
    },
    {
      session: id,
      agent: 'main',
      after: { seq: 0, offset: 0 },
      wants: () => true,
      deltas: false,
      snapshot: () => ({}),
      head: () => seq,
      ended: () => true,
    },
  );
  await stalled.promise;
  await vi.advanceTimersByTimeAsync(HEARTBEAT_MS);
  drained.resolve();
  await reading;
  expect(sent).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
  expect(reads).toEqual([0, STALLS_AT]);
});
