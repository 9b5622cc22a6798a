import { beforeEach, describe, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { fieldsOf } from '../../src/contract/input-check.ts';
import type { Operation } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';

/** Operations a token for one agent may use without naming it: they show nothing of any agent. A new operation is in here or names one. */
const NEUTRAL = [
  'daemonHealth daemonOpenapi whoami listAgents runtimeConfig hookSynthesisConfig',
  'health healthLive healthReady info runtimeOpenapi listProviders providerStatus listModels',
  'listMachines machineGraph machineMermaid listRuntimeAgents socket',
].flatMap((line) => line.split(' '));
/** Routes of a key that read what the caller's own agent left under it, whoever lives there now. */
const OWN_LINE = ['getTranscript', 'getContinuity'];
const AGENT_FIELDS = ['agentId', 'agent', 'fromAgentId', 'agent_id', 'from_agent_id'];
/** What an operation asks for before it looks whose session that is. */
const REQUIRED: Readonly<Record<string, Record<string, unknown>>> = {
  setBypass: { enabled: true },
  prompt: { content: 'x' },
  decideApproval: { decision: 'once' },
  diffSessions: { with: 'nothing_here' },
  sessionStateAt: { at: '1' },
  trimSession: { keepTurns: 1 },
};
const OUTSIDE = /^the token is for the (?:agent|project) /;

let rig: AuthRig;
/** Session of the agent `default`. */
let foreign: string;
let token: string;
beforeEach(async () => {
  rig = await startGuarded('auth: { mode: team }\nagents: { roster: [{ name: dot }] }\n');
  foreign = (await rig.ask('POST', `${rig.runtimeUrl}/session`, rig.localToken, { sessionKey: 'foreign-key' })).body.id;
  token = (await rig.makeToken({ role: 'admin', agent: 'dot' })).token;
});

const url = (operation: Operation, values: Record<string, string>): string => {
  const base = operation.path.startsWith('/api/') || operation.path.startsWith('/memory/') ? rig.daemonUrl : rig.runtimeUrl;
  return base + operation.path.replace(/:([A-Za-z]+)/g, (_all, name: string) => values[name] ?? 'nothing_here');
};

async function send(operation: Operation, given: Record<string, string>, bearer = token): Promise<{ status: number; detail: string }> {
  const { names } = fieldsOf(operation.input);
  const known = Object.entries({ ...given, ...REQUIRED[operation.id] }).filter(([name]) => names.has(name));
  const fields = Object.fromEntries(known) as Record<string, string>;
  const inPath = [...operation.path.matchAll(/:([A-Za-z]+)/g)].map((match) => match[1]!);
  const rest = Object.fromEntries(Object.entries(fields).filter(([name]) => !inPath.includes(name)));
  const hasBody = operation.method !== 'GET' && operation.method !== 'DELETE';
  const query = hasBody ? '' : `?${new URLSearchParams(rest)}`;
  const controller = new AbortController();
  const response = await fetch(url(operation, fields) + query, {
    method: operation.method,
    headers: { authorization: `Bearer ${bearer}`, ...(hasBody ? { 'content-type': 'application/json' } : {}) },
    ...(hasBody ? { body: JSON.stringify(rest) } : {}),
    signal: controller.signal,
  });
  const isProblem = response.headers.get('content-type')?.startsWith('application/problem+json');
  const detail = isProblem ? ((await response.json()) as { detail: string }).detail : '';
  controller.abort();
  return { status: response.status, detail };
}

const TABLE = [...Object.values(daemonOperations), ...Object.values(runtimeOperations)] as readonly Operation[];

test('a token for one agent can name no other, in any operation', async () => {
  for (const operation of TABLE) {
    const { names } = fieldsOf(operation.input);
    for (const field of AGENT_FIELDS.filter((name) => names.has(name))) {
      const { status, detail } = await send(operation, { [field]: 'default', id: foreign });
      expect([operation.id, field, status, OUTSIDE.test(detail)]).toEqual([operation.id, field, 403, true]);
    }
  }
});

test("nor can it use what goes over all agents, or is another one's session", async () => {
  for (const operation of TABLE) {
    const { names } = fieldsOf(operation.input);
    if (NEUTRAL.includes(operation.id)) {
      expect([operation.id, OUTSIDE.test((await send(operation, {})).detail)]).toEqual([operation.id, false]);
      continue;
    }
    const isSession = operation.path.startsWith('/session/:id') || operation.path.startsWith('/api/sessions/:key');
    if (OWN_LINE.includes(operation.id)) {
      expect([operation.id, OUTSIDE.test((await send(operation, { key: 'foreign-key' })).detail)]).toEqual([operation.id, false]);
      continue;
    }
    if (!isSession && AGENT_FIELDS.some((name) => names.has(name))) continue;
    const { status, detail } = await send(operation, { id: foreign, key: 'foreign-key', sessionKey: 'foreign-key', name: 'default' });
    expect([operation.id, status, OUTSIDE.test(detail)]).toEqual([operation.id, 403, true]);
  }
});

test('what an agent left under a key stays its own to read when another one lives there', async () => {
  const miles = (await rig.makeToken({ role: 'operator', agent: 'miles' })).token;
  const hook = (bearer: string, name: string, more: object = {}) =>
    rig.ask('POST', `${rig.daemonUrl}/api/hooks/${name}`, bearer, { harness: 'test', sessionKey: 'shared', ...more });
  const left = (bearer: string, path: string) => rig.ask('GET', `${rig.daemonUrl}/api/sessions/shared/${path}`, bearer);
  await hook(token, 'session-start');
  const transcript = [{ role: 'user', content: 'The tide turns at six.' }];
  expect((await hook(token, 'session-end', { transcript })).status).toBe(200);
  expect((await hook(miles, 'session-start')).status).toBe(200);
  for (const query of ['', '?agentId=dot']) {
    expect((await left(token, `transcript${query}`)).body).toMatchObject({ agentId: 'dot', total: 1 });
    expect((await left(token, `continuity${query}`)).body).toMatchObject({ agentId: 'dot' });
  }
  const found = await rig.ask('POST', `${rig.daemonUrl}/api/sessions/search`, token, { query: 'tide', sessionKey: 'shared' });
  expect([found.status, found.body.count]).toEqual([200, 1]);
  // Neither the one who lives there nor a name opens what another agent left.
  expect((await left(miles, 'transcript')).status).toBe(404);
  expect((await left(miles, 'transcript?agentId=dot')).status).toBe(403);
});

describe('within its agent', () => {
  const ask = (method: string, path: string, body?: unknown, headers?: Record<string, string>) =>
    rig.ask(method, `${path.startsWith('/api') ? rig.daemonUrl : rig.runtimeUrl}${path}`, token, body, headers);

  test('sessions are its own, and others are not seen', async () => {
    const created = await ask('POST', '/session', {});
    expect(created.body).toMatchObject({ agent: 'dot' });
    const { id } = created.body;
    expect((await ask('GET', `/session/${id}`)).status).toBe(200);
    expect((await ask('GET', '/session')).body.items.map((item: { id: string }) => item.id)).toEqual([id]);
    expect((await ask('GET', `/session/${id}/diff?with=${foreign}`)).status).toBe(403);
    for (const field of ['parentId', 'resume'])
      expect([field, (await ask('POST', '/session', { [field]: foreign })).status]).toEqual([field, 403]);
    expect((await ask('POST', '/session', { sessionKey: 'foreign-key' })).status).toBe(403);
    expect((await ask('GET', '/session/nobody_knows_this')).status).toBe(404);
    expect((await ask('GET', '/approvals')).status).toBe(403);
    expect((await ask('GET', `/approvals?session=${id}`)).status).toBe(200);
  });

  test('memories are its own, and hooks speak for it', async () => {
    const content = 'The blue lamp belongs to dot.';
    expect((await ask('POST', '/api/memory/remember', { content, scope: 'private' })).status).toBe(200);
    const mine = await ask('POST', '/api/memory/recall', { query: 'blue lamp' });
    expect(mine.body.results).toMatchObject([{ content }]);
    const theirs = await rig.ask('POST', `${rig.daemonUrl}/api/memory/recall`, rig.localToken, { query: 'blue lamp', agentId: 'default' });
    expect(theirs.body.results).toEqual([]);
    expect((await ask('POST', '/api/memory/recall', { query: 'x' }, { 'x-signet-agent-id': 'default' })).status).toBe(403);
    // An empty agent is none: the token's stands in its place.
    for (const agentId of ['', null])
      expect((await ask('POST', '/api/memory/recall', { query: 'blue lamp', agentId })).body.results).toMatchObject([{ content }]);
    expect((await ask('GET', '/api/memories?agentId=')).body.memories).toMatchObject([{ content }]);
    expect((await ask('POST', '/api/memory/remember', { content: 'The red lamp too.', agentId: '' })).body.agentId).toBe('dot');

    const hook = (name: string, body: object) => ask('POST', `/api/hooks/${name}`, { harness: 'test', ...body });
    expect((await hook('session-start', { sessionKey: 'mine' })).status).toBe(200);
    expect((await ask('GET', '/api/sessions/mine')).body).toMatchObject({ agentId: 'dot' });
    expect((await ask('GET', '/api/sessions')).body.sessions).toMatchObject([{ key: 'mine' }]);
    for (const sessionKey of ['foreign-key', 'session:foreign-key', 'agent:default:main']) {
      expect([sessionKey, (await hook('session-end', { sessionKey })).status]).toEqual([sessionKey, 403]);
    }
    expect((await ask('POST', '/api/sessions/mine/bypass', { enabled: true })).body).toEqual({ key: 'mine', bypassed: true });
  });

  test('a socket follows and drives its own sessions alone', async () => {
    const { id } = (await ask('POST', '/session', {})).body;
    const socket = new WebSocket(`${rig.runtimeUrl.replace('http', 'ws')}/ws?token=${token}`);
    const answers = new Map<number, { ok: boolean }>();
    socket.addEventListener('message', ({ data }) => {
      const message = JSON.parse(String(data));
      if (message.re !== undefined) answers.set(message.re, message);
    });
    await new Promise((resolve) => socket.addEventListener('open', resolve));
    const ops = ['sub', 'abort', 'prompt', 'bypass'];
    const more = { content: 'x', enabled: true };
    ops.forEach((op, index) => {
      const { content, enabled } = more;
      const fields = { ...(op === 'prompt' ? { content } : {}), ...(op === 'bypass' ? { enabled } : {}) };
      socket.send(JSON.stringify({ id: index, op, session: foreign, ...fields }));
    });
    socket.send(JSON.stringify({ id: 9, op: 'sub', session: id }));
    await expect.poll(() => answers.size, { timeout: 20_000 }).toBe(5);
    expect(ops.map((_op, index) => answers.get(index))).toMatchObject(ops.map(() => ({ ok: false, error: { code: 'forbidden' } })));
    expect(answers.get(9)).toMatchObject({ ok: true });
    socket.close();
  });

  test('MCP speaks for it', async () => {
    const rpc = (name: string, args: object, headers = {}) =>
      rig.ask(
        'POST',
        `${rig.daemonUrl}/mcp`,
        token,
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } },
        {
          accept: 'application/json, text/event-stream',
          ...headers,
        },
      );
    expect((await rpc('memory_store', { content: 'Dot keeps bees.' })).body.result).not.toHaveProperty('isError', true);
    const found = await ask('POST', '/api/memory/recall', { query: 'bees' });
    expect(found.body.results).toMatchObject([{ content: 'Dot keeps bees.', agentId: 'dot' }]);
    expect(JSON.stringify((await rpc('agent_peers', { agent_id: 'default' })).body)).toContain('the token is for the agent dot');
    expect(JSON.stringify((await rpc('secret_list', {})).body)).toContain('the token is for the agent dot');
  });
});

