import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { isAppError } from '../../src/core/errors.ts';
import { openSignalLog, type SignalLogOptions } from '../../src/store/signal-log.ts';
import { chainedSignals, sessionCard, signalLogConformance } from '../helpers/signal-log-conformance.ts';

const A = 'session:aaaaaa';
const B = 'session:bbbbbb';

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'signal-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function openLog(options: Partial<SignalLogOptions> = {}) {
  const path = options.path ?? join(temporaryFolder(), 'signals.db');
  const log = await openSignalLog({ ...options, path });
  onTestFinished(() => log.close().catch(() => {})); // A log whose writer crashed on purpose cannot close cleanly.
  return { log, path };
}

signalLogConformance('SQLite', async () => (await openLog({ synchronous: 'normal' })).log);

test('what was appended is there after closing and opening again, and the files are only for their owner', async () => {
  const { log, path } = await openLog();
  const signals = chainedSignals(A, 1, 2);
  const { epoch } = await log.own(A);
  await log.append({ stream: A, epoch, expected: 0, signals, card: sessionCard('aaaaaa') });
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(`${path}-wal`).mode & 0o777).toBe(0o600);
  await log.close();
  expect(existsSync(`${path}-wal`)).toBe(false);

  const { log: reopened } = await openLog({ path });

  expect((await reopened.read(A, 0, 10)).map((signal) => signal.digest)).toEqual(signals.map((signal) => signal.digest));
  expect(await reopened.head(A)).toEqual({ head: 2, epoch: 1 });
  expect(await reopened.card('aaaaaa')).toMatchObject({ key: 'key-aaaaaa' });
  expect(await reopened.append({ stream: A, epoch: 1, expected: 2, signals: chainedSignals(A, 3, 1) })).toEqual({ head: 3, firstGseq: 3 });
});

test('close waits for what was queued, may be called twice, and everything afterwards is refused', async () => {
  const { log, path } = await openLog();
  const pending = log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 500) });
  await Promise.all([log.close(), log.close()]);

  expect(await pending).toEqual({ head: 500, firstGseq: 1 });
  await expect(log.append({ stream: A, epoch: 0, expected: 500, signals: chainedSignals(A, 501, 1) })).rejects.toMatchObject({
    code: 'storage_failed',
    detail: `${path} is closed`,
  });
  await expect(log.read(A, 0, 1)).rejects.toMatchObject({ code: 'storage_failed', detail: `${path} is closed` });
});

test('a full queue refuses with overloaded and takes appends again once it is empty', async () => {
  const { log } = await openLog({ synchronous: 'normal' });
  const results = await Promise.allSettled(
    Array.from({ length: 20_500 }, (_, index) => {
      const stream = `session:many_${index}`;
      return log.append({ stream, epoch: 0, expected: 0, signals: chainedSignals(stream, 1, 1) });
    }),
  );

  const refused = results.filter((result) => result.status === 'rejected');
  expect(refused).toHaveLength(500);
  expect(refused.every((result) => isAppError(result.reason, 'overloaded') && result.reason.retryAfterMs === 500)).toBe(true);
  expect(await log.headGseq()).toBe(20_000);
  expect(await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1) })).toEqual({ head: 1, firstGseq: 20_001 });
});

test('a queue full of text refuses too, but one append of any size is taken when nothing waits', async () => {
  const { log } = await openLog({ synchronous: 'normal' });
  const large = (stream: string) => chainedSignals(stream, 1, 1, '', { text: 'x'.repeat(40_000_000) });
  const first = log.append({ stream: A, epoch: 0, expected: 0, signals: large(A) });
  await expect(log.append({ stream: B, epoch: 0, expected: 0, signals: large(B) })).rejects.toMatchObject({ code: 'overloaded' });

  expect(await first).toEqual({ head: 1, firstGseq: 1 });
  expect(await log.append({ stream: B, epoch: 0, expected: 0, signals: large(B) })).toEqual({ head: 1, firstGseq: 2 });
});

test('when the disk is full appends fail with storage_failed and write nothing, and go on once space is there', async () => {
  const { log } = await openLog({ bytesMax: 1_000_000 });
  const text = 'x'.repeat(100_000);
  let head = 0;
  const grow = async (): Promise<void> => {
    await log.append({ stream: A, epoch: 0, expected: head, signals: chainedSignals(A, head + 1, 1, '', { text }) });
    head += 1;
    return grow();
  };

  await expect(grow()).rejects.toMatchObject({ code: 'storage_failed', detail: expect.stringContaining('no space left') });
  expect(head).toBeGreaterThan(5);
  expect(await log.head(A)).toEqual({ head, epoch: 0 });
  expect(await log.headGseq()).toBe(head);
  await log.purge(A);
  expect(await log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1, '', { text }) })).toEqual({
    head: 1,
    firstGseq: head + 1,
  });
});

test('when the writer crashes every waiting and later append is refused, and reads go on', async () => {
  const folder = temporaryFolder();
  const crashing = join(folder, 'crashing-writer.mjs');
  const writer = new URL('../../src/store/signal-writer.ts', import.meta.url);
  writeFileSync(
    crashing,
    `import { parentPort } from 'node:worker_threads';
     parentPort.addEventListener('message', (event) => {
       if (!event.data.batch?.some((job) => job.stream === '${B}')) return;
       event.stopImmediatePropagation();
       throw new Error('crashed on purpose');
     });
     await import(${JSON.stringify(writer.href)});`,
  );
  const { log } = await openLog({ path: join(folder, 'signals.db'), workerUrl: new URL(`file://${crashing}`) });
  await log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1) });

  const refusal = {
    code: 'storage_failed',
    detail: expect.stringMatching(/signals\.db: the writer .* crashed; .* \(crashed on purpose\)/),
  };
  const waiting = log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1) });
  await expect(waiting).rejects.toMatchObject(refusal);
  await expect(log.append({ stream: A, epoch: 0, expected: 1, signals: chainedSignals(A, 2, 1) })).rejects.toMatchObject(refusal);
  expect(await log.head(A)).toEqual({ head: 1, epoch: 0 });
  await log.close();
});

test('an append that only a bug can make fails alone, and its neighbours of the same commit are stored', async () => {
  const { log } = await openLog();
  const unbindable = sessionCard('bbbbbb', { agent: undefined as unknown as string });
  const results = await Promise.allSettled([
    log.append({ stream: A, epoch: 0, expected: 0, signals: chainedSignals(A, 1, 1) }),
    log.append({ stream: B, epoch: 0, expected: 0, signals: chainedSignals(B, 1, 1), card: unbindable }),
    log.append({ stream: A, epoch: 0, expected: 1, signals: chainedSignals(A, 2, 1) }),
  ]);

  expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  expect((await log.feed({ after: 0, limit: 10 })).map((signal) => [signal.gseq, signal.stream])).toEqual([
    [1, A],
    [2, A],
  ]);
});

test('a damaged file is refused by name and left as it was', async () => {
  const path = join(temporaryFolder(), 'signals.db');
  const text = 'this was never a database\n'.repeat(400);
  writeFileSync(path, text);

  await expect(openSignalLog({ path })).rejects.toMatchObject({ code: 'storage_corrupt', detail: expect.stringContaining(path) });
  expect(readFileSync(path, 'utf8')).toBe(text);
});

test('a folder that cannot be made is refused by name', async () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  const path = join(file, 'signals.db');

  await expect(openSignalLog({ path })).rejects.toMatchObject({ code: 'workspace_unwritable', detail: expect.stringContaining(path) });
});
