import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { z } from 'zod';
import { defineOperation } from '../../src/contract/operation.ts';
import { NEUTRAL } from '../../src/contract/scope.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Connections } from '../../src/http/connections.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { encodeFrame } from '../../src/http/sse.ts';
import { UnreadAnswers, type UnreadLimits } from '../../src/http/unread-answers.ts';
import { openDeafReader, rawRequest } from '../helpers/raw-http.ts';
import { startStreams } from '../helpers/stream-app.ts';

const MIB = 1_048_576;
/** More than the buffers of both systems take. */
const ANSWER_BYTES = 16 * MIB;

const operations = {
  big: defineOperation({
    id: 'big',
    method: 'GET',
    path: '/big',
    tag: 'notes',
    role: 'readonly',
    scope: NEUTRAL,
    summary: 'A large answer.',
    input: z.strictObject({}),
    output: z.object({ text: z.string() }),
    errors: ['overloaded'],
  }),
};

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startBig(limits: Partial<UnreadLimits>) {
  const unread = new UnreadAnswers({ lookMs: 20, ...limits });
  const server = createHttpServer({
    operations,
    handlers: { big: () => ({ text: 'x'.repeat(ANSWER_BYTES) }) },
    security: {},
    title: 'Big',
    version: '1',
    log: silentLogger,
    shared: { connections: new Connections(), unread },
  });
  const { port } = await server.listen('127.0.0.1', 0);
  closers.push(() => server.close());
  const deaf = async (): Promise<Socket> => {
    const socket = await openDeafReader(port, '/big');
    closers.push(() => void socket.destroy());
    return socket;
  };
  return { port, unread, deaf };
}

test('a reader that takes nothing of an answer loses its connection, and nothing is held for it', async () => {
  const { unread, deaf } = await startBig({ stallTimeoutMs: 200 });
  await deaf();
  await expect.poll(() => unread.bytes).toBeGreaterThan(ANSWER_BYTES);
  await expect.poll(() => unread.bytes, { timeout: 10_000 }).toBe(0);
});

test('a slow reader that goes on reading gets the whole answer, however long it takes', async () => {
  const { unread, deaf } = await startBig({ stallTimeoutMs: 400 });
  const socket = await deaf();
  await expect.poll(() => unread.bytes).toBeGreaterThan(ANSWER_BYTES);
  let bytes = 0;
  let began = 0;
  socket.on('data', (chunk: Buffer) => {
    began ||= performance.now();
    bytes += chunk.length;
    socket.pause();
    // Four times the limit from the first to the last byte.
    setTimeout(() => socket.resume(), (1_600 * chunk.length) / ANSWER_BYTES);
  });
  socket.resume();
  await expect.poll(() => bytes, { timeout: 30_000 }).toBeGreaterThan(ANSWER_BYTES);
  expect(performance.now() - began).toBeGreaterThan(400);
  expect(socket.destroyed).toBe(false);
});

test('answers beyond the budget are refused with 503 while their readers may still read', async () => {
  const { port, unread, deaf } = await startBig({ bytesMax: 40 * MIB, recentMs: 60_000 });
  await deaf();
  await deaf();
  await expect.poll(() => unread.bytes).toBeGreaterThan(2 * ANSWER_BYTES);
  const refused = await rawRequest(port, { path: '/big' });
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '5']);
  expect(refused.json()).toMatchObject({ code: 'overloaded' });
  expect(unread.bytes).toBeLessThan(40 * MIB);
});

test('readers that have gone quiet make room for those that read', async () => {
  const { port, unread, deaf } = await startBig({ bytesMax: 40 * MIB, recentMs: 100 });
  await Promise.all([deaf(), deaf()]);
  await expect.poll(() => unread.bytes).toBeGreaterThan(2 * ANSWER_BYTES);
  await expect.poll(async () => (await rawRequest(port, { path: '/big' })).status, { timeout: 10_000 }).toBe(200);
  expect(unread.bytes).toBeLessThan(40 * MIB);
});

test('many unread streams share the budget as well', async () => {
  const unread = new UnreadAnswers({ bytesMax: 2 * MIB, recentMs: 50, lookMs: 20 });
  const frame = encodeFrame({ event: 'x', data: 'y'.repeat(65_536) });
  const ends: string[] = [];
  const app = await startStreams({
    shared: { connections: new Connections(), unread },
    watch: async (_input, _context, sse) => {
      while (!sse.closed.aborted) if (!sse.frame(frame)) await sse.drained();
      ends.push(String(sse.closed.reason));
    },
  });
  closers.push(app.close);
  for (let at = 0; at < 12; at += 1) {
    const socket = await openDeafReader(app.port, '/watch/x');
    closers.push(() => void socket.destroy());
  }
  // What one may hold fits the budget; what twelve hold does not matter to a thirteenth that reads.
  await expect.poll(() => unread.bytes).toBeLessThanOrEqual(2 * MIB);
  const reader = await openDeafReader(app.port, '/watch/x');
  closers.push(() => void reader.destroy());
  reader.resume();
  await once(reader, 'data');
  expect(ends.every((reason) => reason === 'overrun')).toBe(true);
});
