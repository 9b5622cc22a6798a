import { expect, test } from 'vitest';
import { serveDaemon } from '../helpers/daemon-server.ts';

test('a malformed patch is told in its own result; the others are done', async () => {
  const daemon = await serveDaemon();
  const { id } = (await daemon.post('/api/memory/remember', { content: 'heron' })).body;
  const patches = [
    null,
    'text',
    { importance: 0.2 },
    { id: [], importance: 0.2 },
    { id, importance: 7 },
    { id, fields: 3 },
    { id, pinned: true },
  ];
  const answer = await daemon.post('/api/memory/modify', { reason: 'tidy', patches });
  expect(answer).toMatchObject({ status: 200, body: { total: 7, updated: 1, success: false } });
  const { results } = answer.body;
  expect(results.map(({ status }: { status: string }) => status)).toEqual([...Array(6).fill('invalid_request'), 'updated']);
  expect(results[2].error).toContain('id must be');
  expect(results[4]).toMatchObject({ id, error: expect.stringContaining('importance') });
  expect(results[5]).toMatchObject({ id, error: expect.stringContaining('fields') });
  expect(await daemon.post('/api/memory/modify', { reason: 'tidy', patches: [] })).toMatchObject({ status: 400 });
});

test('a patch may hold its changes in fields', async () => {
  const daemon = await serveDaemon();
  const { id } = (await daemon.post('/api/memory/remember', { content: 'heron' })).body;
  const { id: other } = (await daemon.post('/api/memory/remember', { content: 'egret' })).body;
  const patches = [{ id, reason: 'seen', fields: { id: other, content: 'grey heron', tags: ['bird'] } }];
  expect((await daemon.post('/api/memory/modify', { patches })).body).toMatchObject({ updated: 1, results: [{ id, status: 'updated' }] });
  expect((await daemon.get(`/api/memory/${id}`)).body).toMatchObject({ content: 'grey heron', tags: 'bird' });
  expect((await daemon.get(`/api/memory/${other}`)).body).toMatchObject({ content: 'egret' });
});

test('a change of nothing, or of what cannot be changed, is refused by name', async () => {
  const daemon = await serveDaemon();
  const { id } = (await daemon.post('/api/memory/remember', { content: 'heron' })).body;
  const changes: [object, string][] = [
    [{}, 'content, type, importance, tags or pinned'],
    [{ colour: 'grey' }, 'nothing to change'],
    [{ visibility: 'archived' }, 'visibility'],
    [{ scope: 'private', importance: 0.9 }, 'scope'],
  ];
  for (const [change, told] of changes) {
    const body = { reason: 'tidy', ...change };
    for (const refused of [await daemon.call('PATCH', `/api/memory/${id}`, body), await daemon.post('/api/memory/modify', { id, ...body })])
      expect(refused).toMatchObject({ status: 400, body: { detail: expect.stringContaining(told) } });
    const batch = (await daemon.post('/api/memory/modify', { patches: [{ id, ...body }] })).body;
    expect(batch).toMatchObject({ updated: 0, results: [{ id, status: 'invalid_request', error: expect.stringContaining(told) }] });
  }
  expect(await daemon.post('/api/memory/remember', { content: 'egret', visibility: 'archived' })).toMatchObject({ status: 400 });
  expect((await daemon.get(`/api/memory/${id}`)).body).toMatchObject({ version: 1, scope: 'global', importance: 0.5 });
});

test('a summary longer than a memory may be is kept whole, and the answer says so', async () => {
  const daemon = await serveDaemon();
  const summary = 'heron '.repeat(20_000).trim();
  const { body } = await daemon.post('/api/hooks/compaction-complete', { sessionKey: 'k', summary });
  expect(body).toMatchObject({ success: true, warning: expect.stringContaining(`${summary.length} characters`) });
  expect((await daemon.get(`/api/memory/${body.memoryId}`)).body.content).toBe(summary);
  const short = (await daemon.post('/api/hooks/compaction-complete', { sessionKey: 'k', summary: 'herons' })).body;
  expect(short.warning).toBeUndefined();
});

test('hooks.sessionStart.includeIdentity: false keeps the identity in the answer, and out of the inject', async () => {
  const files = { 'agent.yaml': 'agent: {name: Heron}\nhooks: {sessionStart: {includeIdentity: false}}\n' };
  const daemon = await serveDaemon({ files });
  const { body } = await daemon.post('/api/hooks/session-start', { sessionKey: 'k' });
  expect(body.identity).toMatchObject({ name: 'Heron' });
  expect(body.inject).not.toContain('Heron');
});
