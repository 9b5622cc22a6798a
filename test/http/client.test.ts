import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDaemonClient } from '../../src/client/daemon-client.ts';
import { createHttpTransport } from '../../src/client/http-transport.ts';
import { createInProcessTransport } from '../../src/client/in-process.ts';
import type { Operation } from '../../src/contract/operation.ts';
import { AppError } from '../../src/core/errors.ts';
import type { Call, CallOptions } from '../../src/core/operation-call.ts';
import { noteHandlers, noteOperations, startNotes } from '../helpers/notes-app.ts';

let app: Awaited<ReturnType<typeof startNotes>>;
let overHttp: Call;
const inProcess = createInProcessTransport(noteOperations, noteHandlers);
beforeAll(async () => {
  app = await startNotes();
  overHttp = createHttpTransport({ baseUrl: `${app.url}/` });
});
afterAll(() => app.close());

/** What a caller can see of one call. */
async function outcome(call: Call, operation: Operation, input: unknown, options?: CallOptions): Promise<unknown> {
  try {
    return { answer: await call(operation, input, options) };
  } catch (error) {
    if (!(error instanceof AppError)) return { thrown: error };
    return { code: error.code, detail: error.detail, errors: error.errors, retryAfterMs: error.retryAfterMs, extra: error.extra };
  }
}

const ops = noteOperations;
const CALLS: [name: string, operation: Operation, input: unknown, expected: object][] = [
  [
    'a path that needs encoding',
    ops.addNote,
    { shelf: 'a/b ?#%ü', content: 'tea' },
    { answer: { shelf: 'a/b ?#%ü', content: 'tea', kind: 'idea' } },
  ],
  [
    'a query field beside a body',
    ops.addNote,
    { shelf: 's', content: 'x', dry: true },
    { answer: { shelf: 's', content: 'x', kind: 'idea', dry: true } },
  ],
  [
    'fields that are undefined',
    ops.addNote,
    { shelf: 's', content: 'x', stars: undefined, odd: undefined },
    { answer: { shelf: 's', content: 'x', kind: 'idea' } },
  ],
  ['a query', ops.findNotes, { word: 'ä&b=c', limit: 5, open: false }, { answer: { word: 'ä&b=c', limit: 5, open: false } }],
  ['no input at all', ops.findNotes, {}, { answer: { limit: 10 } }],
  ['an empty answer', ops.dropNote, { shelf: 'a' }, { answer: undefined }],
  ['text', ops.plainNote, {}, { answer: 'plain words' }],
  ['another success', ops.failNote, { how: 'accepted' }, { answer: { how: 'accepted' } }],
  ['a missing field', ops.addNote, { shelf: 's' }, { code: 'invalid_request', detail: 'content is required (string)' }],
  ['many faults', ops.addNote, { shelf: 's', stars: 'x', kind: 'poem', hue: 1 }, { code: 'invalid_request', errors: { length: 4 } }],
  ['a query out of range', ops.findNotes, { limit: 101 }, { code: 'invalid_request', errors: [{ pointer: '/limit' }] }],
  [
    'an unknown field of a strict schema',
    ops.strictNote,
    { shelf: 's', hue: 1 },
    { code: 'invalid_request', errors: [{ pointer: '/hue' }] },
  ],
  ['unknown fields of an old client', ops.oldNote, { content: 'x', hue: 1 }, { answer: { content: 'x' } }],
  ['retry-after', ops.failNote, { how: 'busy' }, { code: 'session_busy', retryAfterMs: 1_200 }],
  ['extra members', ops.failNote, { how: 'conflict' }, { code: 'id_conflict', extra: { head: 4 } }],
  ['a bug', ops.failNote, { how: 'bug' }, { code: 'internal', detail: 'internal error; the log has the cause' }],
  ['a deadline', ops.failNote, { how: 'hang' }, { code: 'timeout', detail: 'failNote was not answered within 150 ms' }],
  ['a missing record', ops.dropNote, { shelf: 'none' }, { code: 'not_found', detail: 'no shelf none' }],
];

