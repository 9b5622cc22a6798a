import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type Rig, startRig } from '../e2e/rig.ts';
import { rawRequest } from '../helpers/raw-http.ts';

const MIB = 1_048_576;

let rig: Rig;
let id: string;
let port: number;
beforeAll(async () => {
  rig = await startRig({ yaml: 'agents: { roster: [{ name: scout }] }\n' });
  ({ id } = await rig.client.session.create({}));
  port = Number(new URL(rig.runtimeUrl).port);
});
afterAll(() => rig.close());

interface Refused {
  readonly status: number;
  readonly code: string;
  readonly pointers: string[];
  readonly detail: string;
}

async function refusal(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Refused> {
  const response = await fetch(rig.runtimeUrl + path.replace(':id', id), {
    method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  expect(response.headers.get('content-type')).toMatch(/^application\/problem\+json/);
  const problem = (await response.json()) as {
    code: string;
    status: number;
    detail: string;
    error: string;
    errors?: { pointer: string }[];
  };
  // Clients of old read `error`; every problem says the same in both.
  expect([problem.status, problem.error]).toEqual([response.status, problem.detail]);
  return {
    status: response.status,
    code: problem.code,
    pointers: (problem.errors ?? []).map(({ pointer }) => pointer),
    detail: problem.detail,
  };
}

/** fetch names a type by itself, so this goes over a socket. */
async function untyped(path: string, body: string, headers: Record<string, string> = {}): Promise<{ status: number; code: unknown }> {
  const answer = await rawRequest(port, { method: 'POST', path: path.replace(':id', id), body, headers });
  return { status: answer.status, code: answer.json().code };
}

describe('what is not there is 404 or 400 with its own code', () => {
  test.each<[string, string, unknown, number, string]>([
    ['GET', '/session/ses_unknown', undefined, 404, 'session_not_found'],
    ['DELETE', '/session/ses_unknown', undefined, 404, 'session_not_found'],
    ['POST', '/session/ses_unknown/prompt', { content: 'Hello?' }, 404, 'session_not_found'],
    ['POST', '/session/ses_unknown/abort', {}, 404, 'session_not_found'],
    ['GET', '/session/ses_unknown/messages', undefined, 404, 'session_not_found'],
    ['GET', '/session/ses_unknown/events', undefined, 404, 'session_not_found'],
    ['POST', '/session', { agent: 'nobody' }, 400, 'unknown_agent'],
    ['POST', '/session', { provider: 'nobody' }, 400, 'unknown_provider'],
    ['POST', '/session', { provider: 'demo', model: 'other' }, 400, 'unknown_model'],
    ['POST', '/session', { parentId: 'ses_unknown' }, 404, 'session_not_found'],
    ['POST', '/session/:id/prompt', { content: 'Hello?', provider: 'nobody' }, 400, 'unknown_provider'],
    ['GET', '/providers/nobody/status', undefined, 404, 'provider_not_found'],
    ['GET', '/machines/nothing/graph', undefined, 404, 'machine_not_found'],
    ['POST', '/tools/nothing', { input: {} }, 404, 'tool_not_found'],
    ['DELETE', '/tools/nothing', undefined, 404, 'tool_not_found'],
    ['GET', '/nowhere', undefined, 404, 'not_found'],
  ])('%s %s %j', async (method, path, body, status, code) => {
    expect(await refusal(method, path, body)).toMatchObject({ status, code });
  });

  test('and an unknown agent is told which there are', async () => {
    expect((await refusal('POST', '/session', { agent: 'nobody' })).detail).toContain('known: default, scout');
  });
});

verifies('runtime.session.get.unknown', async () => {
  expect(await refusal('GET', '/session/ses_unknown')).toMatchObject({ status: 404, code: 'session_not_found' });
});

verifies('runtime.session.prompt.content', async () => {
  for (const body of [{}, { content: '' }, { content: ' \n\t ' }, { content: 7 }])
    expect(await refusal('POST', '/session/:id/prompt', body)).toMatchObject({
      status: 400,
      code: 'invalid_request',
      pointers: ['/content'],
    });
});

describe('a body that does not fit names the place', () => {
  test.each<[string, string, unknown, string]>([
    ['POST', '/session/:id/prompt', { content: 'Hello?', delivery: 'throw' }, '/delivery'],
    [
      'POST',
      '/session/:id/prompt',
      { content: 'Hello?', attachments: [{ type: 'image', mediaType: 'image/tiff', data: '' }] },
      '/attachments/0/mediaType',
    ],
    [
      'POST',
      '/session/:id/prompt',
      { content: 'Hello?', attachments: [{ type: 'image', mediaType: 'image/png', data: '' }] },
      '/attachments/0/data',
    ],
    ['POST', '/session/:id/prompt', { content: 'Hello?', output: { schema: { type: 'objekt' } } }, '/output/schema'],
    ['POST', '/session/:id/prompt', { content: 'Hello?', timeoutMs: 0 }, '/timeoutMs'],
    ['POST', '/session/:id/abort', { clearQueue: 'yes please' }, '/clearQueue'],
    ['PATCH', '/session/:id', { titel: 'x' }, '/titel'],
    ['POST', '/tools', { name: 'x y', description: '', inputSchema: {}, callback: { url: 'http://127.0.0.1/' } }, '/name'],
  ])('%s %s %j', async (method, path, body, pointer) => {
    const refused = await refusal(method, path, body);
    expect(refused).toMatchObject({ status: 400, code: 'invalid_request' });
    expect(refused.pointers).toContain(pointer);
  });

  test('with the field and what would be right, where several forms are taken', async () => {
    const tool = { name: 'x', description: 'd', inputSchema: {}, callback: { url: 'http://127.0.0.1:1/' } };
    expect(await refusal('POST', '/tools', { ...tool, class: 'nice' })).toMatchObject({
      pointers: ['/class'],
      detail: 'class must be one of pure, idempotent, probe, unsafe',
    });
    expect(await refusal('POST', '/tools', { ...tool, mcpServer: 'files' })).toMatchObject({
      pointers: ['/mcpServer'],
      detail: 'mcpServer does not go together with the other fields; leave it out',
    });
    expect(await refusal('POST', '/tools', { name: 'x' })).toMatchObject({ pointers: ['/description', '/inputSchema', '/callback'] });
    expect(await refusal('POST', '/session/:id/prompt', { content: 'x', attachments: [{ type: 'video' }] })).toMatchObject({
      pointers: ['/attachments/0/type'],
      detail: 'attachments[0].type must be one of text, image',
    });
    expect(await refusal('GET', '/session?limit=abc')).toMatchObject({ pointers: ['/limit'], detail: 'limit must be a number' });
  });

  test('query parameters too', async () => {
    expect(await refusal('GET', '/session?limit=0')).toMatchObject({ status: 400, code: 'invalid_request', pointers: ['/limit'] });
    expect(await refusal('GET', '/session?cursor=nonsense')).toMatchObject({ status: 400, code: 'invalid_cursor' });
    expect(await refusal('GET', '/session/:id/events?events=a:***')).toMatchObject({ status: 400, code: 'invalid_pattern' });
  });
});

describe('a body that is', () => {
  test('no JSON is refused with the position', async () => {
    const refused = await refusal('POST', '/session/:id/prompt', '{"content": "Hello?"');
    expect(refused).toMatchObject({ status: 400, code: 'invalid_json' });
    expect(refused.detail).toMatch(/position \d+/);
  });

  test.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])('%s is refused', async (type) => {
    expect(await refusal('POST', '/session/:id/prompt', '{"content":"Hello?"}', { 'content-type': type })).toMatchObject({
      status: 415,
      code: 'unsupported_media_type',
    });
  });

  test('without a type is JSON on routes of the specification, unless a web page sends it', async () => {
    const body = '{"content":"Hello?","provider":"nobody"}';
    expect(await untyped('/session', '{"title":"untyped"}')).toMatchObject({ status: 201 });
    expect(await untyped('/session/:id/prompt', body)).toMatchObject({ status: 400, code: 'unknown_provider' });
    expect(await untyped('/session/:id/prompt', body, { origin: rig.runtimeUrl })).toMatchObject({
      status: 415,
      code: 'unsupported_media_type',
    });
    expect(await untyped('/session/:id/wait', '{}')).toMatchObject({ status: 415 });
  });

  test('a prompt of 2 MB is refused for its length, one of 13 MB for its size', async () => {
    expect(await refusal('POST', '/session/:id/prompt', { content: 'x'.repeat(2 * MIB) })).toMatchObject({
      status: 400,
      code: 'invalid_request',
      pointers: ['/content'],
    });
    const answer = await rawRequest(port, {
      method: 'POST',
      path: `/session/${id}/prompt`,
      headers: { 'content-type': 'application/json', 'content-length': String(13 * MIB) },
      body: Buffer.alloc(0),
    });
    expect([answer.status, answer.json().code]).toEqual([413, 'payload_too_large']);
  });

  test('larger than 1 MiB is refused elsewhere', async () => {
    expect(await refusal('POST', '/session', { title: 'x'.repeat(MIB) })).toMatchObject({ status: 413, code: 'payload_too_large' });
  });
});

test.each([
  [{ host: 'evil.example' }, 421, 'host_forbidden'],
  [{ origin: 'http://evil.example' }, 403, 'origin_forbidden'],
  [{ origin: 'null' }, 403, 'origin_forbidden'],
])('a request with %j is refused', async (headers, status, code) => {
  const answer = await rawRequest(port, { path: `/session/${id}`, headers: headers as Record<string, string> });
  expect([answer.status, answer.json().code, answer.headers['content-type']]).toEqual([
    status,
    code,
    'application/problem+json; charset=utf-8',
  ]);
});

test('an id is taken once: the same body is the same session, another body a conflict', async () => {
  const create = (title: string) =>
    fetch(`${rig.runtimeUrl}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ id: 'ses_mine', title }),
    });
  const [first, again, other] = [await create('Tea'), await create('Tea'), await create('Milk')];
  expect([first.status, again.status, other.status]).toEqual([201, 200, 409]);
  expect(await again.json()).toMatchObject({ id: 'ses_mine', title: 'Tea' });
  expect(await other.json()).toMatchObject({ code: 'id_conflict' });
});

test('nothing of all this has reached the model', () => {
  expect(rig.model.requests).toEqual([]);
});
