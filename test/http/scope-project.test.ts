import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Answer } from '../conformance/calls.ts';
import { type AuthRig, startGuarded } from '../helpers/auth-rig.ts';
import { openSse } from '../helpers/sse-client.ts';

/** Stands in all that belongs to the other project, and in nothing else. */
const CANARY = 'zqother';
const OWN = '/work/app';
const OTHER = '/work/other';

let rig: AuthRig;
/** Limited to the project OWN, and may do everything in it. */
let token: string;
beforeEach(async () => {
  rig = await startGuarded('auth: { mode: team }\nagents: { roster: [{ name: dot }] }\nruntime: { secretTools: { agents: [default] } }\n');
  writeFileSync(join(rig.folder, 'MEMORY.md'), `${CANARY} stands in the page of all projects.`);
  token = (await rig.makeToken({ role: 'admin', project: OWN })).token;
});

const daemon = (method: string, path: string, bearer: string, body?: unknown): Promise<Answer> =>
  rig.ask(method, rig.daemonUrl + path, bearer, body);
const runtime = (method: string, path: string, bearer: string, body?: unknown): Promise<Answer> =>
  rig.ask(method, rig.runtimeUrl + path, bearer, body);
const hook = (name: string, bearer: string, body: object): Promise<Answer> =>
  daemon('POST', `/api/hooks/${name}`, bearer, { harness: 'test', ...body });
const text = (answer: Answer): string => JSON.stringify(answer.body ?? '');

/** A session of the other project, ended, with all that one leaves behind. */
async function leaveSession(sessionKey: string): Promise<void> {
  await hook('session-start', rig.localToken, { sessionKey, project: OTHER });
  await hook('user-prompt-submit', rig.localToken, { sessionKey, project: OTHER, prompt: `Where is ${CANARY}?` });
  const transcript = [{ role: 'user', content: `The ${CANARY} lies in the harbour.` }];
  const ended = await hook('session-end', rig.localToken, { sessionKey, project: OTHER, transcript });
  expect(ended.status).toBe(200);
}

describe('what ended sessions of another project left', () => {
  beforeEach(() => leaveSession('left'));

  test.each(['transcript', 'continuity'])('its %s is not shown', async (what) => {
    for (const query of ['', '?agentId=default']) {
      const answer = await daemon('GET', `/api/sessions/left/${what}${query}`, token);
      expect([what, answer.status, text(answer).includes(CANARY)]).toEqual([what, 403, false]);
    }
    expect((await daemon('GET', `/api/sessions/never-used/${what}`, token)).status).toBe(404);
  });

  test('its turns are not found', async () => {
    const found = await daemon('POST', '/api/sessions/search', token, { query: CANARY });
    expect(found.body).toMatchObject({ count: 0 });
    expect(text(await daemon('GET', '/api/sessions/summaries', token))).not.toContain(CANARY);
  });

  test('nothing is added to its turns, and nothing begins where it ended', async () => {
    const forged = [{ role: 'assistant', content: 'I was never said.' }];
    for (const [name, more] of [
      ['session-end', { transcript: forged }],
      ['compaction-complete', { summary: 'forged', transcript: forged }],
      ['session-start', { resume: true }],
      ['user-prompt-submit', { prompt: 'harbour' }],
      ['remember', { content: 'forged' }],
    ] as const) {
      const answer = await hook(name, token, { sessionKey: 'left', ...more });
      expect([name, answer.status, text(answer).includes(CANARY)]).toEqual([name, 403, false]);
    }
    const kept = await daemon('GET', '/api/sessions/left/transcript', rig.localToken);
    expect(kept.body.turns).toHaveLength(1);
    expect((await runtime('POST', '/session', token, { sessionKey: 'left' })).status).toBe(403);
  });
});

test('a session of its own stays its own when it has ended', async () => {
  await hook('session-start', token, { sessionKey: 'mine' });
  await hook('user-prompt-submit', token, { sessionKey: 'mine', prompt: 'hello' });
  const transcript = [{ role: 'user', content: 'The blue lamp.' }];
  expect((await hook('session-end', token, { sessionKey: 'mine', transcript })).status).toBe(200);
  expect((await daemon('GET', '/api/sessions/mine/transcript', token)).body).toMatchObject({ total: 1, project: OWN });
  expect((await daemon('GET', '/api/sessions/mine/continuity', token)).status).toBe(200);
  expect((await hook('session-start', token, { sessionKey: 'mine', resume: true })).status).toBe(200);
});

