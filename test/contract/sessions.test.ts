import { expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const HOUR_MS = 3_600_000;
/** The seven hooks with a body each. */
const HOOKS = [
  ['session-start', {}],
  ['user-prompt-submit', { prompt: 'which tea is in the kitchen?' }],
  ['pre-compaction', { messageCount: 12 }],
  ['remember', { content: 'The kitchen has a green kettle.' }],
  ['recall', { query: 'green kettle' }],
  ['compaction-complete', { summary: 'We spoke about tea.', project: '/p' }],
  ['session-end', {}],
] as const;

const hook = (daemon: DaemonServer, name: string, body: object, headers?: Record<string, string>) =>
  daemon.post(`/api/hooks/${name}`, { harness: 'test', ...body }, headers);
const bypass = (daemon: DaemonServer, key: string, enabled = true) =>
  daemon.post(`/api/sessions/${encodeURIComponent(key)}/bypass`, { enabled });

test.each(HOOKS)(
  '%s: the answer of a bypassed session has every field of a normal one that does not tell of something stored',
  async (name, body) => {
    const daemon = await serveDaemon();
    const normal = (await hook(daemon, name, { sessionKey: 'k', ...body })).body;
    await hook(daemon, 'session-start', { sessionKey: 'k' });
    await bypass(daemon, 'k');
    const { status, body: silent } = await hook(daemon, name, { sessionKey: 'k', ...body });

    expect([status, silent.bypassed]).toEqual([200, true]);
    const stored = name === 'compaction-complete' ? ['memoryId'] : [];
    expect(Object.keys(silent)).toEqual(expect.arrayContaining(Object.keys(normal).filter((field) => !stored.includes(field))));
  },
);

test('both forms of a session key are the same session, on every route', async () => {
  const daemon = await serveDaemon();
  await hook(daemon, 'session-start', { sessionKey: 'session:abc' });
  expect((await daemon.get('/api/sessions/abc')).body).toMatchObject({ key: 'abc' });
  expect((await daemon.get('/api/sessions/session:abc')).body).toMatchObject({ key: 'abc' });
  expect((await bypass(daemon, 'session:abc')).body).toEqual({ key: 'abc', bypassed: true });
  expect((await hook(daemon, 'recall', { sessionKey: 'abc', query: 'tea' })).body).toMatchObject({ bypassed: true });
  expect((await daemon.get('/api/sessions')).body.count).toBe(1);
});

test('keys with colons name their agent, and a session is bypassed under them', async () => {
  const daemon = await serveDaemon();
  await hook(daemon, 'user-prompt-submit', { sessionKey: 'agent:dot:main', prompt: 'hello' });
  expect((await daemon.get(`/api/sessions/${encodeURIComponent('agent:dot:main')}`)).body).toMatchObject({ agentId: 'dot' });
  expect((await bypass(daemon, 'agent:dot:main')).status).toBe(200);
});

test('a session of the CLI, which names no runtime path, can be bypassed', async () => {
  const daemon = await serveDaemon();
  await hook(daemon, 'session-start', { harness: 'claude-code', sessionKey: 'cc', project: '/p' });
  expect((await bypass(daemon, 'cc')).body).toEqual({ key: 'cc', bypassed: true });
  expect((await hook(daemon, 'user-prompt-submit', { sessionKey: 'cc', prompt: 'tea' })).body).toMatchObject({
    inject: '',
    bypassed: true,
  });
});

test('the other runtime path is told 409 in the words clients know', async () => {
  const daemon = await serveDaemon();
  await hook(daemon, 'session-start', { sessionKey: 'k', runtimePath: 'plugin' });
  expect(await hook(daemon, 'session-start', { sessionKey: 'k', runtimePath: 'legacy' })).toMatchObject({
    status: 409,
    body: { error: 'session claimed by plugin path' },
  });
  expect((await hook(daemon, 'remember', { sessionKey: 'k', content: 'likes tea' })).status).toBe(200);
  await hook(daemon, 'session-end', { sessionKey: 'k' });
  await hook(daemon, 'session-start', { sessionKey: 'k', runtimePath: 'legacy' });
  expect((await hook(daemon, 'recall', { sessionKey: 'k', query: 'tea' }, { 'x-signet-runtime-path': 'plugin' })).body.error).toBe(
    'session claimed by legacy path',
  );
});

test('a claim and its bypass survive a restart', async () => {
  const daemon = await serveDaemon();
  await hook(daemon, 'session-start', { sessionKey: 'k', runtimePath: 'plugin' });
  await bypass(daemon, 'k');
  await daemon.restart();
  expect((await daemon.get('/api/sessions/k')).body).toMatchObject({ runtimePath: 'plugin', bypassed: true });
  expect((await hook(daemon, 'recall', { sessionKey: 'k', query: 'tea', runtimePath: 'legacy' })).status).toBe(409);
});

test.each(HOOKS.filter(([name]) => name !== 'session-end'))('%s in mid-session keeps the claim alive', async (name, body) => {
  const daemon = await serveDaemon();
  await hook(daemon, 'session-start', { sessionKey: 'k' });
  daemon.clock.ms += 3 * HOUR_MS;
  await hook(daemon, name, { sessionKey: 'k', ...body });
  daemon.clock.ms += 3 * HOUR_MS;
  expect((await daemon.get('/api/sessions/k')).body).toMatchObject({
    lastSeenAt: '2025-03-03T15:00:00.000Z',
    expiresAt: '2025-03-03T19:00:00.000Z',
  });
});

test.each(['prompt', 'userMessage', 'userPrompt'])('the prompt is taken under the name %s', async (field) => {
  const daemon = await serveDaemon();
  await daemon.post('/api/memory/remember', { content: 'The kitchen kettle is green' });
  const { body } = await hook(daemon, 'user-prompt-submit', { [field]: 'what colour is the kitchen kettle?' });
  expect(body.inject).toContain('The kitchen kettle is green');
  expect((await hook(daemon, 'user-prompt-submit', { [field]: '   ' })).status).toBe(400);
});

test('without a harness, and with an empty key, a hook is answered', async () => {
  const daemon = await serveDaemon();
  for (const [name, body] of HOOKS) expect([name, (await daemon.post(`/api/hooks/${name}`, body)).status]).toEqual([name, 200]);
  expect((await daemon.post('/api/hooks/session-start', { sessionKey: '' })).status).toBe(200);
  expect((await daemon.get('/api/sessions')).body.count).toBe(0);
  await daemon.post('/api/hooks/session-start', { sessionKey: 'k' });
  expect((await daemon.get('/api/sessions/k')).body.harness).toBe('sdk');
});

test('a session nobody hears of is ended, and goes on where it was when it speaks again', async () => {
  const daemon = await serveDaemon({ background: true });
  await hook(daemon, 'session-start', { sessionKey: 'k' });
  await hook(daemon, 'compaction-complete', { sessionKey: 'k', summary: 'The kettle is being descaled.' });
  daemon.clock.ms += 4 * HOUR_MS;
  await daemon.restart();
  await expect
    .poll(async () => (await daemon.get('/api/logs?category=session')).body.logs)
    .toMatchObject([{ message: 'a session fell silent and was ended', data: { sessionKey: 'k' } }]);
  expect((await daemon.get('/api/sessions/k')).status).toBe(404);
  const { body } = await hook(daemon, 'session-start', { sessionKey: 'k' });
  expect(body.inject).toContain('The kettle is being descaled.');
});

verifies(
  ['hooks.session-start.parent-session-key', 'hooks.session-start.harness-agent-id.parent'],
  'within the same harness and project',
  async () => {
    const daemon = await serveDaemon();
    await hook(daemon, 'session-start', { sessionKey: 'main', project: '/p' });
    await hook(daemon, 'session-start', { sessionKey: 'elsewhere', project: '/q' });
    await hook(daemon, 'session-start', { sessionKey: 'told', parentSessionKey: 'session:elsewhere' });
    await hook(daemon, 'session-start', { sessionKey: 'guessed', project: '/p', harnessAgentId: 'explorer-1' });
    const parent = async (key: string) => (await daemon.get(`/api/sessions/${key}`)).body.parentKey;
    expect([await parent('main'), await parent('told'), await parent('guessed')]).toEqual([null, 'elsewhere', 'main']);
    await hook(daemon, 'session-start', { harness: 'other', sessionKey: 'alone', project: '/p', harnessAgentId: 'explorer-2' });
    expect(await parent('alone')).toBeNull();
  },
);
