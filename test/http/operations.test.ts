import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Logger } from '../../src/core/logger.ts';
import type { RequestContext } from '../../src/core/operation-call.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { noteHandlers, startNotes } from '../helpers/notes-app.ts';
import { rawBytes, rawRequest } from '../helpers/raw-http.ts';

const logged: { fields: Record<string, unknown>; message: string }[] = [];
const keep = (fields: object, message: string) => void logged.push({ fields: fields as Record<string, unknown>, message });
const log: Logger = { debug: keep, info: keep, warn: keep, error: keep };

let app: Awaited<ReturnType<typeof startNotes>>;
beforeAll(async () => {
  app = await startNotes({ log });
});
afterAll(() => app.close());

const send = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
  const init = body === undefined ? {} : { body: JSON.stringify(body) };
  const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(`${app.url}${path}`, { method, headers: { ...type, ...headers }, ...init });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {},
  };
};

describe('input', () => {
  test('path, query and body become one flat, validated object with defaults', async () => {
    const answer = await send('POST', '/notes/a%2Fb%20c?dry=1', { content: 'tea' });
    expect(answer.status).toBe(201);
    expect(answer.body).toEqual({ shelf: 'a/b c', content: 'tea', kind: 'idea', dry: true });
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect((await send('GET', '/notes?limit=7&open=no&word=x')).body).toEqual({ limit: 7, open: false, word: 'x' });
  });

  test('a body cannot point the operation at another record', async () => {
    const refused = await send('POST', '/notes/mine', { content: 'tea', shelf: 'yours' });
    expect(refused.body).toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/shelf' }] });
    expect((await send('POST', '/notes/mine', { content: 'tea', shelf: 'mine' })).body.shelf).toBe('mine');
    expect((await send('DELETE', '/notes/mine?shelf=yours')).status).toBe(400);
  });

  test('faults name field, pointer and fix', async () => {
    const answer = await send('POST', '/notes/a', { stars: 9, kind: 'poem', labels: [{ nome: 'x' }], 'od/d~': 1 });
    expect(answer.status).toBe(400);
    expect(answer.body.errors).toEqual([
      { pointer: '/od~1d~0', detail: 'unknown field od/d~; the fields are shelf, content, stars, kind, labels, dry' },
      { pointer: '/content', detail: 'content is required (string)' },
      { pointer: '/stars', detail: 'stars: Too big: expected number to be <=5' },
      { pointer: '/kind', detail: 'kind must be one of idea, fact' },
      { pointer: '/labels/0/name', detail: 'labels[0].name is required (string)' },
      { pointer: '/labels/0/nome', detail: 'unknown field labels[0].nome; leave it out' },
    ]);
    expect(answer.body.error).toBe(answer.body.detail);
    expect(answer.body.detail).toContain('5 more fields are wrong');
  });

  test('many faults and long names do not make a long answer', async () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`f${n}`, n]));
    for (const [method, path] of [
      ['POST', '/notes/a'],
      ['PATCH', '/notes/a'],
    ] as const) {
      const { body } = await send(method, path, many);
      expect(body.errors).toHaveLength(20);
      expect(body.detail).toMatch(/; (99|1\d\d) more fields are wrong/);
    }
    const long = await send('POST', '/notes/a', { content: 'x', ['x'.repeat(1_000)]: 1 });
    expect(long.body.errors).toMatchObject([{ pointer: `/${'x'.repeat(200)}…` }]);
    expect(JSON.stringify(long.body).length).toBeLessThan(2_000);
  });

  test('unknown fields are refused by strict and plain schemas, in body and query, and ignored for old clients', async () => {
    expect((await send('PATCH', '/notes/a', { colour: 1 })).body).toMatchObject({ errors: [{ pointer: '/colour' }] });
    expect((await send('GET', '/notes?colour=1')).body).toMatchObject({ errors: [{ pointer: '/colour' }] });
    expect((await send('POST', '/notes/a?colour=1', { content: 'x' })).body).toMatchObject({ errors: [{ pointer: '/colour' }] });
    expect((await send('POST', '/old?colour=1', { content: 'x', colour: 2 })).body).toEqual({ content: 'x' });
  });

  test('a body that is no object is refused, an empty one is an empty object', async () => {
    expect((await send('POST', '/notes/a', [1])).body.detail).toBe('the body must be a JSON object, not an array');
    expect((await send('POST', '/notes/a', null)).body.detail).toBe('the body must be a JSON object, not null');
    const empty = await send('POST', '/notes/a', undefined, { 'content-type': 'application/json' });
    expect(empty.body).toMatchObject({ errors: [{ pointer: '/content' }] });
  });

  test('DELETE takes its fields from the query, from a JSON body, or has none', async () => {
    expect((await send('DELETE', '/notes/a?reason=old')).status).toBe(204);
    expect((await send('DELETE', '/notes/a', { reason: 'old' })).status).toBe(204);
    expect((await send('DELETE', '/notes/a', undefined, { 'content-type': 'application/json' })).status).toBe(204);
    expect((await send('DELETE', '/notes/a', { raison: 'old' })).status).toBe(400);
  });
});