test('messages to agents as a whole, to all, and to sessions of another project are not read, nor sent', async () => {
  await hook('session-start', rig.localToken, { sessionKey: 'theirs', project: OTHER, agentId: 'dot' });
  await hook('session-start', token, { sessionKey: 'mine' });
  const send = (bearer: string, body: object) => daemon('POST', '/api/cross-agent/messages', bearer, body);
  const all = { content: `${CANARY} for all`, broadcast: true, fromAgentId: 'dot', fromSessionKey: 'theirs' };
  for (const body of [all, { content: `${CANARY} for an agent`, toAgentId: 'default', fromAgentId: 'dot' }])
    expect((await send(rig.localToken, body)).status).toBe(200);
  expect((await send(rig.localToken, { content: 'for the session', toSessionKey: 'mine', fromAgentId: 'dot' })).status).toBe(200);

  expect((await daemon('GET', '/api/cross-agent/messages?agentId=default', token)).status).toBe(403);
  expect((await daemon('GET', '/api/cross-agent/messages?sessionKey=theirs', token)).status).toBe(403);
  expect((await daemon('GET', '/api/cross-agent/messages?sessionKey=never-used', token)).status).toBe(404);
  const inbox = await daemon('GET', '/api/cross-agent/messages?sessionKey=mine', token);
  expect(inbox.body.items.map((item: { content: string }) => item.content)).toEqual(['for the session']);
  const prompted = await hook('user-prompt-submit', token, { sessionKey: 'mine', prompt: 'anything new?' });
  expect([text(prompted).includes(CANARY), text(prompted).includes('for the session')]).toEqual([false, true]);
  const read = await daemon('POST', '/api/cross-agent/messages/read', token, { sessionKey: 'mine' });
  expect(read.body.read).toBeLessThanOrEqual(1);

  const stream = await openSse(`${rig.daemonUrl}/api/cross-agent/stream?sessionKey=mine&includeSelf=1&token=${token}`);
  try {
    await stream.until((event) => event.data?.type === 'snapshot');
    expect(JSON.stringify(stream.frames)).not.toContain(CANARY);
    expect(JSON.stringify(stream.frames)).not.toContain('theirs');
  } finally {
    stream.close();
  }
  for (const body of [{ toAgentId: 'dot' }, { broadcast: true }, { toSessionKey: 'theirs' }])
    expect([body, (await send(token, { content: 'x', fromSessionKey: 'mine', ...body })).status]).toEqual([body, 403]);
  expect((await daemon('GET', '/api/sessions', token)).body.sessions).toMatchObject([{ key: 'mine' }]);
});

test('hooks bring in no memory of another project, and no MEMORY.md, which is made of all', async () => {
  for (const [content, type] of [
    [`The harbour of ${CANARY} opens at six.`, 'fact'],
    [`Prefers the harbour of ${CANARY}.`, 'preference'],
  ])
    await daemon('POST', '/api/memory/remember', rig.localToken, { content, type, project: OTHER, importance: 0.95 });
  await daemon('POST', '/api/memory/remember', rig.localToken, { content: 'The harbour of nobody opens at eight.', importance: 0.95 });
  const start = await hook('session-start', token, { sessionKey: 'mine' });
  const prompt = await hook('user-prompt-submit', token, { sessionKey: 'mine', prompt: 'When does the harbour open?' });
  const recalled = await hook('recall', token, { query: 'harbour', sessionKey: 'mine' });
  const compact = await hook('pre-compaction', token, { sessionKey: 'mine' });
  for (const answer of [start, prompt, recalled, compact]) expect([answer.status, text(answer).includes(CANARY)]).toEqual([200, false]);
  expect(text(recalled)).toContain('The harbour of nobody');
  // Who is not limited gets all of it.
  expect(text(await hook('session-start', rig.localToken, { sessionKey: 'free', project: OWN }))).toContain(CANARY);
});

