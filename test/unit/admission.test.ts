import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Admission, startAdmission } from '../../src/runtime/admission.ts';
import { type EventLoopDelay, watchEventLoop } from '../../src/runtime/event-loop-delay.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';

let admission: Admission;
let eventLoop: EventLoopDelay;
beforeEach(() => {
  eventLoop = watchEventLoop();
});
afterEach(() => {
  admission.close();
  eventLoop.close();
});

/** Keeps the event loop busy until told to stop, with moments in between in which timers run. */
function keepBusy(): () => void {
  let isBusy = true;
  const block = () => {
    if (!isBusy) return;
    const until = performance.now() + 150;
    while (performance.now() < until);
    setTimeout(block, 1);
  };
  block();
  return () => (isBusy = false);
}

test('new work is refused while the event loop is late for more than a moment, and taken again when it has caught up', async () => {
  admission = startAdmission({ eventLoop, delayMsMax: 50, logPressure: () => 0 });
  expect(admission.refusal()).toBeNull();
  const stop = keepBusy();
  await expect.poll(() => admission.refusal()?.code, { timeout: 20_000 }).toBe('overloaded');
  expect(admission.refusal()).toMatchObject({ status: 503, retryAfterMs: 1_000 });
  stop();
  await expect.poll(() => admission.refusal(), { timeout: 20_000 }).toBeNull();
});

test('new work is refused while the log has little room left for writes, before running work is', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-admission-'));
  const log = await openSignalLog({ path: join(folder, 'signals.db') });
  try {
    admission = startAdmission({ eventLoop, delayMsMax: 60_000, logPressure: () => log.pressure() });
    const writes = Array.from({ length: 16_000 }, () => log.own('session:crowded'));
    expect(admission.refusal()).toMatchObject({ code: 'overloaded', retryAfterMs: 1_000 });
    await Promise.all(writes);
    expect(admission.refusal()).toBeNull();
  } finally {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
