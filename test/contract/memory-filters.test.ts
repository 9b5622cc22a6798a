import { expect, test } from 'vitest';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const remember = async (daemon: DaemonServer, body: object) => (await daemon.post('/api/memory/remember', body)).body;
const contents = (found: { readonly content: string }[]) => found.map(({ content }) => content).sort();

/** Four memories about herons that differ in one filter each. */
async function serveHerons(): Promise<DaemonServer> {
  const daemon = await serveDaemon();
  const of = (content: string, fields: object = {}) => remember(daemon, { agentId: 'dot', type: 'note', content, ...fields });
  await of('heron plain');
  await of('heron private', { scope: 'private' });
  await of('heron project', { project: '/marsh' });
  await of('heron pinned', { pinned: true, importance: 0.9 });
  return daemon;
}

test.each([
  [{ scope: 'private' }, ['heron private']],
  [{ visibility: 'private' }, ['heron private']],
  [{ project: '/marsh' }, ['heron project']],
  [{ pinned: true }, ['heron pinned']],
  [{ importance_min: 0.8 }, ['heron pinned']],
])('forget narrows by %o, with and without a query, and takes nothing else', async (filter, expected) => {
  for (const query of [{}, { query: 'heron' }]) {
    const daemon = await serveHerons();
    const asked = { agentId: 'dot', type: 'note', reason: 'old', force: true, ...query, ...filter };
    const preview = (await daemon.post('/api/memory/forget', asked)).body;
    expect(preview.count).toBe(expected.length);
    expect((await daemon.post('/api/memory/forget', { ...asked, mode: 'execute' })).body).toMatchObject({ deleted: expected.length });
    const { memories } = (await daemon.get('/api/memories?agentId=dot&forgotten=1')).body;
    expect(contents(memories)).toEqual(expected);
  }
});

test('forget refuses a filter it does not know, and ids that do not fit the filters beside them, and forgets nothing', async () => {
  const daemon = await serveHerons();
  const [{ id }] = (await daemon.get('/api/memories?agentId=dot&project=/marsh')).body.memories;
  const refusals: [object, string][] = [
    [{ type: 'note', colour: 'blue' }, '/colour'],
    [{ type: 'note', scope: 'archived' }, '/scope'],
    [{ type: 'note', ids: [] }, '/ids'],
    [{ tags: [] }, '/ids'],
    [{ importance_min: null }, '/importance_min'],
    [{ type: 'note', scope: 'global', visibility: 'private' }, '/visibility'],
  ];
  for (const [body, pointer] of refusals) {
    const refused = await daemon.post('/api/memory/forget', { agentId: 'dot', mode: 'execute', reason: 'old', force: true, ...body });
    expect(refused, pointer).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  }
  const elsewhere = { agentId: 'dot', ids: [id], project: '/desert', mode: 'execute', reason: 'old' };
  for (const body of [elsewhere, { ...elsewhere, ids: undefined, id }, { ...elsewhere, project: '/marsh', pinned: true }]) {
    expect(await daemon.post('/api/memory/forget', body)).toMatchObject({ status: 404, body: { code: 'memory_not_found' } });
  }
  expect((await daemon.get('/api/memories?agentId=dot')).body.total).toBe(4);
  expect((await daemon.post('/api/memory/forget', { ...elsewhere, project: '/marsh' })).body.deleted).toBe(1);
});

test('recall, search and lists narrow by scope and by its older name, and never widen', async () => {
  const daemon = await serveHerons();
  await remember(daemon, { agentId: 'ink', content: 'heron of ink', scope: 'private' });
  for (const name of ['scope', 'visibility']) {
    const recalled = (await daemon.post('/api/memory/recall', { agentId: 'dot', query: 'heron', [name]: 'private' })).body;
    expect(contents(recalled.results)).toEqual(['heron private']);
    const global = (await daemon.post('/api/hooks/recall', { agentId: 'dot', query: 'heron', [name]: 'global' })).body;
    expect(contents(global.results)).toEqual(['heron pinned', 'heron plain', 'heron project']);
    for (const path of ['/api/memory/search?q=heron&', '/memory/search?q=heron&', '/memory/search?', '/api/memories?']) {
      const { results, memories } = (await daemon.get(`${path}agentId=dot&${name}=private`)).body;
      expect(contents(results ?? memories), path).toEqual(['heron private']);
      expect((await daemon.get(`${path}${name}=archived`)).status, path).toBe(400);
    }
    expect((await daemon.post('/api/memory/recall', { query: 'heron', [name]: 'private' })).body.results).toEqual([]);
  }
});