test('tools and prompts of a session reach no further than the token that uses them', async () => {
  const other = { content: `The harbour of ${CANARY} opens at six.`, project: OTHER };
  const { id: foreign } = (await daemon('POST', '/api/memory/remember', rig.localToken, other)).body;
  const own = (await daemon('POST', '/api/memory/remember', token, { content: 'The harbour of the app opens at seven.' })).body.id;
  const opened = (await runtime('POST', '/session', rig.localToken, { project: OWN })).body.id;
  const mine = (await runtime('POST', '/session', token, {})).body.id;
  for (const sessionId of [opened, mine]) {
    const tool = (name: string, input: object) => runtime('POST', `/tools/${name}`, token, { sessionId, input });
    const found = await tool('memory_search', { query: 'harbour' });
    expect([text(found).includes(own), text(found).includes(CANARY)]).toEqual([true, false]);
    for (const [name, input] of [
      ['memory_get', { id: foreign }],
      ['memory_modify', { id: foreign, reason: 'test', content: 'mine' }],
      ['memory_forget', { id: foreign, reason: 'test' }],
    ] as const)
      expect([name, (await tool(name, input)).body]).toMatchObject([name, { isError: true, error: { code: 'memory_not_found' } }]);
    expect((await tool('secret_exec', { command: 'id', secrets: {} })).body).toMatchObject({ error: { code: 'secrets_forbidden' } });
  }
  // What it opened stays limited in the hands of others, and what it prompts is limited in a session of others.
  const called = await runtime('POST', '/tools/memory_search', rig.localToken, { sessionId: mine, input: { query: 'harbour' } });
  expect(text(called)).not.toContain(CANARY);
  for (const session of [opened, mine])
    await runtime('POST', `/session/${session}/prompt`, token, { content: 'When does the harbour open?' });
  const events = await runtime('GET', `/session/${opened}/events?limit=500`, token);
  const [hooked] = events.body.items.filter(
    (event: { name: string; payload: { hook?: string } }) => event.payload.hook === 'user-prompt-submit' && event.name === 'hook:end',
  );
  expect(hooked.payload.inject).toContain('app opens at seven');
  expect(JSON.stringify(hooked)).not.toContain(CANARY);
  // The memory is as it was.
  expect((await daemon('GET', `/api/memory/${foreign}`, rig.localToken)).body).toMatchObject({ content: other.content, version: 1 });
});

test('a document of another project is not replaced, and its words are not told', async () => {
  const ingest = (bearer: string, body: object) => daemon('POST', '/api/documents', bearer, { source: 'guide', ...body });
  expect((await ingest(rig.localToken, { content: `The ${CANARY} guide.`, project: OTHER })).status).toBe(200);
  expect((await ingest(token, { content: 'Mine now.' })).status).toBe(403);
  expect(text(await daemon('GET', '/api/documents?agentId=default', rig.localToken))).toContain('guide');
  const again = await daemon('POST', '/api/memory/remember', token, { content: `The ${CANARY} guide.` });
  expect([again.status, again.body.code, again.body.duplicateMemoryId]).toEqual([409, 'duplicate_content_hash', undefined]);
});

test('a workflow sees and prompts the sessions of its own project alone', async () => {
  const theirs = (await runtime('POST', '/session', rig.localToken, { project: OTHER })).body.id;
  const mine = (await runtime('POST', '/session', token, {})).body.id;
  const spy = { name: 'spy', activateOn: ['prompt:received'], from: { scope: 'global' }, prompt: 'seen {{ signal.payload.content }}' };
  const started = await runtime('POST', '/workflows', token, {
    id: 'spy_run',
    // The last one waits, so that the run does not end before there is anything to see.
    agents: [
      spy,
      { ...spy, name: 'rider', session: 'attach' },
      { name: 'waits', activateOn: ['workflow:start'], debounceMs: 60_000, prompt: 'x' },
    ],
    limits: { activations: 4 },
  });
  expect(started.status).toBe(201);
  expect((await runtime('POST', '/workflows', token, { agents: [spy], project: OTHER })).status).toBe(403);
  await runtime('POST', `/session/${theirs}/prompt`, rig.localToken, { content: `${CANARY} live` });
  await runtime('POST', `/session/${mine}/prompt`, token, { content: 'of the app' });
  await expect
    .poll(async () => text(await runtime('GET', '/workflows/spy_run/events?limit=500', token)), { timeout: 30_000 })
    .toContain('seen of the app');
  expect(text(await runtime('GET', '/workflows/spy_run/events?limit=500', token))).not.toContain(CANARY);
  const messages = await runtime('GET', `/session/${theirs}/messages`, rig.localToken);
  expect(text(messages)).not.toContain('seen');
  // Runs of others are out of reach, and so is one that nobody knows.
  await runtime('POST', '/workflows', rig.localToken, { id: 'other_run', agents: [spy], project: OTHER });
  expect((await runtime('GET', '/workflows/other_run', token)).status).toBe(403);
  expect((await runtime('GET', '/workflows/nobody_knows', token)).status).toBe(404);
});

test('lists show what is of its project', async () => {
  const theirs = (await runtime('POST', '/session', rig.localToken, { project: OTHER })).body.id;
  const mine = (await runtime('POST', '/session', token, {})).body.id;
  expect((await runtime('GET', '/session', token)).body.items.map((item: { id: string }) => item.id)).toEqual([mine]);
  expect((await runtime('GET', `/session/${theirs}`, token)).status).toBe(403);
  expect((await runtime('POST', '/session', token, { parentId: theirs })).status).toBe(403);
});