test('a token for one project reaches that project alone', async () => {
  const { token: bearer } = await rig.makeToken({ role: 'operator', project: '/work/app' });
  const ask = (method: string, path: string, body?: unknown) =>
    rig.ask(method, `${path.startsWith('/api') ? rig.daemonUrl : rig.runtimeUrl}${path}`, bearer, body);
  const { body } = await ask('POST', '/session', {});
  expect(body).toMatchObject({ project: '/work/app' });
  expect((await ask('GET', `/session/${body.id}`)).status).toBe(200);
  expect((await ask('GET', `/session/${foreign}`)).status).toBe(403);
  expect((await ask('POST', '/session', { project: '/work/other' })).status).toBe(403);
  expect((await ask('POST', '/api/memory/remember', { content: 'The app speaks French.' })).body).toMatchObject({ id: expect.any(String) });
  expect((await ask('GET', '/api/memories?project=/work/other')).status).toBe(403);
  expect((await ask('GET', '/api/memories')).body.memories).toMatchObject([{ project: '/work/app' }]);
  // A session key says which agent asks, and limits no memory to a project.
  const { id } = (
    await rig.ask('POST', `${rig.daemonUrl}/api/memory/remember`, rig.localToken, { content: 'of another', project: '/work/other' })
  ).body;
  expect((await ask('GET', `/api/memory/${id}?sessionKey=k`)).status).toBe(404);
  expect((await ask('PATCH', `/api/memory/${id}`, { sessionKey: 'k', reason: 'test', pinned: true })).status).toBe(404);
  expect((await rig.ask('GET', `${rig.daemonUrl}/memory/similar?id=${id}&sessionKey=k`, bearer)).status).toBe(404);
  expect((await ask('POST', '/api/memory/forget', { id, reason: 'test' })).status).toBe(404);
  expect((await ask('GET', '/api/logs')).status).toBe(403);
  expect((await ask('GET', '/health')).status).toBe(200);
});