test.each(CALLS)('both transports answer the same: %s', async (_name, operation, input, expected) => {
  const remote = await outcome(overHttp, operation, input, { timeoutMs: 150 });
  const local = await outcome(inProcess, operation, input, { timeoutMs: 150 });
  expect(remote).toMatchObject(expected);
  expect(local).toEqual(remote);
});

test.each([
  ['http', () => overHttp],
  ['in process', () => inProcess],
])('a caller that gives up gets its own reason back: %s', async (_name, transport) => {
  const reason = new Error('changed my mind');
  const before = AbortSignal.abort(reason);
  await expect(transport()(ops.plainNote, {}, { signal: before })).rejects.toBe(reason);
  const controller = new AbortController();
  const call = transport()(ops.failNote, { how: 'hang' }, { signal: controller.signal });
  setImmediate(() => controller.abort(reason));
  await expect(call).rejects.toBe(reason);
});

test('the handler of an in-process call sees headers and the abort of its caller', async () => {
  const controller = new AbortController();
  const aborted = Promise.withResolvers<string>();
  const call = createInProcessTransport(noteOperations, {
    plainNote: (_input, context) => {
      context.signal.addEventListener('abort', () => aborted.resolve(`${context.header('X-Odd')} ${context.client}`));
      return new Promise<string>(() => {});
    },
  });
  const pending = call(ops.plainNote, {}, { signal: controller.signal, headers: { 'x-odd': 'yes' } });
  controller.abort(new Error('gone'));
  await expect(pending).rejects.toThrow('gone');
  expect(await aborted.promise).toBe('yes in-process');
  await expect(call(ops.oldNote, { content: 'x' })).rejects.toMatchObject({ code: 'not_found' });
});

describe('over HTTP', () => {
  test('nobody there is daemon_unreachable', async () => {
    const gone = await startNotes();
    await gone.close();
    const daemon = createDaemonClient({ baseUrl: gone.url });
    expect(daemon.baseUrl).toBe(gone.url);
    await expect(daemon.call(ops.plainNote, {})).rejects.toMatchObject({
      code: 'daemon_unreachable',
      detail: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('a field of the path cannot become another path', async () => {
    for (const shelf of ['..', '.', ''])
      await expect(overHttp(ops.dropNote, { shelf })).rejects.toMatchObject({ code: 'invalid_request', errors: [{ pointer: '/shelf' }] });
    await expect(overHttp(ops.dropNote, { shelf: '../notes' })).resolves.toBeUndefined();
  });

  test('answers of strangers become errors by their status', async () => {
    const answers = [
      { status: 502, body: '<html>', code: 'daemon_unreachable' },
      { status: 429, body: '', code: 'rate_limited' },
      { status: 418, body: '{"code":"teapot","detail":"short and stout"}', code: 'invalid_request' },
      { status: 200, body: '<html>', code: 'internal' },
    ];
    const server = createServer((_request, response) => {
      const next = answers[Number(response.req.headers['x-at'])]!;
      response.writeHead(next.status, { 'retry-after': '3' }).end(next.body);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const call = createHttpTransport({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    for (const [at, answer] of answers.entries())
      await expect(call(ops.openapi, {}, { headers: { 'x-at': String(at) } })).rejects.toMatchObject({ code: answer.code });
    await expect(call(ops.openapi, {}, { headers: { 'x-at': '1' } })).rejects.toMatchObject({ retryAfterMs: 3_000 });
    server.close();
    server.closeAllConnections();
  });

  test('token and headers are sent, and a connection is used again', async () => {
    const sockets = new Set<unknown>();
    const seen: (string | undefined)[] = [];
    const server = createServer((request, response) => {
      sockets.add(request.socket);
      seen.push(`${request.headers.authorization} ${request.headers['x-a']} ${request.headers['content-type']}`);
      response.end('{}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const call = createHttpTransport({ baseUrl, token: 't0', headers: { 'x-a': '1' } });
    for (let at = 0; at < 5; at += 1) await call(ops.oldNote, { content: 'x' });
    expect(seen[0]).toBe('Bearer t0 1 application/json');
    // A second one is opened at times because the first is not free yet when the answer is read.
    expect(sockets.size).toBeLessThanOrEqual(2);
    server.closeAllConnections();
    server.close();
  });
});
