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
});
afterAll(() => signet.close());

const post = (path: string, body: unknown, headers?: Record<string, string>): Promise<Answer> =>
  call('POST', signet.daemonUrl + path, body, headers);
const bypass = (key: string, enabled: boolean) => post(`/api/sessions/${key}/bypass`, { enabled });
const remember = async (body: Record<string, unknown>): Promise<string> => (await post('/api/memory/remember', body)).body.id;

/** A session that is known to the daemon and silenced. */
async function bypassed(key: string): Promise<void> {
  await hook('session-start', { sessionKey: key });
  expect((await bypass(key, true)).body).toEqual({ key, bypassed: true });
}

verifies(['hooks.bypass.api', 'hooks.bypass.tracked', 'hooks.bypass.marker'], async () => {
  expect((await bypass('nobody-yet', true)).status).toBe(404);
  await bypassed('marked');
  await hook('session-start', { sessionKey: 'loud' });

  const { sessions } = (await call('GET', `${signet.daemonUrl}/api/sessions`)).body;
  expect(sessions.find(({ key }: { key: string }) => key === 'marked')).toMatchObject({ harness: 'test', bypassed: true });
  expect(sessions.find(({ key }: { key: string }) => key === 'loud')).toMatchObject({ bypassed: false });
  for (const [name, body] of HOOKS) {
    expect([name, await hook(name, { sessionKey: 'marked', ...body })]).toEqual([name, expect.objectContaining({ bypassed: true })]);
  }
});

verifies(
  ['hooks.bypass.one-session', 'hooks.bypass.session-start', 'hooks.bypass.user-prompt-submit', 'hooks.bypass.pre-compaction'],
  async () => {
    await remember({ content: 'The spare key hangs behind the walnut clock.', importance: 0.9 });
    await bypassed('silent');
    const prompt = 'where does the spare key behind the walnut clock hang?';

    const start = await hook('session-start', { sessionKey: 'silent' });
    expect(start).toEqual({
      ...{ identity: { name: '' }, memories: [], recentContext: '', inject: '', context: '' },
      ...{ sessionKey: 'silent', sessionId: 'silent', bypassed: true },
    });
    expect(await hook('user-prompt-submit', { sessionKey: 'silent', prompt })).toEqual({
      ...{ inject: '', memoryCount: 0, memories: [], strong: false, queryTerms: [], engine: 'none', bypassed: true },
    });
    expect(await hook('pre-compaction', { sessionKey: 'silent' })).toMatchObject({ summaryPrompt: '', guidelines: '', bypassed: true });

    const other = await hook('session-start', { sessionKey: 'beside' });
    expect(other.inject).toContain('Merle');
    expect(other).not.toHaveProperty('bypassed');
    expect((await hook('user-prompt-submit', { sessionKey: 'third', prompt })).inject).toContain('behind the walnut clock');
    expect((await hook('pre-compaction', { sessionKey: 'beside' })).guidelines).toContain('decisions');
  },
);

verifies(
  ['hooks.bypass.remember', 'hooks.bypass.recall', 'hooks.bypass.compaction-complete', 'hooks.bypass.lifted'],
  'nothing is written or found while bypassed, and everything again afterwards',
  async () => {
    await bypassed('mute');
    const found = async (query: string) =>
      (await post('/api/memory/recall', { query })).body.results.map((memory: { content: string }) => memory.content);

    expect(await hook('remember', { sessionKey: 'mute', content: 'Pelicans nest near the lighthouse.' })).toMatchObject({
      saved: false,
      bypassed: true,
    });
    expect(await hook('compaction-complete', { sessionKey: 'mute', summary: 'Pelicans were discussed at length.' })).toEqual({
      ...{ success: true, memoryId: '', bypassed: true },
    });
    expect(await found('pelicans')).toEqual([]);
    await remember({ content: 'Otters live below the bridge.' });
    expect(await hook('recall', { sessionKey: 'mute', query: 'otters bridge' })).toEqual({
      results: [],
      memories: [],
      count: 0,
      message: '',
      strong: false,
      method: 'none',
      bypassed: true,
    });

    expect((await bypass('mute', false)).body).toEqual({ key: 'mute', bypassed: false });
    expect((await hook('recall', { sessionKey: 'mute', query: 'otters bridge' })).results).toMatchObject([
      { content: 'Otters live below the bridge.' },
    ]);
    expect(await hook('remember', { sessionKey: 'mute', content: 'Pelicans nest near the lighthouse.' })).toMatchObject({ saved: true });
    expect(await found('pelicans')).toEqual(['Pelicans nest near the lighthouse.']);
    expect((await hook('session-start', { sessionKey: 'mute' })).inject).toContain('Merle');
  },
);

verifies(['hooks.bypass.session-end', 'hooks.bypass.session-end.claim'], async () => {
  await bypassed('leaving');
  const transcript = [{ role: 'user', content: 'The vault code is in the blue book.' }];
  expect(await hook('session-end', { sessionKey: 'leaving', transcript })).toEqual({ memoriesSaved: 0, bypassed: true });

  expect((await call('GET', `${signet.daemonUrl}/api/sessions/leaving`)).status).toBe(404);
  const again = await post('/api/hooks/session-start', { harness: 'test', sessionKey: 'leaving', runtimePath: 'plugin' });
  expect(again.status).toBe(200);
  expect(again.body.inject).not.toContain('blue book');
  expect((await post('/api/memory/recall', { query: 'vault code blue book' })).body.results).toEqual([]);
});
