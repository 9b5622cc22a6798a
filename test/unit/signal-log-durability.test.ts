import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { signalDigest } from '../../src/core/signal-seal.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';

const CONFORMANCE = new URL('../helpers/signal-log-conformance.ts', import.meta.url).href;
const SIGNAL_LOG = new URL('../../src/store/signal-log.ts', import.meta.url).href;
const STREAMS = ['session:stream_0', 'session:stream_1', 'session:stream_2'];
/** How many acknowledged appends the writer may make before it is killed; from a few to several commits' worth. */
const KILLS_AFTER = [1, 40, 300, 1_200];

/** Appends to three streams as fast as it can and prints `stream seq` after each acknowledgement. */
const WRITER = `
  import { writeSync } from 'node:fs';
  import { chainedSignals } from ${JSON.stringify(CONFORMANCE)};
  import { openSignalLog } from ${JSON.stringify(SIGNAL_LOG)};
  const log = await openSignalLog({ path: process.argv[1] });
  const run = async (stream) => {
    let { head, epoch } = await log.own(stream);
    let digest = (await log.read(stream, head - 1, 1))[0]?.digest ?? '';
    for (;;) {
      const signals = chainedSignals(stream, head + 1, 1 + (head % 3), digest);
      digest = signals.at(-1).digest;
      ({ head } = await log.append({ stream, epoch, expected: head, signals }));
      writeSync(1, stream + ' ' + head + '\\n');
    }
  };
  await Promise.all(${JSON.stringify(STREAMS)}.map(run));
`;

test('every acknowledged append survives kill -9 at any moment; streams stay dense and their digests chain', {
  timeout: 60_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signal-log-kill-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'signals.db');
  for (const acknowledgements of KILLS_AFTER) {
    const acknowledged = await writeUntilKilled(path, acknowledgements);

    const log = await openSignalLog({ path });
    expect(log.finding).toEqual({ kind: 'whole' });
    for (const stream of STREAMS) await checkStream(log, stream, acknowledged.get(stream) ?? 0);
    const gseqs = (await log.feed({ after: 0, limit: 1_000_000 })).map((signal) => signal.gseq);
    expect(gseqs).toEqual(Array.from({ length: gseqs.length }, (_, index) => index + 1));
    expect(await log.headGseq()).toBe(gseqs.length);
    await log.close();
  }
});

async function writeUntilKilled(path: string, acknowledgements: number): Promise<Map<string, number>> {
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', WRITER, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const acknowledged = new Map<string, number>();
  let lines = 0;
  for await (const line of createInterface({ input: child.stdout! })) {
    const [stream, head] = line.split(' ');
    acknowledged.set(stream!, Number(head));
    lines += 1;
    if (lines === acknowledgements) child.kill('SIGKILL');
  }
  expect(await exited).toEqual([null, 'SIGKILL']);
  expect(lines).toBeGreaterThanOrEqual(acknowledgements);
  return acknowledged;
}

async function checkStream(log: Awaited<ReturnType<typeof openSignalLog>>, stream: string, acknowledged: number): Promise<void> {
  const signals = await log.read(stream, 0, 1_000_000);
  expect(signals.map((signal) => signal.seq)).toEqual(Array.from({ length: signals.length }, (_, index) => index + 1));
  expect(signals.length).toBeGreaterThanOrEqual(acknowledged);
  expect((await log.head(stream)).head).toBe(signals.length);
  let digest = '';
  for (const signal of signals) {
    expect(signal.digest).toBe(signalDigest(signal, digest));
    digest = signal.digest!;
  }
}
