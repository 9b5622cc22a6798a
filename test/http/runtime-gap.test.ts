import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, expect, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { StreamFrame } from '../../src/runtime/live/frame.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { readSession } from '../../src/runtime/live/session-reader.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { readLog, startRig } from '../e2e/rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'signet-gap-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a reader is told which signals the log no longer has, and gets all others', async () => {
  const rig = await startRig({ folder });
  const { id } = await rig.client.session.create({});
  await rig.client.session.prompt(id, { content: 'Hello?' });
  await rig.client.session.end(id);
  const seqs = (await readLog(rig.client, id)).map(({ seq }) => seq);
  await rig.close();
  const path = join(folder, 'data', 'signals.db');
  const db = new DatabaseSync(path);
  db.prepare('DELETE FROM signals WHERE seq BETWEEN 4 AND 9').run();
  db.close();

  const log = await openSignalLog({ path, synchronous: 'full' });
  const frames: StreamFrame[] = [];
  await readSession(
    { log, hub: new LiveHub(), clock: systemClock },
    { write: (frame) => frames.push(frame) > 0, drained: async () => undefined, closed: new AbortController().signal },
    {
      session: id,
      agent: 'default',
      after: { seq: 0, offset: 0 },
      wants: () => true,
      deltas: false,
      snapshot: () => ({}),
      head: () => seqs.length,
      ended: () => true,
    },
  );
  await log.close();
  expect(frames.filter(({ event }) => event === 'gap')).toEqual([{ event: 'gap', data: { from: 4, to: 9 } }]);
  expect(frames.findIndex(({ event }) => event === 'gap')).toBe(4);
  expect(frames.filter(({ signal }) => signal).map(({ signal }) => signal?.seq)).toEqual(seqs.filter((seq) => seq < 4 || seq > 9));
});
