import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, expect, test } from 'vitest';
import { type Answer, call, hooksOf } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { type Signet, type SignetOptions, startSignet } from '../helpers/signet.ts';

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(options: SignetOptions = {}): Promise<Signet & { hook: ReturnType<typeof hooksOf> }> {
  const signet = await startSignet(options);
  closers.push(() => signet.close());
  return { ...signet, hook: hooksOf(signet.daemonUrl) };
}

const get = (signet: Signet, path: string): Promise<Answer> => call('GET', signet.daemonUrl + path);
const said = (...texts: string[]) => texts.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));

test('raw turns are kept once each, whatever a harness sends again, and outlive the session', async () => {
  const { hook, ...signet } = await start();
  const end = (transcript: unknown[], extra = {}) => hook('session-end', { sessionKey: 'k', transcript, ...extra });
  await hook('session-start', { sessionKey: 'k', project: '/p' });
  expect((await end(said('a', 'b'))).transcript).toEqual({ stored: 2, total: 2 });
  expect((await end(said('a', 'b', 'c', 'd'))).transcript).toEqual({ stored: 2, total: 4 });
  expect((await end([{ role: 'user', content: 'e', at: '2025-03-03T10:00:00Z' }])).transcript).toEqual({ stored: 1, total: 5 });
  expect((await end(said('a', 'b'))).transcript).toEqual({ stored: 0, total: 5 });

  const { body } = await get(signet, '/api/sessions/session:k/transcript');
  expect(body).toMatchObject({ sessionKey: 'k', agentId: 'default', harness: 'test', project: '/p', total: 5, next: null });
  expect(body.turns.map((turn: { number: number; content: string }) => `${turn.number}${turn.content}`)).toEqual([
    '1a',
    '2b',
    '3c',
    '4d',
    '5e',
  ]);
  expect(body.turns[4].at).toBe('2025-03-03T10:00:00.000Z');
  const page = (await get(signet, '/api/sessions/k/transcript?after=1&limit=2')).body;
  expect(page).toMatchObject({ turns: [{ number: 2 }, { number: 3 }], next: 3 });
  expect(await get(signet, '/api/sessions/nobody/transcript')).toMatchObject({ status: 404, body: { code: 'transcript_not_found' } });
});

test('equal keys of two agents are two transcripts, and neither is found by the other', async () => {
  const { hook, ...signet } = await start();
  for (const agentId of ['dot', 'rose'])
    await hook('session-end', { sessionKey: 'k', agentId, transcript: said(`the ${agentId} likes kestrels`) });
  for (const agentId of ['dot', 'rose']) {
    expect((await get(signet, `/api/sessions/k/transcript?agentId=${agentId}`)).body.turns).toMatchObject([
      { content: `the ${agentId} likes kestrels` },
    ]);
    const found = (await call('POST', `${signet.daemonUrl}/api/sessions/search`, { query: 'who likes kestrels?', agentId })).body;
    expect(found.results.map((hit: { content: string }) => hit.content)).toEqual([`the ${agentId} likes kestrels`]);
  }
  expect((await get(signet, '/api/sessions/k/transcript')).status).toBe(404);
  expect((await get(signet, '/api/sessions/agent:dot:k/transcript')).status).toBe(404);
});

test.each(['"quoted" NEAR(a b)', 'col:on -minus *star', '🙂', '', 'AND OR NOT', "'; DROP TABLE jobs; --", 'x'.repeat(10_000)])(
  'a search for %.30j is a search for words',
  async (query) => {
    const { hook, ...signet } = await start();
    await hook('session-end', { sessionKey: 'k', transcript: said('nothing of the kind') });
    expect((await call('POST', `${signet.daemonUrl}/api/sessions/search`, { query })).status).toBe(200);
  },
);

