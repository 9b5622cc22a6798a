import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, describe, expect, test } from 'vitest';
import { networkOf } from '../../src/http/auth-limits.ts';
import { CONNECTIONS_MAX, type ConnectionLimits, Connections, connectionLimits } from '../../src/http/connections.ts';
import { createTokenCheck } from '../../src/http/security.ts';
import { UnreadAnswers } from '../../src/http/unread-answers.ts';
import { type NotesServerOptions, startNotes } from '../helpers/notes-app.ts';
import { rawRequest } from '../helpers/raw-http.ts';

const opened: Socket[] = [];
const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const socket of opened.splice(0)) socket.destroy();
  for (const close of closers.splice(0)) await close();
});

async function startWith(limits: ConnectionLimits, options: NotesServerOptions = {}) {
  const app = await startNotes({ shared: { connections: new Connections(limits), unread: new UnreadAnswers() }, ...options });
  closers.push(app.close);
  return app;
}

/** A connection that sends `text` and is then left open from this side, whatever the server does. */
async function open(port: number, text = '', host = '127.0.0.1'): Promise<Socket> {
  const socket = connect({ port, host, allowHalfOpen: true });
  opened.push(socket);
  socket.on('error', () => {}); // The server may cut it; tests look at `closed`.
  socket.resume();
  await once(socket, 'connect');
  if (text) socket.write(text);
  return socket;
}

/** By the server, not only ended: a byte to it is answered with a reset then. */
async function destroyed(socket: Socket): Promise<void> {
  await once(socket, 'end');
  const write = () => {
    if (!socket.destroyed) socket.write('x');
    return socket.destroyed;
  };
  await expect.poll(write, { timeout: 10_000 }).toBe(true);
}

const HANG = '{"how":"hang"}';
const BUSY = `POST /fail HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${HANG.length}\r\n\r\n${HANG}`;
const ask = (port: number, headers: Record<string, string> = {}) => rawRequest(port, { path: '/notes', headers });

describe('connections that do nothing', () => {
  test('do not lock a caller out: the oldest is closed for a new one', async () => {
    const app = await startWith({ max: 8, reserved: 0, perAddress: 8 });
    const dead = await Promise.all(Array.from({ length: 8 }, () => open(app.port)));
    await expect.poll(async () => (await ask(app.port)).status).toBe(200);
    await expect.poll(() => dead.some((socket) => socket.readableEnded || socket.destroyed)).toBe(true);
  });

  test('are destroyed when their header does not come in time, also when the other end never closes', async () => {
    const app = await startWith({ max: 8, reserved: 0, perAddress: 8 }, { headersTimeoutMs: 200 });
    const silent = await open(app.port);
    const slow = await open(app.port, 'GET /notes HTTP/1.1\r\nhost: loc');
    await Promise.all([silent, slow].map(destroyed));
  });

  test('that sent nonsense are destroyed too', async () => {
    const app = await startWith({ max: 8, reserved: 0, perAddress: 8 });
    const socket = await open(app.port, 'no http at all\r\n\r\n');
    await destroyed(socket);
  });
});

describe('when all connections are busy', () => {
  test('a new one is refused with 503 and Retry-After, alone or in a burst', async () => {
    const app = await startWith({ max: 4, reserved: 0, perAddress: 4 });
    for (let at = 0; at < 4; at += 1) await open(app.port, BUSY);
    const answers = await Promise.all(Array.from({ length: 60 }, () => ask(app.port)));
    for (const answer of answers) {
      expect([answer.status, answer.headers['retry-after'], answer.headers.connection]).toEqual([503, '2', 'close']);
      expect(answer.json()).toMatchObject({ code: 'overloaded' });
    }
    opened.pop()?.destroy();
    await expect.poll(async () => (await ask(app.port)).status).toBe(200);
  });

  test('a caller with a valid token gets a reserved place, others and false tokens do not', async () => {
    const security = { authenticate: createTokenCheck({ right: 'admin' }), trustLoopback: true };
    const app = await startWith({ max: 4, reserved: 1, perAddress: 4 }, { security });
    for (let at = 0; at < 3; at += 1) await open(app.port, BUSY);
    expect((await ask(app.port)).status).toBe(503);
    expect((await ask(app.port, { authorization: 'Bearer wrong' })).status).toBe(503);
    expect((await ask(app.port, { authorization: 'Bearer right' })).status).toBe(200);
  });

  test('the limit is one for all servers that share it', async () => {
    const shared = { connections: new Connections({ max: 4, reserved: 0, perAddress: 4 }), unread: new UnreadAnswers() };
    const [one, other] = await Promise.all([startNotes({ shared }), startNotes({ shared })]);
    closers.push(one.close, other.close);
    for (let at = 0; at < 4; at += 1) await open(one.port, BUSY);
    expect((await ask(other.port)).status).toBe(503);
  });
});

const elsewhere = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

test.skipIf(elsewhere === undefined)('one address holds no more than its share, and does not keep others out', async () => {
  const shared = { connections: new Connections({ max: 16, reserved: 0, perAddress: 2 }), unread: new UnreadAnswers() };
  const security = { authenticate: createTokenCheck({ right: 'admin' }), trustLoopback: true };
  const { createHttpServer } = await import('../../src/http/server.ts');
  const { noteHandlers, noteOperations } = await import('../helpers/notes-app.ts');
  const { silentLogger } = await import('../../src/core/logger.ts');
  const server = createHttpServer({
    operations: noteOperations,
    handlers: noteHandlers,
    security,
    title: 'Notes',
    version: '1',
    log: silentLogger,
    shared,
  });
  const { port } = await server.listen('0.0.0.0', 0);
  closers.push(() => server.close());
  const authorized = BUSY.replace('\r\n\r\n', '\r\nauthorization: Bearer right\r\n\r\n');
  for (let at = 0; at < 2; at += 1) await open(port, authorized, elsewhere);
  const third = await open(port, authorized, elsewhere);
  const [text] = (await once(third, 'data')) as [Buffer];
  expect(String(text)).toMatch(/^HTTP\/1\.1 503/);
  expect((await ask(port)).status).toBe(200);
});

test.each([
  [256, { max: 96, reserved: 10, perAddress: 24 }],
  [1_024, { max: 736, reserved: 74, perAddress: 184 }],
  [1_048_576, { max: CONNECTIONS_MAX, reserved: 1_000, perAddress: 2_500 }],
  [Number.POSITIVE_INFINITY, { max: CONNECTIONS_MAX, reserved: 1_000, perAddress: 2_500 }],
  [40, { max: 16, reserved: 2, perAddress: 4 }],
])('with %d file descriptors the limits are %j', (descriptors, limits) => {
  expect(connectionLimits(descriptors)).toEqual(limits);
});

test.each([
  ['::1', '::1'],
  ['10.0.0.1', '10.0.0.1'],
  ['::ffff:10.0.0.1', '::ffff:10.0.0.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8::1', '2001:db8:0:0'],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
