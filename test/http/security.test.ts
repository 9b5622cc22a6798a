import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { silentLogger } from '../../src/core/logger.ts';
import { createTokenCheck } from '../../src/http/security.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { type NotesServerOptions, noteHandlers, noteOperations, startNotes } from '../helpers/notes-app.ts';
import { rawRequest } from '../helpers/raw-http.ts';

const OPTIONS: NotesServerOptions = {
  security: { hosts: ['signet.lan'], origins: ['https://app.example', 'http://localhost:5173'] },
};
let app: Awaited<ReturnType<typeof startNotes>>;
beforeAll(async () => {
  app = await startNotes(OPTIONS);
});
afterAll(() => app.close());

const JSON_TYPE = { 'content-type': 'application/json' };
const get = (headers: Record<string, string>) => rawRequest(app.port, { path: '/notes', headers });
const post = (headers: Record<string, string>, body = '{"content":"tea"}', path = '/notes/a') =>
  rawRequest(app.port, { method: 'POST', path, headers, body });

describe('Host', () => {
  test.each(['localhost', 'LOCALHOST:7700', '127.0.0.1', '127.255.0.3:1', '[::1]:3850', '[::1]', 'signet.lan', 'Signet.LAN:80'])(
    '%s is answered',
    async (host) => {
      expect((await get({ host })).status).toBe(200);
    },
  );

  test.each(['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:7700', '128.0.0.1', '[::2]', 'x@localhost', '', '10.0.0.1'])(
    '%j is refused with 421',
    async (host) => {
      const answer = await get({ host });
      expect(answer.status).toBe(421);
      expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/);
      expect(answer.json()).toMatchObject({ code: 'host_forbidden', status: 421 });
    },
  );

  test('an unknown path tells a foreign host nothing', async () => {
    expect((await rawRequest(app.port, { path: '/nowhere', headers: { host: 'evil.example' } })).status).toBe(421);
  });
});

