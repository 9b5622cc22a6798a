import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { SocketWriter } from '../../src/http/websocket.ts';
import { openDeafReader, rawRequest } from '../helpers/raw-http.ts';
import { startStreams } from '../helpers/stream-app.ts';

const UPGRADE = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
};

/** The platform's own client; `close` resolves with the code. */
async function dial(url: string) {
  const socket = new WebSocket(url.replace('http', 'ws'));
  const messages: string[] = [];
  const closed = once(socket, 'close').then(([event]) => event as CloseEvent);
  socket.addEventListener('message', (event) => messages.push(String(event.data)));
  await once(socket, 'open');
  return { socket, messages, closed };
}

const echo = (_input: unknown, _context: unknown, socket: SocketWriter) => {
  socket.send('hello');
  socket.onMessage((text) => void socket.send(`re ${text}`));
};

test('messages go both ways, and early ones wait for the listener', async () => {
  const ready = Promise.withResolvers<void>();
  const app = await startStreams({
    talk: async (_input, _context, socket) => {
      socket.send(Buffer.from('hello'));
      await ready.promise;
      socket.onMessage((text) => void socket.send(`re ${text}`));
    },
  });
  const { socket, messages } = await dial(`${app.url}/talk`);
  socket.send('1');
  socket.send('grüße');
  ready.resolve();
  while (messages.length < 3) await once(socket, 'message');
  expect(messages).toEqual(['hello', 're 1', 're grüße']);
  socket.close();
  await app.close();
});

describe('before the upgrade', () => {
  test.each([
    ['a foreign origin', { origin: 'http://evil.example' }, 403, 'origin_forbidden'],
    ['origin null', { origin: 'null' }, 403, 'origin_forbidden'],
    ['a foreign host', { host: 'evil.example' }, 421, 'host_forbidden'],
  ])('%s is refused', async (_name, headers, status, code) => {
    const app = await startStreams({ talk: echo });
    const answer = await rawRequest(app.port, { path: '/talk', headers: { ...UPGRADE, ...headers } });
    expect([answer.status, answer.json().code]).toEqual([status, code]);
    await app.close();
  });

  test('input and token are checked, and a plain GET is told to upgrade', async () => {
    const app = await startStreams({ talk: echo, security: { authenticate: (token) => (token === 't1' ? 'readonly' : undefined) } });
    const ask = (path: string) => rawRequest(app.port, { path, headers: UPGRADE });
    expect((await ask('/talk')).status).toBe(401);
    expect((await ask('/talk?token=t1&odd=1')).json()).toMatchObject({ status: 400, errors: [{ pointer: '/odd' }] });
    expect((await rawRequest(app.port, { path: '/talk?token=t1' })).status).toBe(426);
    const { messages, socket } = await dial(`${app.url}/talk?token=t1`);
    if (messages.length === 0) await once(socket, 'message');
    expect(messages).toEqual(['hello']);
    await app.close();
  });

  test('an own origin is let in, an unknown path is not', async () => {
    const app = await startStreams({ talk: echo });
    const own = await openDeafReader(app.port, '/talk', { ...UPGRADE, origin: `http://127.0.0.1:${app.port}` });
    own.resume();
    const [bytes] = (await once(own, 'data')) as [Buffer];
    expect(bytes.toString('latin1')).toMatch(/^HTTP\/1.1 101 /);
    own.destroy();
    expect((await rawRequest(app.port, { path: '/nowhere', headers: UPGRADE })).status).toBe(404);
    await app.close();
  });
});

describe('closing', () => {
  test('binary messages are 4400, messages over the limit 1009', async () => {
    const app = await startStreams({ talk: echo });
    const binary = await dial(`${app.url}/talk`);
    binary.socket.send(new Uint8Array([1]));
    expect((await binary.closed).code).toBe(4400);
    const large = await dial(`${app.url}/talk`);
    large.socket.send('x'.repeat(65_537));
    expect((await large.closed).code).toBe(1009);
    await app.close();
  });

  test('the 65th command in flight is 4429', async () => {
    const started: string[] = [];
    const app = await startStreams({
      talk: (_input, _context, socket) =>
        socket.onMessage((text) => {
          started.push(text);
          return new Promise(() => {});
        }),
    });
    const { socket, closed } = await dial(`${app.url}/talk`);
    for (let at = 0; at < 65; at += 1) socket.send(String(at));
    expect((await closed).code).toBe(4429);
    expect(started.length).toBe(64);
    await app.close();
  });

  test('a bug in a command is 1011 without its message; the end of the server is 1001', async () => {
    const app = await startStreams({
      talk: (_input, _context, socket) =>
        socket.onMessage(() => {
          throw new TypeError('secret');
        }),
    });
    const { socket, closed } = await dial(`${app.url}/talk`);
    socket.send('x');
    expect(await closed).toMatchObject({ code: 1011, reason: 'internal error' });
    const other = await dial(`${app.url}/talk`);
    await app.close();
    expect((await other.closed).code).toBe(1001);
  });

  test('a reader that never reads stops the producer and is closed after the stall limit', async () => {
    const result = Promise.withResolvers<{ bytes: number; refused: number }>();
    const text = 'x'.repeat(16_000);
    const app = await startStreams({
      limits: { stallTimeoutMs: 200 },
      talk: async (_input, _context, socket) => {
        let bytes = 0;
        let refused = 0;
        while (!socket.closed.aborted) {
          bytes += text.length;
          if (socket.send(text)) continue;
          refused += 1;
          await socket.drained();
        }
        result.resolve({ bytes, refused });
      },
    });
    const deaf = await openDeafReader(app.port, '/talk', UPGRADE);
    const { bytes, refused } = await result.promise;
    expect(refused).toBeGreaterThan(0);
    expect(bytes).toBeLessThan(16_000_000);
    deaf.destroy();
    await app.close();
  });

  test('a handler learns that its client has gone', async () => {
    const gone = Promise.withResolvers<void>();
    const app = await startStreams({ talk: (_input, context) => context.signal.addEventListener('abort', () => gone.resolve()) });
    const { socket } = await dial(`${app.url}/talk`);
    socket.close();
    await gone.promise;
    await app.close();
  });
});
