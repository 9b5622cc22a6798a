import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { chainedSignals } from '../helpers/signal-log-conformance.ts';

const STREAM = 'session:snapshots';
const APPEND_SIGNALS = 500;
const LONG_SIGNALS = 140_000;

test('beside the newest snapshot some older ones stay: near any past signal in a long log, never many in an endless one', {
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-snapshots-'));
  const path = join(folder, 'signals.db');
  const log = await openSignalLog({ path, synchronous: 'normal' });
  onTestFinished(async () => {
    await log.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const widest: number[] = [];
  const counts: number[] = [];
  for (let head = 0; head < LONG_SIGNALS; head += APPEND_SIGNALS) {
    const snapshot = { seq: head, version: 'm1', body: JSON.stringify({ head }) };
    const signals = chainedSignals(STREAM, head + 1, APPEND_SIGNALS, '');
    await log.append({ stream: STREAM, epoch: 0, expected: head, signals, ...(head > 0 ? { snapshot } : {}) });
    const kept = keptSnapshots(path);
    const ways = [...kept, head].map((seq, index) => seq - (kept[index - 1] ?? 0));
    widest.push(Math.max(...ways));
    counts.push(kept.length);
  }
  const until = Math.ceil(50_000 / APPEND_SIGNALS);
  expect(Math.max(...widest.slice(0, until))).toBeLessThanOrEqual(4_000 + APPEND_SIGNALS);
  expect(Math.max(...counts)).toBeLessThanOrEqual(18);
  expect(Math.max(...widest)).toBeLessThanOrEqual(16_000 + APPEND_SIGNALS);
  const past = await log.loadSnapshot(STREAM, 70_000);
  expect(past!.seq).toBeLessThanOrEqual(70_000);
  expect(JSON.parse(past!.body)).toEqual({ head: past!.seq });
  expect((await log.loadSnapshot(STREAM))!.seq).toBe(LONG_SIGNALS - APPEND_SIGNALS);
});

function keptSnapshots(path: string): number[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db
      .prepare('SELECT seq FROM snapshots ORDER BY seq')
      .all()
      .map((row) => Number(row.seq));
  } finally {
    db.close();
  }
}
