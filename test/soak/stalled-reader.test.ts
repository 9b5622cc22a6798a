import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import { wireEnvironment } from '../e2e/rig.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { maskedFrame, openDeafReader, UPGRADE_HEADERS } from '../helpers/raw-http.ts';
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
const MS_PER_SECOND = 1_000;
/** A reader that takes nothing is closed after a minute. */
const REOPEN_MS = 20_000;

test(`T10: ${FLOWING} signals flow past readers that take nothing: the daemon does not grow, and another reader gets all of them`, {
  timeout: 900_000,
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
  /** Growth in MiB while signals flow past what `stall` keeps open. */
  const grown = async (what: string, stall: Stall): Promise<number> => {
    const before = await settledMib(signet.process);
    const started = performance.now();
    const until = reader.count + FLOWING;
    while (reader.count < until) await Promise.all(Array.from({ length: TURNS_AT_ONCE }, () => oneSession(signet.client, stall)));
    const seconds = (performance.now() - started) / MS_PER_SECOND;
    const after = await settledMib(signet.process);
    await stall.end();
    console.info(
      `${what}: ${FLOWING} signals in ${seconds.toFixed(0)} s, ${before.toFixed(1)} MiB before, ${after.toFixed(1)} MiB after, ${stall.opened} stalled readers`,
    );
    return after - before;
  };
  await grown('warming up', nobodyStalls);
  const usual = Math.max(0, await grown('nobody stalls', nobodyStalls));
  const port = Number(new URL(signet.runtimeUrl).port);
  expect((await grown('server-sent events', await stallEvents(port))) - usual).toBeLessThan(GROWTH_MIB_MAX);
  expect((await grown('WebSocket', await stallSockets(port))) - usual).toBeLessThan(GROWTH_MIB_MAX);
  // The other reader missed none meanwhile.
  expect(reader.gaps).toBe(0);
  reader.close();
});

/** One turn with many signals, in a session that is gone afterwards. */
async function oneSession(client: RuntimeClient, stall: Stall): Promise<void> {
  const { id } = await client.session.create({});
  stall.begun(id);
  await client.session.prompt(id, { content: 'Go on and on.' });
  await client.session.end(id);
}

/** Readers that take nothing. The server closes each after a while, so that new ones come before. */
interface Stall {
  readonly opened: number;
  /** A session whose signals are about to flow. */
  begun(session: string): void;
  end(): Promise<void>;
}

const nobodyStalls: Stall = { opened: 0, begun: () => {}, end: async () => {} };

async function stallAnew(open: () => Promise<Socket>, begun: (newest: Socket, session: string) => void): Promise<Stall> {
  const sockets = [await open()];
  const timer = setInterval(() => void open().then((socket) => sockets.push(socket)), REOPEN_MS);
  return {
    get opened() {
      return sockets.length;
    },
    begun: (session) => begun(sockets.at(-1)!, session),
    end: async () => {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** From the newest signal on, and from the first one. */
const stallEvents = (port: number) => {
  let opened = 0;
  const open = () => {
    opened += 1;
    return openDeafReader(port, opened % 2 === 0 ? '/events?after=0' : '/events', { accept: 'text/event-stream' });
  };
  return stallAnew(open, () => {});
};

const stallSockets = (port: number) =>
  stallAnew(
    () => openDeafReader(port, '/ws', UPGRADE_HEADERS),
    (socket, session) => socket.write(maskedFrame(JSON.stringify({ id: session, op: 'sub', session }))),
  );

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
