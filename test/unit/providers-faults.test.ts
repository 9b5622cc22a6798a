import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../src/contract/errors.ts';
import { AppError } from '../../src/core/errors.ts';
import type { Message, Provider } from '../../src/core/provider.ts';
import { createAnthropicProvider } from '../../src/providers/anthropic.ts';
import { createOpenaiProvider } from '../../src/providers/openai.ts';
import { createOpenaiCompatibleProvider } from '../../src/providers/openai-compatible.ts';
import type { ProviderSettings } from '../../src/providers/settings.ts';
import type { Fault, Reply } from '../helpers/model-server/reply.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';

const HELLO: readonly Message[] = [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }];
const KEY = 'sk-test-0123456789abcdef';
const STALL_MS = 200;
/** Where silence is not under test; unit: milliseconds. */
const PATIENT_MS = 20_000;

const WIRES: readonly { name: string; path: string; create: (settings: ProviderSettings) => Provider }[] = [
  { name: 'anthropic', path: '', create: createAnthropicProvider },
  { name: 'openai', path: '/v1', create: createOpenaiProvider },
  { name: 'openai-compatible', path: '/v1', create: createOpenaiCompatibleProvider },
];

const OUTCOMES: readonly { promise: string; fault: Fault; code: ErrorCode; retryAfterMs?: number }[] = [
  {
    promise: '429 is an overload with its retry-after in seconds',
    fault: { kind: 'status', status: 429, headers: { 'retry-after': '7' } },
    code: 'provider_overloaded',
    retryAfterMs: 7_000,
  },
  {
    promise: 'retry-after-ms goes before retry-after',
    fault: { kind: 'status', status: 429, headers: { 'retry-after': '7', 'retry-after-ms': '250' } },
    code: 'provider_overloaded',
    retryAfterMs: 250,
  },
  {
    promise: 'retry-after: 0 is kept',
    fault: { kind: 'status', status: 429, headers: { 'retry-after': '0' } },
    code: 'provider_overloaded',
    retryAfterMs: 0,
  },
  {
    promise: 'an endless retry-after is cut to ten minutes',
    fault: { kind: 'status', status: 503, headers: { 'retry-after': '999999' } },
    code: 'provider_overloaded',
    retryAfterMs: 600_000,
  },
  {
    promise: '529 is an overload, and x-should-retry is not obeyed',
    fault: { kind: 'status', status: 529, headers: { 'x-should-retry': 'true' } },
    code: 'provider_overloaded',
  },
  {
    promise: '429 without quota is refused: waiting does not help',
    fault: { kind: 'status', status: 429, code: 'insufficient_quota', type: 'insufficient_quota' },
    code: 'provider_refused',
  },
  { promise: '400 is refused', fault: { kind: 'status', status: 400 }, code: 'provider_refused' },
  { promise: '401 is refused', fault: { kind: 'status', status: 401 }, code: 'provider_refused' },
  { promise: '403 is refused', fault: { kind: 'status', status: 403 }, code: 'provider_refused' },
  { promise: '404 is refused', fault: { kind: 'status', status: 404 }, code: 'provider_refused' },
  {
    promise: 'a redirect is refused, not followed',
    fault: { kind: 'status', status: 307, headers: { location: 'http://127.0.0.1:1/' } },
    code: 'provider_refused',
  },
  { promise: '413 is a context overflow', fault: { kind: 'status', status: 413 }, code: 'context_overflow' },
  { promise: 'a conversation that is too long is a context overflow', fault: { kind: 'overflow' }, code: 'context_overflow' },
  { promise: '500 is a failure', fault: { kind: 'status', status: 500 }, code: 'provider_failed' },
  {
    promise: '502 with a page of HTML is a failure',
    fault: { kind: 'status', status: 502, body: '<html>bad gateway</html>' },
    code: 'provider_failed',
  },
  { promise: 'a cut before the headers is a failure', fault: { kind: 'cut-before-headers' }, code: 'provider_failed' },
  { promise: 'a cut before the first delta is a cut stream', fault: { kind: 'cut' }, code: 'provider_stream_cut' },
  { promise: 'a cut after three deltas is a cut stream', fault: { kind: 'cut', after: 3 }, code: 'provider_stream_cut' },
  { promise: 'a clean end without the final event is a cut stream', fault: { kind: 'end', after: 3 }, code: 'provider_stream_cut' },
  { promise: 'silence before the headers is a timeout', fault: { kind: 'stall-before-headers' }, code: 'provider_timeout' },
  { promise: 'silence after the headers is a timeout', fault: { kind: 'stall' }, code: 'provider_timeout' },
  { promise: 'silence after two deltas is a timeout', fault: { kind: 'stall', after: 2 }, code: 'provider_timeout' },
  { promise: 'an event that is no JSON is malformed', fault: { kind: 'bad-json', after: 1 }, code: 'provider_malformed' },
  { promise: 'an event that is null is malformed', fault: { kind: 'bad-json', after: 1, data: 'null' }, code: 'provider_malformed' },
  { promise: '200 with HTML is malformed', fault: { kind: 'html' }, code: 'provider_malformed' },
  { promise: '200 without a byte is malformed', fault: { kind: 'empty' }, code: 'provider_malformed' },
  {
    promise: 'an overload inside the stream is an overload',
    fault: { kind: 'error-event', after: 1, error: 'overloaded' },
    code: 'provider_overloaded',
  },
  {
    promise: 'a server error inside the stream is a failure',
    fault: { kind: 'error-event', after: 1, error: 'server' },
    code: 'provider_failed',
  },
  {
    promise: 'an overflow inside the stream is a context overflow',
    fault: { kind: 'error-event', error: 'overflow' },
    code: 'context_overflow',
  },
];

