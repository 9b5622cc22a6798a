import { beforeEach, expect, test } from 'vitest';
import { daemonOperations } from '../../src/contract/daemon.ts';
import { type JsonSchema, toJsonSchema } from '../../src/contract/json-schema.ts';
import type { Operation } from '../../src/contract/operation.ts';
import { runtimeOperations } from '../../src/contract/runtime.ts';
import type { Answer } from '../conformance/calls.ts';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';

/** Stands in all that the agent `default` keeps to itself, and in nothing else. */
const CANARY = 'zqcanary';
const ALL = /^the token is for the (?:agent|project) .* and all goes over all of them/;
const CALL_TIMEOUT_MS = 20_000;
const LONG = { timeout: 240_000 };

let rig: AuthRig;
/** Limited to the agent dot, and may do everything for it. */
let token: string;
beforeEach(async () => {
  rig = await startGuarded('auth: { mode: team }\nagents: { roster: [{ name: dot }, { name: rose }] }\n');
  token = (await rig.makeToken({ role: 'admin', agent: 'dot' })).token;
});

const daemon = (method: string, path: string, bearer: string, body?: unknown): Promise<Answer> =>
  rig.ask(method, rig.daemonUrl + path, bearer, body);

interface Field {
  readonly name: string;
  readonly values: readonly unknown[];
}

/** Fields that choose between a few ways of doing it, with all of these ways. */
function choicesOf(operation: Operation): Field[] {
  const schema = toJsonSchema(operation.input, 'input') as JsonSchema & { properties?: Record<string, Record<string, unknown>> };
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]): Field[] => {
    const options = [field, ...((field.anyOf as Record<string, unknown>[] | undefined) ?? [])];
    if (options.some(({ type }) => [type].flat().includes('boolean'))) return [{ name, values: [true, false] }];
    const values = options.flatMap((option) => (option.enum as unknown[] | undefined) ?? ('const' in option ? [option.const] : []));
    return values.length > 0 ? [{ name, values }] : [];
  });
}

/** What makes a call of an operation work; a field that it does not know is left out. */
const FILLED = {
  query: CANARY,
  q: CANARY,
  reason: 'test',
  content: 'x',
  harness: 'test',
  enabled: true,
  decision: 'once',
  title: 'x',
  timeoutMs: 10,
};

test('no flag and no choice of any operation shows what is of another agent', LONG, async () => {
  const theirs = rig.localToken;
  const content = `The ${CANARY} sings at night.`;
  const memory = (await daemon('POST', '/api/memory/remember', theirs, { content, scope: 'private', agentId: 'default' })).body.id;
  await daemon('POST', '/api/documents', theirs, { source: `${CANARY}.md`, content, scope: 'private', agentId: 'default' });
  await daemon('POST', '/api/cross-agent/messages', theirs, { content, fromAgentId: 'default', toAgentId: 'default' });
  await rig.ask('POST', `${rig.runtimeUrl}/session`, theirs, { title: CANARY, sessionKey: 'theirs' });
  const shown: string[] = [];
  const answered = new Set<string>();
  for (const operation of [...Object.values(daemonOperations), ...Object.values(runtimeOperations)] as readonly Operation[]) {
    // Streams are checked as they are read; the agent itself must be there until the end.
    if (operation.stream !== undefined || operation.id === 'deleteAgent') continue;
    for (const { name, values } of choicesOf(operation)) {
      for (const value of values) {
        const { status, text } = await send(operation, { [name]: value }, memory);
        if (status < 300) answered.add(operation.id);
        // What was asked for is told again.
        if (text.replaceAll(`"query":"${CANARY}"`, '').includes(CANARY)) shown.push(`${operation.id} ${name}=${String(value)}`);
      }
    }
  }
  expect(shown).toEqual([]);
  // The walk reached what reads: a call that is refused for its form shows nothing either.
  const reads = [
    'recall',
    'searchMemories',
    'listMemories',
    'exportMemories',
    'listJobs',
    'listAgentMessages',
    'listPresence',
    'listSessions',
  ];
  expect(reads.filter((id) => !answered.has(id))).toEqual([]);
});

async function send(operation: Operation, chosen: Record<string, unknown>, memory: string): Promise<{ status: number; text: string }> {
  const isDaemon = /^\/(?:api|memory)\//.test(operation.path);
  const needsSession = operation.path.startsWith('/session/:id');
  const own = needsSession ? (await rig.ask('POST', `${rig.runtimeUrl}/session`, token, {})).body.id : undefined;
  const inPath: Record<string, string> = { id: own ?? memory, key: 'mine', name: 'dot', sessionKey: 'mine' };
  const path = operation.path.replace(/:([A-Za-z]+)/g, (_all, name: string) => inPath[name] ?? 'nothing_here');
  const schema = toJsonSchema(operation.input, 'input') as { properties?: Record<string, unknown> };
  const known = Object.entries(FILLED).filter(([name]) => schema.properties?.[name] !== undefined && !operation.path.includes(`:${name}`));
  const fields = { ...Object.fromEntries(known), ...chosen };
  const hasBody = operation.method !== 'GET' && operation.method !== 'DELETE';
  const query = hasBody
    ? ''
    : `?${new URLSearchParams(Object.entries(fields).map(([name, value]): [string, string] => [name, String(value)]))}`;
  const response = await fetch((isDaemon ? rig.daemonUrl : rig.runtimeUrl) + path + query, {
    method: operation.method,
    headers: { authorization: `Bearer ${token}`, ...(hasBody ? { 'content-type': 'application/json' } : {}) },
    ...(hasBody ? { body: JSON.stringify(fields) } : {}),
    signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
  });
  return { status: response.status, text: await response.text() };
}

