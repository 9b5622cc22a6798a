import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { sessionMachine } from '../../machines/session.machine.ts';
import type { Signal } from '../../src/contract/signal.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { createFolding } from '../../src/runtime/session-core.ts';
import { verifySession } from '../../src/runtime/verify.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { type Signet, startSignet } from '../helpers/signet.ts';

async function storyOn(signet: Signet): Promise<string> {
  const session = await signet.client.session.create({});
  await signet.client.session.prompt(session.id, { content: 'remember I like tea' });
  await signet.client.session.prompt(session.id, { content: 'recall tea' });
  await signet.client.session.compact(session.id);
  await signet.client.session.end(session.id);
  return session.id;
}

test('a log that was written by this machine verifies, and a changed byte or guard shows at the very signal', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-verify-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const signet = await startSignet({ folder });
  const id = await storyOn(signet);
  const events = (await signet.client.session.events(id, { limit: 1_000 })).items as Signal[];
  await signet.close();

  const log = await openSignalLog({ path: join(folder, 'data', 'signals.db') });
  try {
    expect(await verifySession(log, id)).toMatchObject({ verified: true, signals: events.length, divergence: null });
    await changedByte(log, id, events);
    await changedGuard(log, id, events);
  } finally {
    await log.close();
  }
});

/** Reads the log with one signal changed, as a disk would after a bit has flipped. */
async function changedByte(log: SignalLog, id: string, events: readonly Signal[]): Promise<void> {
  for (const name of ['tool:result', 'session:transition', 'harness:end', 'turn:end'] as const) {
    const victim = events.find((signal) => signal.name === name)!;
    const changed: Pick<SignalLog, 'read' | 'loadCheckpoint'> = {
      loadCheckpoint: async () => null,
      read: async (stream, after, limit) =>
        (await log.read(stream, after, limit)).map((signal) =>
          signal.seq === victim.seq ? { ...signal, payload: { ...signal.payload, durationMs: 999_999 } } : signal,
        ),
    };
    const { verified, divergence } = await verifySession(changed as SignalLog, id);
    expect({ name, verified, seq: divergence?.seq }).toEqual({ name, verified: false, seq: victim.seq });
  }
}

async function changedGuard(log: SignalLog, id: string, events: readonly Signal[]): Promise<void> {
  const other = sessionMachine.provide({ guards: { wantsTools: () => false } });
  const firstCall = events.find((signal) => signal.name === 'harness:end')!;
  const { divergence } = await verifySession(log, id, createFolding(other));
  // The input itself is as it was; the first signal the machine says to it is another.
  expect(divergence?.seq).toBe(firstCall.seq + 1);
}