const UNKNOWN_MODEL = [
  [404, { type: 'not_found_error', message: 'model: nope' }],
  [404, { type: 'invalid_request_error', code: 'model_not_found', message: 'The model `nope` does not exist' }],
  [400, { type: 'invalid_request_error', code: 'model_not_found', message: "The requested model 'nope' does not exist." }],
  [404, { type: 'NotFoundError', code: 404, message: 'The model `nope` does not exist.' }],
  [404, { type: 'api_error', message: 'model "nope" not found, try pulling it first' }],
] as const;

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer();
});
afterAll(() => server.close());
afterEach(() => server.respond(() => undefined));

async function failure(work: Promise<unknown>): Promise<AppError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof AppError)) throw new Error(`expected an AppError, got ${String(error)}`);
  return error;
}

describe.each(WIRES)('faults of $name', ({ path, create }) => {
  const provider = (stallTimeoutMs = STALL_MS) =>
    create({ id: 'p', apiKey: KEY, baseUrl: `${server.url}${path}`, model: 'm', stallTimeoutMs });
  const lastRequest = () => server.requests.at(-1)!;

  it.each(OUTCOMES)('$promise', async ({ fault, code, retryAfterMs }) => {
    const before = server.requests.length;
    server.script([{ fault }]);

    const error = await failure(provider(fault.kind.startsWith('stall') ? STALL_MS : PATIENT_MS).complete(HELLO));

    expect(error.code).toBe(code);
    expect(error.retryAfterMs).toBe(retryAfterMs);
    expect(server.requests.length - before).toBe(1); // the SDK did not try again
    await lastRequest().closed;
  });

  it('tells an unknown model from other refusals, in the words of each service', async () => {
    for (const [status, error] of UNKNOWN_MODEL) {
      server.script([{ fault: { kind: 'status', status, body: JSON.stringify({ error }) } }]);
      const { code, detail, retryable } = await failure(provider().complete(HELLO));
      expect([error, code, retryable]).toEqual([error, 'unknown_model', false]);
      expect(detail).toMatch(/nope.*GET \/models/);
    }
    server.script([{ fault: { kind: 'status', status: 404, body: '{"error":{"type":"not_found_error","message":"Not found"}}' } }]);
    expect((await failure(provider().complete(HELLO))).code).toBe('provider_refused');
  });

  it('keeps what came before a cut as chunks', async () => {
    server.script([{ text: 'one two three four', fault: { kind: 'cut', after: 2 } }]);
    let text = '';

    const error = await failure(
      (async () => {
        for await (const chunk of provider().stream(HELLO)) if (chunk.type === 'text') text += chunk.text;
      })(),
    );

    expect(text).toBe('one two ');
    expect(error.code).toBe('provider_stream_cut');
  });

  it('closes the socket of a stalled answer', async () => {
    server.script([{ fault: { kind: 'stall', after: 1 } }]);

    await failure(provider().complete(HELLO));

    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it.each([
    ['comments', ': PROCESSING\n\n'],
    ['pings', 'event: ping\ndata: {"type": "ping"}\n\n'],
    ['empty chunks', 'data: {"choices":[{"delta":{"content":""}}]}\n\n'],
  ])('takes %s for silence, before and behind a part of the answer', async (kind, text) => {
    // Each service has its own way to show that it lives.
    const isOurs = kind === 'comments' || (kind === 'pings') === path.includes('anthropic');
    if (!isOurs || (kind === 'empty chunks' && !path.includes('chat'))) return;
    for (const after of [0, 1]) {
      server.script([{ text: 'a b c', fault: { kind: 'pings', after, text, everyMs: STALL_MS / 10 } }]);
      expect((await failure(provider().complete(HELLO))).code).toBe('provider_timeout');
      expect(await lastRequest().closed).toEqual({ aborted: true });
    }
  });

  it.each([
    ['that it is at work', { responses: 'response.in_progress', messages: 'content_block_start', chat: null }],
    ['what no one knows', { responses: 'response.search.searching', messages: 'novelty', chat: 'novelty' }],
    ['empty parts', { responses: 'response.output_text.delta', messages: 'content_block_delta', chat: null }],
  ])('takes events that say %s for silence', async (_what, types) => {
    const type = types[path.includes('anthropic') ? 'messages' : path.includes('chat') ? 'chat' : 'responses'];
    if (type === null) return;
    const event = { type, delta: type === 'content_block_delta' ? { type: 'text_delta', text: '' } : '', index: 0 };
    const text = `event: ${type}\ndata: ${JSON.stringify({ ...event, content_block: { type: 'text', text: '' } })}\n\n`;
    server.script([{ text: 'a b c', fault: { kind: 'pings', after: 1, text, everyMs: STALL_MS / 10 } }]);
    expect((await failure(provider().complete(HELLO))).code).toBe('provider_timeout');
    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it('takes one event that drips and never ends for silence', async () => {
    server.script([{ text: 'a b c', fault: { kind: 'pings', after: 1, text: `data: ${'x'.repeat(200)}`, everyMs: STALL_MS / 10 } }]);
    expect((await failure(provider().complete(HELLO))).code).toBe('provider_timeout');
    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it('does not take slow deltas for silence', async () => {
    server.script([{ text: 'a b c', delayMs: STALL_MS * 0.4 }]);
    expect((await provider().complete(HELLO)).content).toBe('a b c');
  });

  it('does not take a slow reader for silence', async () => {
    server.script([{ text: 'a b c', delayMs: 5 }]);
    let text = '';
    for await (const chunk of provider().stream(HELLO)) {
      if (chunk.type !== 'text') continue;
      // The time itself is under test: the reader rests once for longer than the stall limit.
      if (text === '') await new Promise((resolve) => setTimeout(resolve, STALL_MS * 1.5));
      text += chunk.text;
    }
    expect(text).toBe('a b c');
  });

  it('throws the reason of an abort in the middle and closes the socket', async () => {
    server.script([{ fault: { kind: 'stall', after: 1 } }]);
    const controller = new AbortController();
    const reason = new Error('the user stopped the turn');
    const read = async () => {
      for await (const chunk of provider().stream(HELLO, { signal: controller.signal }))
        if (chunk.type === 'text') controller.abort(reason);
    };

    await expect(read()).rejects.toBe(reason);

    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it('throws the reason of an abort before the headers and closes the socket', async () => {
    server.gate();
    const controller = new AbortController();
    const reason = new Error('too late');
    const work = provider().complete(HELLO, { signal: controller.signal });
    const rejection = expect(work).rejects.toBe(reason);
    const held = await server.next();
    controller.abort(reason);

    await rejection;

    expect(await held.request.closed).toEqual({ aborted: true });
    server.open();
  });

  it('sends nothing when the signal is aborted already', async () => {
    const before = server.requests.length;
    const reason = new Error('never mind');
    await expect(provider().complete(HELLO, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.requests.length).toBe(before);
  });

  it('closes the socket when the reader stops early', async () => {
    server.script([{ fault: { kind: 'stall', after: 1 } }]);
    for await (const _ of provider().stream(HELLO)) break;
    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it('gives the whole answer of a server that never ends its response, and closes the socket', async () => {
    server.script([{ text: 'all of it', fault: { kind: 'stall', after: 1_000 } }]);
    const patient = create({ id: 'p', apiKey: KEY, baseUrl: `${server.url}${path}`, model: 'm' });
    expect(await patient.complete(HELLO)).toMatchObject({ content: 'all of it', usage: { inputTokens: 10, outputTokens: 5 } });
    expect(await lastRequest().closed).toEqual({ aborted: true });
  });

  it('says connection refused without waiting', async () => {
    const port = await freePort();
    const gone = create({ id: 'p', apiKey: KEY, baseUrl: `http://127.0.0.1:${port}${path}`, model: 'm' });
    const error = await failure(gone.complete(HELLO));
    expect(error.code).toBe('provider_failed');
    expect(error.detail).toBe(`p: no connection to http://127.0.0.1:${port} (ECONNREFUSED)`);
  });

  it('never repeats a key in a message', async () => {
    const message = `Incorrect API key provided: ${KEY}; header was Bearer ${KEY} or sk-live-abcdefgh1234`;
    server.script([{ fault: { kind: 'status', status: 401, message } }]);
    const error = await failure(provider().complete(HELLO));
    expect(JSON.stringify([error.detail, error.message, error.stack, error.cause])).not.toMatch(/0123456789abcdef|abcdefgh1234/);
    expect(error.detail).toContain('Incorrect API key provided: [redacted]');
  });

  it.each<[string, Reply]>([
    ['CRLF line ends', { text: 'Grüße, 世界 🎉', crlf: true }],
    ['bytes split inside characters', { text: 'Grüße, 世界 🎉', bytesPerWrite: 3 }],
  ])('reads %s', async (_name, reply) => {
    server.script([reply]);
    expect((await provider(PATIENT_MS).complete(HELLO)).content).toBe('Grüße, 世界 🎉');
  });
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
