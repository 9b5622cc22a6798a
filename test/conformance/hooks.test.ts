import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { type Signet, startSignet } from '../helpers/signet.ts';
import { type Answer, call, hooksOf } from './calls.ts';
import { verifies } from './verifies.ts';

const HOOKS = [
  ['session-start', {}],
  ['user-prompt-submit', { prompt: 'which tea is in the kitchen?' }],
  ['pre-compaction', { messageCount: 12 }],
  ['compaction-complete', { summary: 'We spoke about tea.' }],
  ['remember', { content: 'The kitchen has a green kettle.' }],
  ['recall', { query: 'green kettle' }],
  ['session-end', {}],
] as const;

let signet: Signet;
let hook: ReturnType<typeof hooksOf>;

beforeAll(async () => {
  signet = await startSignet({ yaml: 'agent:\n  name: Merle\n  description: a careful helper\n' });
  hook = hooksOf(signet.daemonUrl);
  writeFileSync(join(signet.folder, 'MEMORY.md'), 'The garden project is waiting for rain.');
});
afterAll(() => signet.close());

const post = (path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> =>
  call('POST', signet.daemonUrl + path, body, headers);
const remember = async (body: Record<string, unknown>): Promise<string> => (await post('/api/memory/remember', body)).body.id;

verifies(['hooks.endpoints.json', 'hooks.custom-client.minimal'], async () => {
  for (const [name, body] of HOOKS) {
    const answer = await post(`/api/hooks/${name}`, { harness: 'never-heard-of', sessionKey: 'plain', ...body });
    expect([name, answer.status, answer.headers.get('content-type')]).toEqual([name, 200, expect.stringMatching(/^application\/json/)]);
    expect([name, typeof answer.body]).toEqual([name, 'object']);
  }
});

verifies(
  'runtime.existing-harnesses',
  'a harness that knows only the daemon keeps, finds and hands on what was said, with no session of the runtime',
  async () => {
    // As the plugins of today send it: their own names of fields, keys with colons, numbers where others write strings.
    const about = {
      harness: 'openclaw',
      sessionKey: 'agent:default:main',
      agentId: 'default',
      runtimePath: 'plugin',
      project: '/srv/mill',
    };
    expect((await post('/api/hooks/session-start', { ...about, sessionId: 'b3041c53' })).body).toMatchObject({
      inject: expect.any(String),
    });
    await post('/api/hooks/remember', { ...about, content: 'The mill race freezes in January.' });
    const { body } = await post('/api/hooks/user-prompt-submit', { ...about, userMessage: 'When does the mill race freeze?', prompt: 'x' });
    expect(body.inject).toContain('The mill race freezes in January.');
    expect((await post('/api/hooks/pre-compaction', { ...about, messageCount: 8, tokenCount: 127 })).body.summaryPrompt).toMatch(/\S/);
    await post('/api/hooks/compaction-complete', { ...about, summary: 'We spoke of the mill race.' });
    await post('/api/hooks/session-end', { ...about, reason: 'shutdown' });
    expect((await post('/api/hooks/session-start', about)).body.inject).toContain('We spoke of the mill race.');
    await post('/api/hooks/session-end', about);
    expect((await signet.client.session.list()).items).toEqual([]);
  },
);

verifies('hooks.custom-client.health', async () => {
  expect(await call('GET', `${signet.daemonUrl}/health`)).toMatchObject({ status: 200, body: { status: 'healthy', pid: process.pid } });
});

verifies(['hooks.remember.stores', 'hooks.recall.finds'], async () => {
  const { id } = await hook('remember', { sessionKey: 'store', content: 'Olive oil is kept in the cellar.' });
  expect((await call('GET', `${signet.daemonUrl}/api/memory/${id}`)).body).toMatchObject({
    id,
    content: 'Olive oil is kept in the cellar.',
  });
  expect((await hook('recall', { sessionKey: 'store', query: 'olive oil' })).results).toMatchObject([
    { id, content: 'Olive oil is kept in the cellar.' },
  ]);
  expect((await hook('recall', { query: 'xylophone' })).results).toEqual([]);
});

verifies(['hooks.session-end.releases-claim', 'hooks.session-start.session-key'], async () => {
  const start = (runtimePath: string) => post('/api/hooks/session-start', { harness: 'test', sessionKey: 'claimed', runtimePath });
  expect((await start('legacy')).body.sessionKey).toBe('claimed');
  expect((await call('GET', `${signet.daemonUrl}/api/sessions/claimed`)).body).toMatchObject({ key: 'claimed', runtimePath: 'legacy' });
  expect(await start('plugin')).toMatchObject({ status: 409, body: { code: 'session_claimed' } });

  await hook('session-end', { sessionKey: 'claimed' });
  expect((await call('GET', `${signet.daemonUrl}/api/sessions/claimed`)).status).toBe(404);
  expect((await start('plugin')).status).toBe(200);
});

verifies(['hooks.session-end.transcript', 'runtime.session-end.checkpoint'], async () => {
  const transcript = [
    { role: 'user', content: 'How far is the harbour wall?' },
    { role: 'assistant', content: 'Half of the harbour wall is painted.' },
  ];
  await hook('session-start', { sessionKey: 'line' });
  await hook('session-end', { sessionKey: 'line', transcript });

  expect((await hook('session-start', { sessionKey: 'line' })).inject).toContain('Half of the harbour wall is painted.');
  expect((await hook('session-start', { sessionKey: 'another-line' })).inject).not.toContain('harbour wall');
});

verifies(['hooks.session-start.optional-fields', 'hooks.session-start.context'], async () => {
  expect((await post('/api/hooks/session-start', { harness: 'bare' })).body.inject).toContain('Merle');
  for (let index = 0; index < 12; index += 1) await remember({ content: `Errand ${index} is done.`, importance: 1 });
  await remember({ content: 'The night train to Lisbon leaves from platform nine.', importance: 0.1 });
  const start = async (context?: string) => (await post('/api/hooks/session-start', { harness: 'bare', context })).body;
  expect((await start()).inject).not.toContain('platform nine');
  const { inject, memories } = await start('We are about to catch the night train to Lisbon.');
  expect(inject).toContain('platform nine');
  expect(memories[0].content).toContain('platform nine');
  expect(memories).toHaveLength(10);
});

verifies(
  ['hooks.session-start.harness.required', 'hooks.user-prompt-submit.request', 'hooks.compaction-complete.summary.required'],
  'hooks take what existing clients send: no harness is the harness sdk, what a hook is about is asked for by name',
  async () => {
    const start = await post('/api/hooks/session-start', { sessionKey: 'bare-start' });
    expect(start).toMatchObject({ status: 200, body: { sessionKey: 'bare-start' } });
    expect((await call('GET', `${signet.daemonUrl}/api/sessions/bare-start`)).body.harness).toBe('sdk');
    const prompt = { sessionKey: 'bare-start', prompt: 'where is the barn?' };
    for (const body of [prompt, { ...prompt, harness: 'test' }])
      expect(await post('/api/hooks/user-prompt-submit', body)).toMatchObject({
        status: 200,
        body: { inject: expect.stringContaining('Now:') },
      });
    expect(await post('/api/hooks/user-prompt-submit', { harness: 'test' })).toMatchObject({
      ...{ status: 400, body: { code: 'invalid_request', detail: expect.stringContaining('userMessage') } },
    });
    expect(await post('/api/hooks/compaction-complete', { harness: 'test' })).toMatchObject({
      ...{ status: 400, body: { code: 'invalid_request', errors: [{ pointer: '/summary' }] } },
    });
    expect(await post('/api/hooks/compaction-complete', { summary: 'The well was dug.' })).toMatchObject({
      status: 200,
      body: { success: true },
    });
  },
);

verifies(['hooks.session-start.agent-id', 'hooks.session-start.harness-agent-id.not-scope'], async () => {
  await remember({ content: 'Dot keeps a secret diary.', agentId: 'dot', scope: 'private', importance: 1 });
  expect((await hook('session-start', { agentId: 'dot' })).inject).toContain('secret diary');
  expect((await hook('session-start', { agentId: 'rose' })).inject).not.toContain('secret diary');
  expect((await hook('session-start', { agentId: 'rose', harnessAgentId: 'dot' })).inject).not.toContain('secret diary');
  expect((await hook('session-start', { harnessAgentId: 'dot' })).inject).not.toContain('secret diary');
});

verifies(
  ['hooks.session-start.identity.name', 'hooks.session-start.identity.description', 'hooks.session-start.inject.identity'],
  async () => {
    const { identity, inject } = await hook('session-start', {});
    expect(identity).toEqual({ name: 'Merle', description: 'a careful helper' });
    expect(inject).toMatch(/^You are Merle, a careful helper\./);
  },
);

verifies(['hooks.session-start.memories', 'hooks.session-start.inject.memories'], async () => {
  const id = await remember({ content: 'Always water the fern on Sundays.', type: 'preference', importance: 1, pinned: true });
  const { memories, inject } = await hook('session-start', {});
  expect(memories.find((memory: { id: string }) => memory.id === id)).toEqual({
    id,
    content: 'Always water the fern on Sundays.',
    type: 'preference',
    importance: 1,
    created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  });
  expect(inject).toMatch(/## Relevant Memories\n[\s\S]*- .*water the fern on Sundays/);
});

verifies(
  ['hooks.session-start.recent-context', 'hooks.session-start.inject.recent-context', 'hooks.session-start.inject.markdown'],
  async () => {
    const { recentContext, inject } = await hook('session-start', {});
    expect(recentContext).toBe('The garden project is waiting for rain.');
    expect(inject).toContain('## Recent Context\n\nThe garden project is waiting for rain.');
    expect(inject.match(/^## .+$/gm)).toEqual(expect.arrayContaining(['## Recent Context', '## Memory Check Loop']));
  },
);

verifies(
  [
    'hooks.session-start.check-loop.when',
    'hooks.session-start.check-loop.recalls',
    'hooks.session-start.check-loop.pitfalls',
    'hooks.session-start.check-loop.grounding',
  ],
  async () => {
    const loop: string = (await hook('session-start', {})).inject.split('## Memory Check Loop')[1];
    expect(loop).toContain('prior context matters');
    expect(loop).toContain('1-3 targeted recalls');
    expect(loop).toContain('Pitfalls: an empty result does not prove');
    expect(loop).toContain('Verify before acting');
  },
);

verifies(
  [
    'hooks.user-prompt-submit.date-time',
    'hooks.user-prompt-submit.guidance',
    'hooks.user-prompt-submit.match',
    'hooks.user-prompt-submit.no-match',
    'hooks.user-prompt-submit.no-match.recall',
    'hooks.user-prompt-submit.save-reminder.match',
    'hooks.user-prompt-submit.save-reminder.no-match',
  ],
  async () => {
    await remember({ content: 'The telescope lens was polished in March.' });
    const match = (await hook('user-prompt-submit', { prompt: 'when was the telescope lens polished?' })).inject;
    const none = (await hook('user-prompt-submit', { prompt: 'quantum zebra bureaucracy' })).inject;

    for (const inject of [match, none]) {
      expect(inject).toMatch(new RegExp(`^Now: .*${new Date().getFullYear()}.*\\d\\d:\\d\\d`));
      expect(inject).toContain('Memory check: recall before you rely on prior context');
      expect(inject).toContain('/remember or memory_store');
    }
    expect(match).toMatch(/## Relevant Memory\n[\s\S]*The telescope lens was polished in March\./);
    expect(none).not.toContain('## Relevant Memory');
    expect(none).toContain('No strong memory match');
    expect(none).toContain('run a targeted recall (/recall or memory_search) before acting');
  },
);

verifies(
  [
    'hooks.pre-compaction.request',
    'hooks.pre-compaction.message-count',
    'hooks.pre-compaction.summary-prompt',
    'hooks.pre-compaction.guidelines',
  ],
  async () => {
    const { summaryPrompt, guidelines } = await hook('pre-compaction', {});
    expect(summaryPrompt).toMatch(/^Pre-compaction memory flush\. Store durable memories now\./);
    expect(guidelines).toContain('Summarize this session focusing on:\n- Key decisions');
    expect(summaryPrompt).toContain(guidelines);
    expect((await hook('pre-compaction', { messageCount: 150 })).summaryPrompt).toContain('150 messages');
    expect((await post('/api/hooks/pre-compaction', { harness: 'test', messageCount: 'many' })).status).toBe(400);
  },
);

verifies('hooks.pre-compaction.session-context', async () => {
  const { summaryPrompt } = await hook('pre-compaction', { sessionContext: 'So far the boat has been caulked.' });
  expect(summaryPrompt).toContain('So far the boat has been caulked.');
});

verifies('hooks.pre-compaction.session-key', async () => {
  await remember({ content: 'Rose hides the map under the rug.', agentId: 'rose', scope: 'private', importance: 1 });
  await hook('session-start', { sessionKey: 'of-rose', agentId: 'rose' });
  expect((await hook('pre-compaction', { sessionKey: 'of-rose' })).summaryPrompt).toContain('under the rug');
  expect((await hook('pre-compaction', {})).summaryPrompt).not.toContain('under the rug');
});

verifies(['hooks.compaction-complete.memory', 'hooks.compaction-complete.response', 'hooks.compaction-complete.session-key'], async () => {
  const answer = await hook('compaction-complete', { sessionKey: 'long-talk', summary: 'The barn roof was measured twice.' });
  expect(answer).toEqual({ success: true, memoryId: expect.any(String) });
  expect((await call('GET', `${signet.daemonUrl}/api/memory/${answer.memoryId}`)).body).toMatchObject({
    type: 'session_summary',
    content: 'The barn roof was measured twice.',
    session_id: 'long-talk',
  });
  expect((await hook('session-start', { sessionKey: 'long-talk', resume: true })).inject).toContain('The barn roof was measured twice.');
});

verifies('hooks.compaction-complete.agent-scoped', async () => {
  const shared = 'one-key';
  await hook('compaction-complete', { agentId: 'dot', sessionKey: shared, summary: 'Dot counted every swan on the pond.' });
  await hook('session-end', {
    agentId: 'dot',
    sessionKey: shared,
    transcript: [{ role: 'user', content: 'The swans flew south at dusk.' }],
  });

  const rose = await hook('session-start', { agentId: 'rose', sessionKey: shared, resume: true });
  expect(rose.inject).not.toMatch(/swan/i);
  expect((await hook('recall', { agentId: 'rose', query: 'swan pond' })).results).toEqual([]);
  await hook('session-end', { agentId: 'rose', sessionKey: shared });
  const dot = await hook('session-start', { agentId: 'dot', sessionKey: shared, resume: true });
  expect(dot.inject).toContain('Dot counted every swan on the pond.');
  expect(dot.inject).toContain('The swans flew south at dusk.');
});

verifies(['hooks.compaction-complete.project.fallback', 'hooks.compaction-complete.project.required'], async () => {
  const transcript = [{ role: 'user', content: 'hello' }];
  await hook('session-end', { sessionKey: 'of-project', project: '/work/first', transcript });
  const projectOf = async (sessionKey: string, summary: string, project: string | undefined = '/work/second') => {
    const { memoryId } = await hook('compaction-complete', { sessionKey, project: project || undefined, summary });
    return (await call('GET', `${signet.daemonUrl}/api/memory/${memoryId}`)).body.project;
  };
  expect(await projectOf('of-project', 'The fence is half built.')).toBe('/work/first');
  expect(await projectOf('without-transcript', 'The gate is missing.')).toBe('/work/second');
  expect(await projectOf('without-both', 'The hedge is cut.', '')).toBeNull();
});