test('a session key that names its agent names it on memory routes too; agentId and the header come first', async () => {
  const daemon = await serveDaemon();
  const sessionKey = 'agent:alice:main';
  const { id, agentId } = await remember(daemon, { content: 'heron in the reeds', scope: 'private', sessionKey });
  expect(agentId).toBe('alice');
  expect((await daemon.post('/api/memory/recall', { query: 'heron', sessionKey: `session:${sessionKey}` })).body.count).toBe(1);
  for (const path of [`/api/memory/${id}`, '/api/memories', '/api/memory/search?q=heron', '/memory/search?q=heron']) {
    const sign = path.includes('?') ? '&' : '?';
    const { results, memories, id: read } = (await daemon.get(`${path}${sign}sessionKey=${sessionKey}`)).body;
    expect(read ?? (results ?? memories)[0]?.id, path).toBe(id);
  }
  const asked = { query: 'heron', sessionKey };
  expect((await daemon.post('/api/memory/recall', { ...asked, agentId: 'bob' })).body.count).toBe(0);
  expect((await daemon.post('/api/memory/recall', asked, { 'x-signet-agent-id': 'bob' })).body.count).toBe(0);
  const change = { id, sessionKey, reason: 'seen again' };
  expect((await daemon.post('/api/memory/modify', { ...change, importance: 0.9 })).body.updated).toBe(1);
  expect((await daemon.call('PATCH', `/api/memory/${id}`, { ...change, pinned: true })).body.status).toBe('updated');
  expect((await daemon.post('/api/memory/forget', { ...change, force: true })).body.deleted).toBe(1);
});

test('memories like one are found by its id, that one and what the caller may not see left out', async () => {
  const daemon = await serveHerons();
  const { id } = (await daemon.get('/api/memories?agentId=dot&scope=private')).body.memories[0];
  const similar = (query: string) => daemon.get(`/memory/similar?id=${id}&${query}`);
  expect(contents((await similar('agentId=dot')).body.results)).toEqual(['heron pinned', 'heron plain', 'heron project']);
  expect((await similar('agentId=dot&k=1')).body.results).toMatchObject([{ type: 'note', tags: [], score: expect.any(Number) }]);
  expect((await similar('agentId=dot&type=rule')).body.results).toEqual([]);
  expect(await similar('k=1')).toMatchObject({ status: 404, body: { code: 'memory_not_found' } });
  expect((await daemon.get('/memory/similar')).status).toBe(400);
});

test('the timeline counts today, the week and the month before it, each memory once', async () => {
  const daemon = await serveDaemon();
  const dayMs = 86_400_000;
  const todayMs = daemon.clock.ms - (daemon.clock.ms % dayMs);
  for (const [days, ms] of [
    [0, 0],
    [0, -1],
    [7, 0],
    [7, -1],
    [37, 0],
    [37, -1],
  ] as const) {
    await remember(daemon, { content: `heron ${days} ${ms}`, createdAt: new Date(todayMs - days * dayMs + ms).toISOString() });
  }
  await remember(daemon, { content: 'heron of ink', agentId: 'ink', scope: 'private' });
  const { buckets } = (await daemon.get('/api/memory/timeline?limit=1')).body;
  expect(buckets.map(({ name, count }: { name: string; count: number }) => [name, count])).toEqual([
    ['today', 1],
    ['week', 2],
    ['month', 2],
  ]);
  expect(buckets[1].memories).toMatchObject([{ content: 'heron 0 -1' }]);
});

test('a runtimePath that is neither plugin nor legacy is refused by name; an empty one is none', async () => {
  const daemon = await serveDaemon();
  const start = (runtimePath: unknown) => daemon.post('/api/hooks/session-start', { sessionKey: 'k', runtimePath });
  expect(await start('zzz')).toMatchObject({ status: 400, body: { errors: [{ pointer: '/runtimePath' }] } });
  for (const path of ['', null, 'plugin']) expect((await start(path)).status).toBe(200);
});