test('a transcript file is read where transcripts may lie, and only there', async () => {
  const roots = tempFolder({ 'logs/a.jsonl': '{"role":"user","content":"from a file"}\n' });
  const { hook, ...signet } = await start({ yaml: `memory:\n  transcripts: { roots: ['${roots}'] }\n` });
  const end = (transcriptPath: string) => hook('session-end', { sessionKey: 'f', transcriptPath });
  expect((await end(join(roots, 'logs/a.jsonl'))).transcript).toEqual({ stored: 1, total: 1 });
  mkdirSync(join(signet.folder, 'logs'));
  writeFileSync(join(signet.folder, 'logs', 'b.txt'), 'User: from the workspace\n');
  expect((await end('logs/b.txt')).transcript).toEqual({ stored: 1, total: 2 });

  for (const path of ['/etc/passwd', `${roots}/../../etc/passwd`, '~/.ssh/id_rsa', join(signet.folder, 'data/memory.db'), 'sqlite:dot:1']) {
    const { transcript } = await end(path);
    expect(transcript).toEqual({ stored: 0, total: 2, problem: expect.stringContaining(path) });
  }
  const claims = (await get(signet, '/api/sessions')).body;
  expect(claims.count).toBe(0);
});

verifies('hooks.compaction-complete.artifact', async () => {
  const { hook, ...signet } = await start();
  await hook('session-start', { sessionKey: 'c', project: '/from-start' });
  const { memoryId, transcript } = await hook('compaction-complete', {
    sessionKey: 'c',
    summary: 'The greenhouse has new windows.',
    transcript: said('windows?', 'ordered'),
  });
  expect(transcript).toEqual({ stored: 2, total: 2 });
  const { summaries } = (await get(signet, '/api/sessions/summaries?sessionKey=c')).body;
  expect(summaries).toMatchObject([
    {
      kind: 'compaction',
      depth: 0,
      memoryId,
      project: '/from-start',
      session_key: 'c',
      agent_id: 'default',
      content: 'The greenhouse has new windows.',
    },
  ]);
  const { body } = await call('POST', `${signet.daemonUrl}/api/hooks/synthesis`, {});
  expect(body.prompt).toContain('The greenhouse has new windows.');
  // Another agent's graph is another graph.
  expect((await get(signet, '/api/sessions/summaries?sessionKey=c&agentId=dot')).body.total).toBe(0);
});

test('a forgotten summary is told nowhere, a recovered one again, a modified one in its new words', async () => {
  const { hook, ...signet } = await start();
  const told = async (words: string) => ({
    prompt: (await hook('user-prompt-submit', { sessionKey: 'now', prompt: `what about the ${words}?` })).inject.includes(words),
    synthesis: (await call('POST', `${signet.daemonUrl}/api/hooks/synthesis`, {})).body.prompt.includes(words),
    listed: (await get(signet, '/api/sessions/summaries')).body.summaries.some((node: { content: string }) => node.content.includes(words)),
  });
  const everywhere = (value: boolean) => ({ prompt: value, synthesis: value, listed: value });
  const { memoryId } = await hook('compaction-complete', { sessionKey: 'a', summary: 'We keep the wooden giraffe in the cellar.' });
  const path = `${signet.daemonUrl}/api/memory/${memoryId}`;
  await call('DELETE', path, { reason: 'not true' });
  expect(await told('wooden giraffe')).toEqual(everywhere(false));
  expect((await get(signet, '/api/sessions/summaries')).body.total).toBe(0);

  expect((await call('POST', `${path}/recover`, { reason: 'true after all' })).status).toBe(200);
  expect(await told('wooden giraffe')).toEqual(everywhere(true));
  await call('PATCH', path, { content: 'We keep the marble ostrich in the attic.', reason: 'corrected' });
  expect(await told('marble ostrich')).toEqual(everywhere(true));
  expect(await told('wooden giraffe')).toEqual(everywhere(false));
});

test('what an archived agent left behind is not told, and one set up anew under its name starts anew', async () => {
  const { hook, ...signet } = await start();
  const own = { agentId: 'dot', harness: 'test' };
  const ask = () => hook('user-prompt-submit', { sessionKey: 'now', agentId: 'dot', prompt: 'what about the brass telescope?' });
  const create = () => call('POST', `${signet.daemonUrl}/api/agents`, { name: 'dot' });
  await create();
  await hook('session-end', { ...own, sessionKey: 'old', transcript: said('The brass telescope stands at the window.') });
  await hook('compaction-complete', { ...own, sessionKey: 'old', summary: 'The brass telescope was cleaned.' });
  expect((await call('DELETE', `${signet.daemonUrl}/api/agents/dot`)).status).toBe(200);
  await create();
  expect((await ask()).inject).not.toMatch(/telescope (?:stands|was)/);
  expect((await get(signet, '/api/sessions/summaries?agentId=dot')).body.total).toBe(0);
  await hook('session-end', { ...own, sessionKey: 'new', transcript: said('The brass telescope was sold in May.') });
  expect((await ask()).inject).toContain('sold in May');
});