describe('Origin', () => {
  test('the own origin and allow-listed ones are answered, others and null are refused', async () => {
    const host = `127.0.0.1:${app.port}`;
    expect((await post({ ...JSON_TYPE, host, origin: `http://${host}` })).status).toBe(201);
    expect((await post({ ...JSON_TYPE, origin: 'https://app.example' })).status).toBe(201);
    for (const origin of [
      'http://evil.example',
      'null',
      `http://127.0.0.1:${app.port + 1}`,
      `https://${host}`,
      'https://app.example.evil',
    ]) {
      const refused = await post({ ...JSON_TYPE, host, origin });
      expect([origin, refused.status, refused.json().code]).toEqual([origin, 403, 'origin_forbidden']);
      expect(refused.headers).not.toHaveProperty('access-control-allow-origin');
    }
  });

  test('a configured name behind TLS is its own origin', async () => {
    expect((await get({ host: 'signet.lan', origin: 'https://signet.lan' })).status).toBe(200);
  });

  test('a GET from a foreign page is refused as well', async () => {
    expect((await get({ origin: 'http://evil.example' })).status).toBe(403);
  });

  test('a cross-site request that hides its origin is refused, unless a person follows a link', async () => {
    expect((await post({ ...JSON_TYPE, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await post({ ...JSON_TYPE, 'sec-fetch-site': 'same-origin' })).status).toBe(201);
    expect((await get({ 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    expect((await get(link)).status).toBe(200);
  });

  test('an allow-listed origin gets its own name, never a star, and a preflight', async () => {
    const answer = await get({ origin: 'http://localhost:5173' });
    expect(answer.headers).toMatchObject({ 'access-control-allow-origin': 'http://localhost:5173', vary: 'origin' });
    const preflight = await rawRequest(app.port, {
      method: 'OPTIONS',
      path: '/notes/a',
      headers: {
        origin: 'https://app.example',
        'access-control-request-method': 'PATCH',
        'access-control-request-headers': 'content-type',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-methods']).toContain('PATCH');
    expect(preflight.headers['access-control-allow-headers']).toContain('content-type');
    const foreign = await rawRequest(app.port, {
      method: 'OPTIONS',
      path: '/notes/a',
      headers: { origin: 'http://evil.example', 'access-control-request-method': 'POST' },
    });
    expect(foreign.status).toBe(403);
  });

  test('a star in the list of origins is refused at start', async () => {
    await expect(startNotes({ security: { origins: ['*'] } })).rejects.toMatchObject({ code: 'config_invalid' });
  });
});

describe('bodies', () => {
  test.each(['application/json', 'application/json; charset=utf-8', 'Application/JSON;charset="UTF-8"'])('%s is read', async (type) => {
    expect((await post({ 'content-type': type })).status).toBe(201);
  });

  test.each([
    'text/plain',
    'text/plain; a=application/json',
    'application/x-www-form-urlencoded',
    'application/json; charset=latin1',
    'application/jsonp',
    'multipart/form-data; boundary=x',
    'nonsense',
  ])('%s is refused with 415, on routes for old clients too', async (type) => {
    for (const path of ['/notes/a', '/old']) {
      const answer = await post({ 'content-type': type }, '{"content":"tea"}', path);
      expect([path, answer.status, answer.json().code]).toEqual([path, 415, 'unsupported_media_type']);
    }
  });

  test('without a type a body is JSON for old clients, but never from a web page and never on new routes', async () => {
    expect((await post({}, '{"content":"tea"}', '/old')).json()).toEqual({ content: 'tea' });
    expect((await post({ origin: 'https://app.example' }, '{"content":"tea"}', '/old')).status).toBe(415);
    expect((await post({})).status).toBe(415);
  });

  test('a body of 2 MB is refused with 413 that names the limit, and the answer arrives whole', async () => {
    const answer = await post(JSON_TYPE, JSON.stringify({ content: 'x'.repeat(2_000_000) }));
    expect(answer.status).toBe(413);
    expect(answer.json()).toMatchObject({ code: 'payload_too_large', limitBytes: 1_048_576 });
    expect(String(answer.json().detail)).toContain('1048576 bytes');
  });

  test('an unannounced body is cut at the limit of its operation', async () => {
    const chunk = `${(2_000).toString(16)}\r\n${'x'.repeat(2_000)}\r\n0\r\n\r\n`;
    const headers = { ...JSON_TYPE, 'transfer-encoding': 'chunked' };
    const answer = await rawRequest(app.port, { method: 'PATCH', path: '/notes/a', headers, body: chunk });
    expect(answer.status).toBe(413);
    expect(answer.json()).toMatchObject({ code: 'payload_too_large', limitBytes: 1_000 });
  });

  test.each([
    ['{"content":"a",}', 'position 15'],
    ['{"content":', 'position 11'],
    ['hello world, this is no JSON at all', 'position 0'],
    [`{"content":"${'y'.repeat(300)}" oops}`, 'position 314'],
  ])('broken JSON is refused with its position: %s', async (body, where) => {
    const answer = await post(JSON_TYPE, body);
    expect(answer.status).toBe(400);
    expect(answer.json().code).toBe('invalid_json');
    expect(String(answer.json().detail)).toContain(where);
  });

  test('deep nesting is refused by name and does not harm the server', async () => {
    for (const depth of [129, 500_000]) {
      const body = `{"content":${'['.repeat(depth - 1)}`.slice(0, 1_048_000);
      const answer = await post(JSON_TYPE, body);
      expect(answer.json()).toMatchObject({ status: 400, code: 'invalid_json' });
      expect(String(answer.json().detail)).toContain('deeper than 128 levels');
    }
    const brackets = JSON.stringify({ content: '[[{{"\\'.repeat(1_000) });
    expect((await post(JSON_TYPE, brackets)).status).toBe(201);
  });

  test('keys that would reach a prototype are refused, however they are written', async () => {
    const poisoned = ['{"__proto__":{"x":1}}', '{"a":[{"\\u005f_proto__":1}]}', '{"constructor":{"prototype":{"x":1}}}'];
    for (const body of poisoned) expect((await post(JSON_TYPE, body)).json()).toMatchObject({ code: 'invalid_json' });
    const words = JSON.stringify({ content: 'the __proto__ of a constructor' });
    expect((await post(JSON_TYPE, words)).status).toBe(201);
    expect((await rawRequest(app.port, { path: '/notes?__proto__=1' })).status).toBe(400);
  });
});

test('every answer carries the security headers', async () => {
  for (const answer of [await get({}), await rawRequest(app.port, { path: '/nowhere' })]) {
    expect(answer.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
    });
  }
});

describe('tokens', () => {
  test('are asked for when there are any, by role, and never in the query of an ordinary call', async () => {
    const authenticate = createTokenCheck({ 'r-1': 'readonly', 'a-1': 'agent' });
    const guarded = await startNotes({ security: { authenticate } });
    try {
      const call = (headers: Record<string, string>, path = '/notes') => rawRequest(guarded.port, { path, headers });
      expect((await call({})).json()).toMatchObject({ status: 401, code: 'unauthorized' });
      expect((await call({ authorization: 'Bearer wrong' })).status).toBe(401);
      expect((await call({}, '/notes?token=r-1')).status).toBe(401);
      expect((await call({ authorization: 'Bearer r-1' })).status).toBe(200);
      const write = (token: string) =>
        rawRequest(guarded.port, { method: 'POST', path: '/old', headers: { authorization: `Bearer ${token}` }, body: '{"content":"x"}' });
      expect((await write('r-1')).json()).toMatchObject({ status: 403, code: 'forbidden' });
      expect((await write('a-1')).status).toBe(200);
    } finally {
      await guarded.close();
    }
  });

  test('an address other machines can reach is not bound without them', async () => {
    const server = createHttpServer({
      operations: noteOperations,
      handlers: noteHandlers,
      security: {},
      title: 'Notes',
      version: '1',
      log: silentLogger,
    });
    await expect(server.listen('0.0.0.0', 0)).rejects.toMatchObject({ code: 'config_invalid' });
    await server.close();
  });
});