describe('answers', () => {
  test('a handler chooses another 2xx, or text of its own type', async () => {
    expect((await send('POST', '/fail', { how: 'accepted' })).status).toBe(202);
    const plain = await send('GET', '/plain');
    expect([plain.text, plain.headers.get('content-type')]).toEqual(['plain words', 'text/plain; charset=utf-8']);
  });

  test('expected failures keep code, extra members and Retry-After in whole seconds', async () => {
    const busy = await send('POST', '/fail', { how: 'busy' });
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([429, '2']);
    expect(busy.body).toMatchObject({
      code: 'session_busy',
      retryAfterMs: 1_200,
      error: 'holds 16 turns',
      type: expect.stringMatching(/session_busy$/),
    });
    expect((await send('POST', '/fail', { how: 'conflict' })).body).toMatchObject({ code: 'id_conflict', head: 4 });
  });

  test('a bug is answered without its message and logged with it', async () => {
    const bug = await send('POST', '/fail', { how: 'bug' }, { 'x-request-id': 'find-me' });
    expect(bug.status).toBe(500);
    expect(bug.body).toMatchObject({ code: 'internal', requestId: 'find-me' });
    expect(bug.text).not.toContain('shadow');
    const entry = logged.find((line) => line.fields.requestId === 'find-me');
    expect(String(entry?.fields.err)).toContain('/etc/shadow');
  });

  test('an unknown path and a wrong method are problems that say what is there', async () => {
    const unknown = await send('POST', '/nowhere', { a: 1 });
    expect([unknown.status, unknown.body.code]).toEqual([404, 'not_found']);
    const method = await send('PUT', '/notes/a', {});
    expect([method.status, method.body.code]).toEqual([404, 'not_found']);
    expect(method.body.allow).toEqual(['POST', 'PATCH', 'DELETE']);
    expect((await send('GET', '/notes/%zz')).body).toMatchObject({ status: 400, code: 'invalid_request' });
    expect((await send('POST', `/notes/${'k'.repeat(600)}`, { content: 'x' })).status).toBe(201);
  });

  test('request id and traceparent come back; unusable ids are replaced', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const answer = await send('GET', '/notes', undefined, { 'x-request-id': 'abc-1', traceparent });
    expect([answer.headers.get('x-request-id'), answer.headers.get('traceparent')]).toEqual(['abc-1', traceparent]);
    const odd = await send('GET', '/notes', undefined, { 'x-request-id': 'a b', traceparent: 'nonsense' });
    expect(odd.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{12}_[0-9a-z]+$/);
    expect(odd.headers.get('traceparent')).toBeNull();
  });

  test('what is not HTTP is told so', async () => {
    const answer = (await rawBytes(app.port, ['NONSENSE\r\n\r\n'])).toString();
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"code":"invalid_request"');
  });
});

test('the signal of a handler aborts when its caller goes away, and not when it was answered', async () => {
  const seen = Promise.withResolvers<AbortSignal>();
  const gone = Promise.withResolvers<void>();
  const other = await startNotes({
    handlers: {
      ...noteHandlers,
      failNote: ({ how }, context) => {
        seen.resolve(context.signal);
        context.signal.addEventListener('abort', () => gone.resolve());
        return how === 'hang' ? new Promise(() => {}) : { how };
      },
    },
  });
  try {
    const socket = connect(other.port, '127.0.0.1');
    await once(socket, 'connect');
    const body = '{"how":"hang"}';
    socket.write(
      `POST /fail HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    expect((await seen.promise).aborted).toBe(false);
    socket.destroy();
    await gone.promise;
  } finally {
    await other.close();
  }
});

test('the signal of an answered request stays quiet', async () => {
  let signal: AbortSignal | undefined;
  const plainNote = (_input: object, context: RequestContext) => {
    signal = context.signal;
    return 'x';
  };
  const other = await startNotes({ handlers: { ...noteHandlers, plainNote } });
  await rawRequest(other.port, { path: '/plain' });
  await other.close();
  expect(signal?.aborted).toBe(false);
});

describe('start and stop', () => {
  test('a taken port is named together with the setting to change', async () => {
    const squatter = createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    const { port } = squatter.address() as { port: number };
    const server = createHttpServer({
      operations: {},
      handlers: {},
      security: {},
      title: 't',
      version: '1',
      log,
      portSetting: '--port or SIGNET_PORT',
    });
    const failure = await server.listen('127.0.0.1', port).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'port_taken', detail: expect.stringContaining(String(port)) });
    expect(failure).toMatchObject({ detail: expect.stringContaining('--port or SIGNET_PORT') });
    squatter.close();
  });

  test('an operation without a handler is found before anything is bound', async () => {
    await expect(startNotes({ handlers: { plainNote: () => 'x' } })).rejects.toThrow('addNote has no handler');
  });

  test('closing does not wait for a request that hangs', async () => {
    const other = await startNotes();
    const hanging = rawBytes(other.port, [
      'POST /fail HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"how":"hang"}',
    ]);
    await rawRequest(other.port, { path: '/plain' });
    await other.close();
    expect((await hanging).length).toBe(0);
    await expect(rawRequest(other.port, { path: '/plain' })).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('raw routes pass the gate and speak for themselves', async () => {
    const other = await startNotes({
      rawRoutes: [
        {
          methods: ['GET', 'POST'],
          path: '/raw/*',
          role: 'agent',
          handle: (request, response, body) => void response.end(JSON.stringify({ url: request.url, body })),
        },
      ],
    });
    const headers = { 'content-type': 'application/json' };
    const answer = await rawRequest(other.port, { method: 'POST', path: '/raw/x?y=1', headers, body: '{"a":1}' });
    expect(answer.json()).toEqual({ url: '/raw/x?y=1', body: { a: 1 } });
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(answer.headers['content-security-policy']).toContain("frame-ancestors 'none'");
    expect((await rawRequest(other.port, { path: '/raw/x', headers: { origin: 'http://evil.example' } })).status).toBe(403);
    expect(
      (await rawRequest(other.port, { method: 'POST', path: '/raw/x', headers: { 'content-type': 'text/plain' }, body: 'x' })).status,
    ).toBe(415);
    await other.close();
  });
});
