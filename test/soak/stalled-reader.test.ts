import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import { wireEnvironment } from '../e2e/rig.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { startSignetProcess } from '../helpers/signet.ts';

/** Signals that flow past a reader that reads nothing. */
const FLOWING = 100_000;
const GROWTH_MIB_MAX = 10;
/** Calls of one answer to a tool nobody has: each makes signals and costs no work outside. */
const CALLS = 60;
const ROUNDS = 16;
/** Each its own session, so that none grows large. */
const TURNS_AT_ONCE = 4;
/** Collects garbage when told to. */
const COLLECTOR = new URL('./collect-garbage.ts', import.meta.url).href;
/** Between collections and looks at memory; unit: milliseconds. */
const SETTLE_MS = 400;
const COLLECTIONS = 4;
const KIB_PER_MIB = 1_024;

test(`T10: ${FLOWING} signals flow past a socket that reads nothing: the daemon does not grow, and another reader gets all of them`, {
  timeout: 300_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-stalled-'));
  const model = await startModelServer({ record: false });
  model.respond(({ body }) => {
    const rounds = (body.messages as { role: string }[]).filter(({ role }) => role === 'assistant').length;
    if (rounds >= ROUNDS) return { text: 'Enough.' };
    return { toolCalls: Array.from({ length: CALLS }, () => ({ name: 'nobody_has_it', input: {} })) };
  });
  const env = { ...wireEnvironment('anthropic', model.url), NODE_OPTIONS: `--import=${COLLECTOR}`, SIGNET_LOG_LEVEL: 'error' };
  const signet = await startSignetProcess({ folder, env });
  onTestFinished(async () => {
    await signet.kill();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const reader = await openCounter(`${signet.runtimeUrl}/events?deltas=0`);
  const flow = async (signals: number): Promise<void> => {
    const until = reader.count + signals;
    while (reader.count < until) await Promise.all(Array.from({ length: TURNS_AT_ONCE }, () => oneSession(signet.client)));
  };
  await flow(FLOWING / 2);
  const before = await settledMib(signet.process);
  const stalled = await openStalled(signet.runtimeUrl);
  await flow(FLOWING);
  const after = await settledMib(signet.process);
  stalled.destroy();
  console.info(`stalled reader: ${before.toFixed(1)} MiB before, ${after.toFixed(1)} MiB after ${FLOWING} signals`);
  expect(after - before).toBeLessThan(GROWTH_MIB_MAX);
  // The other reader missed none meanwhile.
  expect(reader.gaps).toBe(0);
  reader.close();
});

/** One turn with many signals, in a session that is gone afterwards. */
async function oneSession(client: RuntimeClient): Promise<void> {
  const { id } = await client.session.create({});
  await client.session.prompt(id, { content: 'Go on and on.' });
  await client.session.end(id);
}

/** Asks for everything and never reads a byte of it. */
async function openStalled(url: string): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.pause();
  // Closed by the server in the end, which is its right.
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(`GET /events?after=0 HTTP/1.1\r\nhost: ${host}\r\naccept: text/event-stream\r\n\r\n`);
  return socket;
}

interface Counter {
  /** Stored signals so far, and places where the log-wide number made a step of more than one. */
  readonly count: number;
  readonly gaps: number;
  close(): void;
}

async function openCounter(url: string): Promise<Counter> {
  const cut = new AbortController();
  const response = await fetch(url, { signal: cut.signal });
  const seen = { count: 0, gaps: 0, last: 0, close: () => cut.abort() };
  const text = response.body!.pipeThrough(new TextDecoderStream());
  void (async () => {
    let rest = '';
    for await (const chunk of text) {
      const whole = rest + chunk;
      const end = whole.lastIndexOf('\n\n') + 1;
      for (const [, number] of whole.slice(0, end).matchAll(/^id: (\d+)$/gm)) {
        if (seen.last > 0 && Number(number) > seen.last + 1) seen.gaps += 1;
        if (Number(number) > seen.last) seen.count += 1;
        seen.last = Number(number);
      }
      rest = whole.slice(end);
    }
  })().catch(() => undefined);
  return seen;
}

/** Resident memory of the process once its garbage is collected, in MiB. */
async function settledMib(child: ChildProcess): Promise<number> {
  for (let collection = 0; collection < COLLECTIONS; collection += 1) {
    child.kill('SIGUSR2');
    await pause(SETTLE_MS);
  }
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) / KIB_PER_MIB;
}
