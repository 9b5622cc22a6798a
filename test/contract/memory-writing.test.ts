import { expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const DAY_MS = 86_400_000;

const remember = async (daemon: DaemonServer, body: object) => (await daemon.post('/api/memory/remember', body)).body;
const forget = (daemon: DaemonServer, id: string, body: object = {}) =>
  daemon.call('DELETE', `/api/memory/${id}`, { reason: 'no longer true', ...body });

test('tags are taken as a list, as text, and as a prefix of the content', async () => {
  const daemon = await serveDaemon();
  expect(await remember(daemon, { content: 'one', tags: ['a', 'b c'] })).toMatchObject({ tags: 'a,b c' });
  expect(await remember(daemon, { content: 'two', tags: ' a, b c ,a' })).toMatchObject({ tags: 'a,b c' });
  expect(await remember(daemon, { content: '[a,b c]: three' })).toMatchObject({ tags: 'a,b c', content: 'three' });
  expect((await daemon.post('/api/hooks/remember', { content: 'four', tags: ['a'] })).body).toMatchObject({ saved: true });
  const listed = (await daemon.get('/api/memories?tags=a')).body;
  expect(listed.total).toBe(4);
  expect((await daemon.get('/api/memories?tags=b%20c')).body.total).toBe(3);
});

test('unknown fields are ignored, on hooks and on the memory API', async () => {
  const daemon = await serveDaemon();
  expect(await remember(daemon, { content: 'likes tea', mode: 'auto', runtimePath: 'plugin', extra: { deep: 1 } })).toMatchObject({
    success: true,
  });
  expect((await daemon.post('/api/hooks/session-start', { projectPath: '/p', unheard: true })).status).toBe(200);
  expect((await daemon.get('/api/memories?colour=blue')).status).toBe(200);
});

test('an empty agentId, or null, is none, on hooks and on the memory API', async () => {
  const daemon = await serveDaemon();
  for (const agentId of ['', null]) {
    const hook = async (name: string, body: object) =>
      (await daemon.post(`/api/hooks/${name}`, { agentId, sessionKey: 'k', ...body })).status;
    expect(await remember(daemon, { agentId, content: 'The heron nests in the alder' })).toMatchObject({
      agentId: 'default',
      scope: 'global',
    });
    expect(await hook('session-start', {})).toBe(200);
    expect(await hook('remember', { content: 'likes tea' })).toBe(200);
    expect((await daemon.post('/api/memory/recall', { agentId, query: 'where does the heron nest?' })).body.count).toBe(1);
    expect((await daemon.get('/api/sessions/k')).body.agentId).toBe('default');
    expect(await hook('session-end', {})).toBe(200);
  }
  expect((await daemon.get('/api/memories?agentId=')).body.total).toBe(2);
  expect((await daemon.get('/api/sessions/k/continuity?agentId=')).body.agentId).toBe('default');
  expect(await daemon.post('/api/memory/remember', { agentId: 'No Name', content: 'x' })).toMatchObject({ status: 400 });
});

test('a recovery meets a living memory of the same content: 409 duplicate_content_hash, and which one it is', async () => {
  const daemon = await serveDaemon();
  const old = await remember(daemon, { content: 'The cellar key is under the mat' });
  await forget(daemon, old.id);
  const twin = await remember(daemon, { content: 'the cellar key is under the mat.' });
  expect(twin.id).not.toBe(old.id);
  const refused = await daemon.post(`/api/memory/${old.id}/recover`);
  expect(refused).toMatchObject({ status: 409, body: { code: 'duplicate_content_hash', duplicateMemoryId: twin.id } });
  await forget(daemon, twin.id);
  expect((await daemon.post(`/api/memory/${old.id}/recover`, { reason: 'found again' })).body).toMatchObject({
    ...{ id: old.id, status: 'recovered', success: true, newVersion: 3, retentionDays: 30 },
  });
  expect((await daemon.post('/api/memory/recall', { query: 'cellar key' })).body.results).toMatchObject([{ id: old.id }]);
  expect(await daemon.post(`/api/memory/${old.id}/recover`)).toMatchObject({ status: 409, body: { code: 'memory_not_deleted' } });
});

test('a forgotten memory can be recovered for 30 days; then it is refused, and erased with its history', async () => {
  const daemon = await serveDaemon({ background: true });
  const { id } = await remember(daemon, { content: 'The cellar key is under the mat' });
  const { id: later } = await remember(daemon, { content: 'The attic key is in the drawer' });
  await forget(daemon, id);
  daemon.clock.ms += DAY_MS;
  await forget(daemon, later);
  daemon.clock.ms += 29 * DAY_MS;
  expect(await daemon.post(`/api/memory/${id}/recover`)).toMatchObject({ status: 409, body: { code: 'retention_expired' } });

  await daemon.restart();
  await expect.poll(async () => (await daemon.post(`/api/memory/${id}/recover`)).body.code).toBe('memory_not_found');
  expect((await daemon.post(`/api/memory/${later}/recover`)).status).toBe(200);
  expect((await daemon.get('/api/memories/export?all=1')).body).not.toContain('cellar');
});

test('the history tells each version with its reason, author, changed fields and the contents before and after', async () => {
  const daemon = await serveDaemon();
  const { id } = await remember(daemon, { content: 'The mill has four sails', sessionKey: 's1' });
  const patch = (body: object, headers?: Record<string, string>) => daemon.call('PATCH', `/api/memory/${id}`, body, headers);
  const actor = { 'x-signet-actor': 'miller', 'x-signet-actor-type': 'harness', 'x-signet-session-id': 's2', 'x-request-id': 'req-7' };
  await patch({ reason: 'recounted', content: 'The mill has five sails', importance: 0.9 }, actor);
  expect(await patch({ reason: 'stale', content: 'x', if_version: 1 })).toMatchObject({
    ...{ status: 409, body: { code: 'version_conflict', currentVersion: 2 } },
  });
  expect((await patch({ reason: 'same', importance: 0.9 })).body).toMatchObject({ status: 'no_changes', success: true });
  await forget(daemon, id);
  await daemon.post(`/api/memory/${id}/recover`);

  const { body } = await daemon.get(`/api/memory/${id}/history`);
  expect(body).toMatchObject({ memoryId: id, count: 4 });
  expect(body.history).toMatchObject([
    { event: 'created', version: 1, sessionId: 's1', newContent: 'The mill has four sails' },
    {
      ...{
        event: 'updated',
        version: 2,
        reason: 'recounted',
        changedBy: 'miller',
        actorType: 'harness',
        sessionId: 's2',
        requestId: 'req-7',
      },
      ...{ changedFields: ['content', 'importance'], oldContent: 'The mill has four sails', newContent: 'The mill has five sails' },
    },
    { event: 'deleted', version: 3, reason: 'no longer true' },
    { event: 'recovered', version: 4, reason: 'recovered' },
  ]);
  expect((await daemon.get(`/api/memory/${id}/history?limit=1`)).body.history).toMatchObject([{ event: 'recovered' }]);
});

test('forgotten memories are listed as long as they can be recovered, the last forgotten first, and for their readers alone', async () => {
  const daemon = await serveDaemon();
  const first = await remember(daemon, { content: 'The cellar key is under the mat' });
  const second = await remember(daemon, { content: 'The attic key is in the drawer', type: 'rule' });
  const secret = await remember(daemon, { content: 'The safe is behind the clock', agentId: 'rose', scope: 'private' });
  await remember(daemon, { content: 'The kettle is green' });
  await forget(daemon, first.id);
  daemon.clock.ms += DAY_MS;
  await forget(daemon, second.id);
  await daemon.call('DELETE', `/api/memory/${secret.id}?agentId=rose`, { reason: 'no longer true', agentId: 'rose' });
  const list = async (query = '') => (await daemon.get(`/api/memories?forgotten=1${query}`)).body;
  const listed = await list();
  expect(listed).toMatchObject({
    total: 2,
    next: null,
    memories: [{ id: second.id }, { id: first.id, content: 'The cellar key is under the mat' }],
  });
  const { deleted_at: at, recoverable_until: until } = listed.memories[1];
  expect(Date.parse(until) - Date.parse(at)).toBe(30 * DAY_MS);
  expect((await list('&type=rule')).memories).toMatchObject([{ id: second.id }]);
  expect((await list('&limit=1')).next).toBe(1);
  expect((await list('&agentId=rose')).memories.map(({ id }: { id: string }) => id)).toContain(secret.id);
  expect((await list('&agentId=ben')).total).toBe(2);
  daemon.clock.ms += 29 * DAY_MS + 1;
  expect((await list()).memories).toMatchObject([{ id: second.id }]);
  await daemon.post(`/api/memory/${second.id}/recover`);
  expect((await list()).total).toBe(0);
  expect((await daemon.get('/api/memories')).body.memories[0]).not.toHaveProperty('deleted_at');
});

test('a memory takes the place of an older one: the older is kept and marked, and stands again when the newer is forgotten', async () => {
  const daemon = await serveDaemon();
  const old = await remember(daemon, { content: 'Deploys run on Monday', type: 'decision' });
  const now = await remember(daemon, { content: 'Ship whenever main is green', supersedes: old.id });
  const link = async (id: string) => {
    const { body } = await daemon.get(`/api/memory/${id}`);
    return [body.supersedes, body.superseded_by];
  };
  expect([await link(old.id), await link(now.id)]).toEqual([
    [null, now.id],
    [old.id, null],
  ]);
  expect((await daemon.get(`/api/memory/${old.id}/history`)).body.history.at(-1)).toMatchObject({
    event: 'superseded',
    reason: `superseded by ${now.id}`,
  });
  await forget(daemon, now.id);
  expect(await link(old.id)).toEqual([null, null]);
  await daemon.post(`/api/memory/${now.id}/recover`);
  expect(await link(old.id)).toEqual([null, now.id]);
  // Said again, the old one is the newest once more.
  await remember(daemon, { content: 'deploys run on Monday.' });
  expect([await link(old.id), await link(now.id)]).toEqual([
    [now.id, null],
    [old.id, old.id],
  ]);
  const refused = await daemon.post('/api/memory/remember', { content: 'x', supersedes: 'nothing' });
  expect(refused).toMatchObject({ status: 404, body: { code: 'memory_not_found', errors: [{ pointer: '/supersedes' }] } });
});

test('a private memory takes the place of a global one for nobody else, and nobody supersedes what it cannot see', async () => {
  const daemon = await serveDaemon();
  const shared = await remember(daemon, { content: 'The office is in Berlin' });
  const own = await remember(daemon, { content: 'My desk is in Lisbon', agentId: 'dot', scope: 'private', supersedes: shared.id });
  expect(own.supersedes).toBe(shared.id);
  expect((await daemon.get(`/api/memory/${shared.id}`)).body.superseded_by).toBeNull();
  const refused = await daemon.post('/api/memory/remember', { content: 'x', agentId: 'rose', supersedes: own.id });
  expect(refused.status).toBe(404);
});

test('an idempotency key makes one memory of many tries, whatever they say', async () => {
  const daemon = await serveDaemon();
  const first = await remember(daemon, { content: 'The heron nests in the alder', idempotencyKey: 'k1' });
  const again = await remember(daemon, { content: 'The heron nests in the alder tree', idempotencyKey: 'k1' });
  expect(again).toMatchObject({ id: first.id, deduped: true, content: 'The heron nests in the alder' });
  expect(await remember(daemon, { content: 'A private one', idempotencyKey: 'k1', agentId: 'dot', scope: 'private' })).not.toMatchObject({
    id: first.id,
  });
});

test('a batch of changes: each stands for itself, bad ones say why', async () => {
  const daemon = await serveDaemon();
  const [a, b] = [await remember(daemon, { content: 'Alder' }), await remember(daemon, { content: 'Birch' })];
  const patches = [
    { id: a.id, importance: 1, if_version: 1 },
    { id: b.id, content: 'alder', reason: 'own reason' },
    { id: b.id, importance: 7 },
    { id: 'none', pinned: true },
    { id: b.id, tags: ['tree'], if_version: 9 },
  ];
  const { body } = await daemon.post('/api/memory/modify', { patches, reason: 'sorting', changed_by: 'gardener' });
  expect(body).toMatchObject({ total: 5, updated: 1, success: false });
  expect(body.results.map((item: { status: string }) => item.status)).toEqual([
    ...['updated', 'duplicate_content_hash', 'invalid_request', 'memory_not_found', 'version_conflict'],
  ]);
  expect((await daemon.get(`/api/memory/${a.id}/history`)).body.history.at(-1)).toMatchObject({ reason: 'sorting', changedBy: 'gardener' });
  expect((await daemon.post('/api/memory/modify', { id: a.id, reason: 'one', pinned: true })).body).toMatchObject({
    updated: 1,
    success: true,
  });
  expect((await daemon.post('/api/memory/modify', { patches: Array(201).fill({ id: 'x' }) })).status).toBe(400);
});

test('forgetting by filter is shown first, and beyond 25 needs the token of that very set', async () => {
  const daemon = await serveDaemon();
  for (let index = 0; index < 30; index += 1)
    await remember(daemon, { content: `Sighting number ${index}`, type: 'sighting', pinned: index === 0 });
  const ask = (body: object) => daemon.post('/api/memory/forget', { type: 'sighting', limit: 200, ...body });

  const preview = (await ask({})).body;
  expect(preview).toMatchObject({ mode: 'preview', count: 30, deleted: 0, requiresConfirm: true });
  expect(preview.candidates[0]).toEqual({ id: expect.any(String), score: 1, pinned: expect.any(Boolean), version: 1 });
  const refused = await ask({ mode: 'execute', reason: 'cleaning up' });
  expect(refused).toMatchObject({
    status: 400,
    body: { code: 'confirmation_required', requiresConfirm: true, count: 30, confirmToken: preview.confirmToken },
  });
  expect((await ask({ mode: 'execute', reason: 'x', limit: 26, confirm_token: preview.confirmToken })).status).toBe(400);
  const camel = {
    mode: 'execute',
    reason: 'x',
    type: 'whatever',
    ids: Array(26)
      .fill(0)
      .map((_, index) => `no-${index}`),
  };
  const token = (await daemon.post('/api/memory/forget', camel)).body.confirmToken;
  expect(await daemon.post('/api/memory/forget', { ...camel, confirmToken: token })).toMatchObject({
    status: 200,
    body: { requested: 26 },
  });
  const done = (await ask({ mode: 'execute', reason: 'cleaning up', confirm_token: preview.confirmToken })).body;
  expect(done).toMatchObject({ mode: 'execute', requested: 30, deleted: 29, success: false });
  expect(done.results.filter((item: { status: string }) => item.status === 'memory_pinned')).toHaveLength(1);
  expect((await ask({ mode: 'execute', reason: 'and the last', force: true })).body).toMatchObject({ deleted: 1, success: true });
});

test('forgetting by query takes what the query finds; without any choice, and with a version for several, it is refused', async () => {
  const daemon = await serveDaemon();
  const heron = await remember(daemon, { content: 'The heron nests in the alder' });
  const otter = await remember(daemon, { content: 'The otter sleeps below the bridge' });
  expect((await daemon.post('/api/memory/forget', { query: 'heron alder' })).body.candidates).toMatchObject([{ id: heron.id }]);
  expect((await daemon.post('/api/memory/forget', { mode: 'execute', reason: 'x' })).body).toMatchObject({ code: 'invalid_request' });
  expect((await daemon.post('/api/memory/forget', { ids: [heron.id], if_version: 1 })).body.errors).toMatchObject([
    { pointer: '/if_version' },
  ]);
  expect((await daemon.post('/api/memory/forget', { id: otter.id, reason: 'x', if_version: 2 })).body.code).toBe('version_conflict');
  expect((await daemon.post('/api/memory/forget', { ids: [heron.id, 'none'], mode: 'execute', reason: 'x' })).body.results).toMatchObject([
    { id: heron.id, status: 'deleted', newVersion: 2 },
    { id: 'none', status: 'memory_not_found' },
  ]);
});

test('a pipeline may not force a pinned memory out', async () => {
  const daemon = await serveDaemon();
  const { id } = await remember(daemon, { content: 'critical: never deploy on Friday' });
  expect((await forget(daemon, id)).body.code).toBe('memory_pinned');
  const forced = await daemon.call('DELETE', `/api/memory/${id}`, { reason: 'x', force: true }, { 'x-signet-actor-type': 'pipeline' });
  expect(forced).toMatchObject({ status: 403, body: { code: 'forbidden' } });
  expect((await forget(daemon, id, { force: true })).status).toBe(200);
});

verifies('memory.feedback.endpoint', 'per session and memory; those of unknown and foreign memories are not counted', async () => {
  const daemon = await serveDaemon();
  const shared = await remember(daemon, { content: 'The office is in Berlin' });
  const foreign = await remember(daemon, { content: 'Rose likes tea', agentId: 'rose', scope: 'private' });
  const rate = (body: object) => daemon.post('/api/memory/feedback', body);
  const feedback = { [shared.id]: 1, [foreign.id]: 1, none: -1 };
  expect((await rate({ sessionKey: 'session:s', feedback })).body).toEqual({ ok: true, success: true, recorded: 1 });
  expect((await rate({ session_key: 's', ratings: { [shared.id]: -0.5 } })).body.recorded).toBe(1);
  expect((await rate({ sessionKey: 's', feedback: { [shared.id]: 1.5 } })).status).toBe(400);
  expect((await rate({ feedback })).body.errors).toMatchObject([{ pointer: '/sessionKey' }]);
  expect((await rate({ sessionKey: 's' })).body.errors).toMatchObject([{ pointer: '/feedback' }]);
});

verifies('memory.list.endpoint', 'page by page without gaps or repeats, newest first, and filtered', async () => {
  const daemon = await serveDaemon();
  for (let index = 0; index < 25; index += 1) {
    daemon.clock.ms += 1_000;
    await remember(daemon, { content: `Note number ${index}`, type: index % 2 ? 'odd' : 'even', importance: index === 3 ? 0.95 : 0.5 });
  }
  const seen: string[] = [];
  for (let next: number | null = 0; next !== null; ) {
    const { body }: { body: { memories: { content: string }[]; next: number | null; total: number; stats: object } } = await daemon.get(
      `/api/memories?limit=10&offset=${next}`,
    );
    seen.push(...body.memories.map((memory) => memory.content));
    expect(body).toMatchObject({ total: 25, stats: { total: 25, critical: 1 } });
    next = body.next;
  }
  expect(seen).toEqual(Array.from({ length: 25 }, (_, index) => `Note number ${24 - index}`));
  expect((await daemon.get('/api/memories?type=odd')).body.total).toBe(12);
  expect((await daemon.get('/api/memories?importance_min=0.9')).body.memories).toMatchObject([{ content: 'Note number 3' }]);
  expect((await daemon.get('/api/memories?since=2025-03-03T12:00:24.000Z')).body.total).toBe(2);
  expect((await daemon.get('/memory/search?distinct=who')).body).toEqual({ values: ['default'] });
});