verifies(
  ['hooks.user-prompt-submit.order.structured', 'hooks.user-prompt-submit.order.temporal', 'hooks.user-prompt-submit.order.transcript'],
  async () => {
    const { hook, ...signet } = await start();
    const prompt = 'what about the copper kettle from Lisbon?';
    const ask = () => hook('user-prompt-submit', { sessionKey: 'now', prompt });
    expect((await ask()).inject).toContain('No strong memory match');

    await hook('session-end', { sessionKey: 'earlier', transcript: said('The copper kettle from Lisbon leaks at the spout.') });
    const third = await ask();
    expect(third).toMatchObject({ engine: 'transcript', strong: false, memoryCount: 0 });
    expect(third.inject).toMatch(/## Relevant Memory\n[\s\S]*Said in earlier sessions[\s\S]*- user: The copper kettle from Lisbon leaks/);

    await hook('compaction-complete', { sessionKey: 'of-dot', agentId: 'dot', summary: 'The copper kettle from Lisbon is of dot.' });
    expect((await ask()).engine).toBe('transcript');
    const { memoryId } = await hook('compaction-complete', {
      sessionKey: 'earlier',
      summary: 'The copper kettle from Lisbon went to repair.',
    });
    // A summary that background work wrote has no memory of its own: only the thread speaks.
    const db = new DatabaseSync(join(signet.folder, 'data', 'memory.db'));
    db.exec('UPDATE temporal_nodes SET memory_id = NULL');
    db.close();
    await call('DELETE', `${signet.daemonUrl}/api/memory/${memoryId}`, { reason: 'told by its thread' });
    const second = await ask();
    expect(second).toMatchObject({ engine: 'temporal', strong: false, memoryCount: 0 });
    expect(second.inject).toMatch(/Summaries of earlier sessions[\s\S]*- The copper kettle from Lisbon went to repair\. \(compaction, /);
    expect(second.inject).not.toContain('leaks');

    await call('POST', `${signet.daemonUrl}/api/memory/remember`, { content: 'The copper kettle from Lisbon costs forty euros.' });
    const first = await ask();
    expect(first).toMatchObject({ strong: true, memoryCount: 1 });
    expect(first.inject).toContain('forty euros');
    expect(first.inject).not.toContain('went to repair');
  },
);

test('small talk finds nothing in transcripts, and the inject keeps to its size', async () => {
  const { hook } = await start();
  await hook('session-end', { sessionKey: 'a', transcript: said('great, thanks a lot', `the heron report ${'is long '.repeat(2_000)}`) });
  expect((await hook('user-prompt-submit', { sessionKey: 'b', prompt: 'thanks, great' })).inject).toContain('No strong memory match');
  const { inject, engine } = await hook('user-prompt-submit', { sessionKey: 'b', prompt: 'the heron report please' });
  expect(engine).toBe('transcript');
  expect(inject.length).toBeLessThanOrEqual(1_600);
});

test('every tenth prompt leaves a checkpoint that a session which broke off starts from', async () => {
  const folder = tempFolder();
  const first = await startSignet({ folder });
  const hook = hooksOf(first.daemonUrl);
  await hook('session-start', { sessionKey: 'broke' });
  for (let number = 1; number <= 9; number += 1)
    await hook('user-prompt-submit', { sessionKey: 'broke', prompt: `step ${number} of the plan` });
  expect((await get(first, '/api/sessions/broke/continuity')).body.checkpoint).toBeNull();
  await first.close();

  const { hook: again, ...signet } = await start({ folder });
  await again('user-prompt-submit', { sessionKey: 'broke', prompt: 'step 10 with API_KEY=abcdef0123456789' });
  const { checkpoint } = (await get(signet, '/api/sessions/broke/continuity')).body;
  expect(checkpoint.text.split('\n')).toHaveLength(10);
  expect(checkpoint.text).toContain('step 10 with API_KEY=[redacted]');
  expect((await again('session-start', { sessionKey: 'broke' })).inject).toMatch(/> step 1 of the plan/);
  expect((await again('session-start', { sessionKey: 'other' })).inject).not.toContain('of the plan');

  // An end with words takes its place.
  await again('session-end', { sessionKey: 'broke', transcript: said('all steps are done') });
  const { inject } = await again('session-start', { sessionKey: 'broke' });
  expect(inject).toContain('all steps are done');
  expect(inject).not.toContain('step 10');
});

test('a session that ends without a transcript goes on from its prompts', async () => {
  const { hook } = await start();
  await hook('user-prompt-submit', { sessionKey: 'short', prompt: 'paint the shed red' });
  expect(await hook('session-end', { sessionKey: 'short' })).toEqual({ memoriesSaved: 0 });
  expect((await hook('session-start', { sessionKey: 'short' })).inject).toContain('> paint the shed red');
});

test('what a session would start from can be looked at after its end, and after a compaction', async () => {
  const { hook, ...signet } = await start();
  const continuity = async (key: string, agentId: string) =>
    (await get(signet, `/api/sessions/${key}/continuity?agentId=${agentId}`)).body.checkpoint;
  const own = { sessionKey: 'thread', agentId: 'rose' };
  await hook('user-prompt-submit', { ...own, prompt: 'paint the shed red' });
  expect(await continuity('thread', 'rose')).toBeNull();
  await hook('session-end', { ...own, transcript: said('paint the shed red', 'done, with API_KEY=abcdef0123456789') });
  expect(await continuity('thread', 'rose')).toEqual({
    text: 'user: paint the shed red\nassistant: done, with API_KEY=[redacted]',
    at: expect.stringMatching(/Z$/),
  });
  await hook('compaction-complete', { ...own, summary: 'The shed is red.' });
  expect((await continuity('thread', 'rose')).text).toBe('The shed is red.');
  expect((await continuity('session:thread', 'rose')).text).toBe('The shed is red.');
  expect(await continuity('thread', 'default')).toBeNull();
});

test('a bypassed session leaves neither turns nor jobs, and one that is cleared neither', async () => {
  const { hook, ...signet } = await start();
  await hook('session-start', { sessionKey: 'quiet', bypass: true });
  expect(await hook('session-end', { sessionKey: 'quiet', transcript: said('hush') })).toMatchObject({ bypassed: true });
  await hook('session-end', { sessionKey: 'cleared', reason: 'clear', transcript: said('away with it') });
  for (const key of ['quiet', 'cleared']) expect((await get(signet, `/api/sessions/${key}/transcript`)).status).toBe(404);
  expect((await get(signet, '/api/jobs')).body.jobs).toEqual([]);
});

test('with extraction switched off turns are kept and nothing is queued', async () => {
  const { hook, ...signet } = await start({ yaml: 'memory:\n  extraction: { enabled: false }\n' });
  expect(await hook('session-end', { sessionKey: 'k', transcript: said('a', 'b') })).toMatchObject({
    queued: false,
    transcript: { stored: 2 },
  });
  expect((await get(signet, '/api/jobs')).body.jobs).toEqual([]);
});

test('a key that was said reaches no inject and no checkpoint; the raw turn stays', async () => {
  const { hook, ...signet } = await start();
  const key = `sk-ant-api03-${'x1Y2'.repeat(10)}`;
  const turns = said(`the heron service uses the key ${key}`);
  await hook('session-end', { sessionKey: 'k', transcript: turns });
  const asked = await hook('user-prompt-submit', { sessionKey: 'other', prompt: 'what does the heron service use?' });
  expect(asked).toMatchObject({ engine: 'transcript', inject: expect.stringContaining('heron service uses the key [redacted]') });
  const { inject } = await hook('session-start', { sessionKey: 'k', resume: true });
  expect(inject).toContain('Where The Last Session Ended');
  expect(asked.inject + inject).not.toContain('api03');

  await hook('compaction-complete', { sessionKey: 'k', summary: `The heron service has ${key}.` });
  expect((await hook('session-start', { sessionKey: 'k', resume: true })).inject).toMatch(
    /Checkpoint\n+> The heron service has \[redacted/,
  );
  const { summaryPrompt } = await hook('pre-compaction', { sessionKey: 'k', sessionContext: `it said ${key}` });
  expect(summaryPrompt).toContain('it said [redacted]');
  const { body } = await call('POST', `${signet.daemonUrl}/api/hooks/synthesis`, {});
  expect(body.prompt).not.toContain('api03');
  expect((await get(signet, '/api/sessions/k/transcript')).body.turns).toMatchObject(turns);
});
