import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createAdapter, daemonUrlOf, type RuntimeAdapter, serverUrl } from '../../src/client/adapter.ts';
import { createRuntimeAdapterServer } from '../../src/client/adapter-server.ts';

interface Seen {
  path: string;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
}

let url: string;
let seen: Seen[];
let close: () => Promise<void>;

/** A daemon as far as the wire goes: notes what it is asked. */
beforeEach(async () => {
  seen = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    seen.push({ path: request.url ?? '', headers: request.headers, body: JSON.parse(text) });
    const claimed = (JSON.parse(text) as { sessionKey?: string }).sessionKey === 'claimed';
    if (claimed) {
      response.writeHead(409, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ code: 'session_claimed', detail: 'the plugin owns it', status: 409 }));
    } else
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ inject: 'remember the tea', memories: [], memoryCount: 0 }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  close = () => new Promise((resolve) => server.close(() => resolve()));
});
afterEach(() => close());

test('each lifecycle event is one daemon call that names the harness', async () => {
  const adapter = createAdapter('openclaw', `${url}/`);

  const start = await adapter.onSessionStart({ sessionKey: 's1', project: '/p' });
  await adapter.onUserPromptSubmit({ sessionKey: 's1', prompt: 'hi' });
  const ended = await adapter.onSessionEnd({ sessionKey: 's1' });
  await adapter.onPreCompaction({ sessionKey: 's1', messageCount: 3 });
  await adapter.onCompactionComplete({ sessionKey: 's1', summary: 'all of it' });
  await adapter.remember({ sessionKey: 's1', content: 'likes tea' });
  await adapter.recall({ sessionKey: 's1', query: 'tea' });

  expect(start.inject).toBe('remember the tea');
  expect(ended).toBeUndefined();
  expect(seen.map(({ path }) => path)).toEqual([
    '/api/hooks/session-start',
    '/api/hooks/user-prompt-submit',
    '/api/hooks/session-end',
    '/api/hooks/pre-compaction',
    '/api/hooks/compaction-complete',
    '/api/hooks/remember',
    '/api/hooks/recall',
  ]);
  expect(seen[0]?.body).toEqual({ sessionKey: 's1', project: '/p', harness: 'openclaw' });
  expect(seen.every(({ body, headers }) => body.harness === 'openclaw' && headers['x-signet-actor'] === 'openclaw')).toBe(true);
});

test('the daemon is found by the environment', () => {
  expect(daemonUrlOf({})).toBe('http://127.0.0.1:3850');
  expect(daemonUrlOf({ SIGNET_PORT: '4000', SIGNET_HOST: 'localhost' })).toBe('http://localhost:4000');
  expect(daemonUrlOf({ SIGNET_HOST: '', SIGNET_PORT: '' })).toBe('http://127.0.0.1:3850');
  expect(daemonUrlOf({ SIGNET_DAEMON_URL: 'http://signet:9', SIGNET_PORT: '4000' })).toBe('http://signet:9');
  expect(serverUrl('0.0.0.0', 1)).toBe('http://127.0.0.1:1');
  expect(serverUrl('::1', 1)).toBe('http://[::1]:1');
});

test('the HTTP face passes parameters and answers through, refusals with their code', async () => {
  const server = await createRuntimeAdapterServer(createAdapter('codex', url));
  try {
    const submit = await post(`${server.url}/user-prompt-submit`, { sessionKey: 's1', prompt: 'hi' });
    const end = await post(`${server.url}/session-end`, { sessionKey: 's1' });
    const claimed = await post(`${server.url}/session-start`, { sessionKey: 'claimed' });
    const health = await fetch(`${server.url}/health`);

    expect([submit.status, submit.body.inject]).toEqual([200, 'remember the tea']);
    expect([end.status, end.body]).toEqual([200, { success: true }]);
    expect([claimed.status, claimed.body.code]).toEqual([409, 'session_claimed']);
    expect(await health.json()).toEqual({ status: 'healthy', harness: 'codex' });
    expect(seen.map(({ body }) => body.harness)).toEqual(['codex', 'codex', 'codex']);
  } finally {
    await server.close();
  }
});

test('the HTTP face turns away web pages, other media types, broken bodies and unknown paths', async () => {
  const server = await createRuntimeAdapterServer(createAdapter('codex', url));
  try {
    const { url: base } = server;
    expect((await post(`${base}/session-start`, {}, { origin: 'https://evil.example' })).body.code).toBe('origin_forbidden');
    expect((await post(`${base}/session-start`, {}, { 'content-type': 'text/plain' })).body.code).toBe('unsupported_media_type');
    expect((await post(`${base}/session-start`, '{')).body.code).toBe('invalid_json');
    expect((await post(`${base}/session-start`, '[]')).body.code).toBe('invalid_request');
    expect((await post(`${base}/constructor`, {})).body.code).toBe('not_found');
    expect(seen).toEqual([]);
  } finally {
    await server.close();
  }
});

test('a fault of the adapter is answered without its text', async () => {
  const broken = { harness: 'mine', onSessionStart: () => Promise.reject(new Error('password 1234')) } as unknown as RuntimeAdapter;
  const server = await createRuntimeAdapterServer(broken);
  try {
    const answer = await post(`${server.url}/session-start`, {});
    expect([answer.status, answer.body.code]).toEqual([500, 'internal']);
    expect(JSON.stringify(answer.body)).not.toContain('1234');
    await expect(createRuntimeAdapterServer(broken, { port: Number(new URL(server.url).port) })).rejects.toMatchObject({
      code: 'port_taken',
    });
  } finally {
    await server.close();
  }
});

async function post(to: string, body: unknown, headers: Record<string, string> = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await fetch(to, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: text });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}