test('an export of everything is refused to a token for one agent, however the flag is written', async () => {
  const content = `The ${CANARY} sings at night.`;
  await daemon('POST', '/api/memory/remember', rig.localToken, { content, scope: 'private', agentId: 'default' });
  for (const all of ['true', '1', 'YES', 'on', '', 'true&all=false']) {
    const { status, body } = await daemon('GET', `/api/memories/export?all=${all}`, token);
    expect([all, status]).toEqual([all, 403]);
    expect(body.detail).toMatch(ALL);
  }
  for (const query of ['', '?all=false', '?all=0', '?all=no']) {
    const { status, body } = await daemon('GET', `/api/memories/export${query}`, token);
    expect([query, status]).toEqual([query, 200]);
    expect(body).not.toContain(CANARY);
  }
  expect((await daemon('GET', '/api/memories/export?all=true', rig.localToken)).body).toContain(CANARY);
});

test('a session that another agent has announced is out of reach', async () => {
  const rose = (await rig.makeToken({ role: 'operator', agent: 'rose' })).token;
  const presence = '/api/cross-agent/presence';
  const announced = { sessionKey: 'dp', harness: 'desk' };
  expect((await daemon('POST', presence, token, announced)).body.presence).toMatchObject({ key: 'dp', agentId: 'dot' });
  for (const sessionKey of ['dp', 'session:dp']) {
    const refusals = [
      await daemon('POST', presence, rose, { ...announced, sessionKey }),
      await daemon('DELETE', `${presence}/${encodeURIComponent(sessionKey)}`, rose),
      await daemon('GET', `/api/cross-agent/messages?sessionKey=${sessionKey}`, rose),
      await daemon('POST', '/api/cross-agent/messages', rose, { fromSessionKey: sessionKey, toAgentId: 'dot', content: 'x' }),
      await daemon('POST', '/api/hooks/session-start', rose, { harness: 'test', sessionKey }),
      await rig.ask('POST', `${rig.runtimeUrl}/session`, rose, { sessionKey }),
    ];
    expect(refusals.map(({ status, body }) => [status, body.code])).toEqual(refusals.map(() => [403, 'forbidden']));
  }
  const unnamed = (await daemon('POST', presence, token, { harness: 'desk' })).body.presence.key;
  expect((await daemon('DELETE', `${presence}/${encodeURIComponent(unnamed)}`, rose)).status).toBe(403);
  // Whom a message goes to may be anybody, and it reaches whose session it is.
  const sent = await daemon('POST', '/api/cross-agent/messages', rose, { toSessionKey: 'dp', content: 'hello' });
  expect(sent.body.message).toMatchObject({ toAgentId: 'dot', toSessionKey: 'dp' });
  expect((await daemon('POST', presence, token, announced)).status).toBe(200);
  expect((await daemon('DELETE', `${presence}/dp`, token)).body).toEqual({ removed: true });
  expect((await daemon('POST', presence, rose, announced)).body.presence).toMatchObject({ agentId: 'rose' });
});

test('what others keep and do moves no count that a token for one agent or project is shown', async () => {
  const reader = (await rig.makeToken({ role: 'readonly', agent: 'rose' })).token;
  const project = (await rig.makeToken({ role: 'readonly', project: '/work/app' })).token;
  const diagnose = async (bearer: string) => {
    const request = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'diagnostics', arguments: {} } };
    const headers = { accept: 'application/json, text/event-stream' };
    const { body } = await rig.ask('POST', `${rig.daemonUrl}/mcp`, bearer, request, headers);
    const { uptimeSeconds: _, ...counts } = body.result.structuredContent;
    return counts;
  };
  const counted = async (bearer: string) => {
    const { uptime: _, ...status } = (await daemon('GET', '/api/status', bearer)).body;
    return { status, diagnosed: await diagnose(bearer) };
  };
  const jobsOf = async () => (await daemon('GET', '/api/jobs', reader)).body.counts;
  await daemon('POST', '/api/memory/remember', rig.localToken, { content: 'Rose likes tea.', agentId: 'rose', scope: 'private' });
  const before = [await counted(reader), await counted(project), await jobsOf()];
  expect(before).toMatchObject([
    { status: { memories: 1 }, diagnosed: { memories: 1 } },
    { status: { memories: 0 } },
    { queued: 0, waiting: 0 },
  ]);

  await daemon('POST', '/api/memory/remember', rig.localToken, { content: 'Dot likes rum.', agentId: 'dot', scope: 'private' });
  const hook = { harness: 'test', sessionKey: 'busy', agentId: 'dot' };
  await daemon('POST', '/api/hooks/session-start', rig.localToken, hook);
  const everybody = async () => (await daemon('GET', '/api/status', rig.localToken)).body;
  expect(await everybody()).toMatchObject({ memories: 2, activeSessions: 1 });
  const turns = [
    { role: 'user', content: 'From now on we deploy on Thursdays.' },
    { role: 'assistant', content: 'Understood.' },
  ];
  await daemon('POST', '/api/hooks/session-end', rig.localToken, { ...hook, transcript: turns });
  const jobs = (await everybody()).jobs;
  expect(Object.values(jobs as Record<string, number>).reduce((sum, count) => sum + count)).toBeGreaterThan(0);
  expect([await counted(reader), await counted(project), await jobsOf()]).toEqual(before);
  expect((await daemon('GET', '/api/status?agentId=dot', reader)).status).toBe(403);
});
