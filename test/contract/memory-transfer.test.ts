import { expect, test } from 'vitest';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const remember = async (daemon: DaemonServer, body: object) => (await daemon.post('/api/memory/remember', body)).body;
const records = (text: string): object[] =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter((line) => 'content' in line);

/** A store with something of everything. */
async function filled(): Promise<DaemonServer> {
  const daemon = await serveDaemon();
  const tea = await remember(daemon, {
    content: 'likes green tea',
    tags: ['taste'],
    createdAt: '2024-05-01T08:00:00+02:00',
    idempotencyKey: 'k',
  });
  await remember(daemon, { content: 'now likes coffee', supersedes: tea.id, pinned: true });
  await remember(daemon, { content: 'keeps a diary', agentId: 'dot', scope: 'private', project: '/p', sessionKey: 's' });
  const gone = await remember(daemon, { content: 'lives in Berlin — 東京 💡' });
  await daemon.call('PATCH', `/api/memory/${tea.id}`, { reason: 'more exact', importance: 0.9, content: 'likes green tea in the morning' });
  await daemon.call('DELETE', `/api/memory/${gone.id}`, { reason: 'moved' });
  return daemon;
}

test('an export of everything, imported into an empty store and exported again, is equal byte for byte', async () => {
  const daemon = await filled();
  const { body: exported, headers } = await daemon.get('/api/memories/export?all=1');
  expect(headers.get('content-type')).toContain('application/x-ndjson');
  expect(exported.split('\n')[0]).toBe('{"format":"signet-memories","version":1}');
  const other = await serveDaemon();
  expect((await other.post('/api/memories/import', { memories: records(exported) })).body).toEqual({
    ...{ imported: 4, overwritten: 0, skipped: 0, duplicates: [], success: true },
  });
  expect((await other.get('/api/memories/export?all=1')).body).toBe(exported);

  expect((await other.post('/api/memory/recall', { query: 'green tea morning' })).body.results).toMatchObject([
    { content: 'likes green tea in the morning', created_at: '2024-05-01T06:00:00.000Z', version: 2 },
  ]);
  expect((await other.post('/api/memory/recall', { query: 'Berlin' })).body.results).toEqual([]);
  expect((await other.get('/api/memories')).body.total).toBe(2);
});

test('an export without all holds what the caller may see, page by page to the end mark', async () => {
  const daemon = await filled();
  const first = (await daemon.get('/api/memories/export?agentId=dot&limit=2')).body;
  const { next } = JSON.parse(first.trim().split('\n').at(-1));
  const second = (await daemon.get(`/api/memories/export?agentId=dot&limit=2&after=${next}`)).body;
  expect(second.trim().split('\n').at(-1)).toBe('{"end":true}');
  expect([...records(first), ...records(second)]).toHaveLength(3);
  expect(records((await daemon.get('/api/memories/export')).body)).toHaveLength(2);
});

test('an import leaves alone what is there; overwrite replaces it; the same content under another id is named, not doubled', async () => {
  const daemon = await filled();
  const memories = records((await daemon.get('/api/memories/export')).body) as { id: string; content: string }[];
  const changed = memories.map((memory) => ({ ...memory, content: `${memory.content}, as was said` }));
  const take = async (body: object) => (await daemon.post('/api/memories/import', body)).body;
  expect(await take({ memories: changed })).toMatchObject({ imported: 0, skipped: 2 });
  expect(await take({ memories: changed, conflict: 'overwrite' })).toMatchObject({ overwritten: 2 });
  const recalled = (await daemon.post('/api/memory/recall', { query: 'coffee' })).body.results;
  expect(recalled).toMatchObject([{ id: memories[1]!.id, content: 'now likes coffee, as was said' }]);
  expect(await take({ memories: [{ ...changed[0], id: 'other' }] })).toMatchObject({
    ...{ imported: 0, duplicates: [{ id: 'other', duplicateMemoryId: memories[0]!.id }] },
  });
  expect(await daemon.post('/api/memories/import', { memories: [{ id: 'x' }] })).toMatchObject({
    ...{ status: 400, body: { errors: expect.arrayContaining([expect.objectContaining({ pointer: '/memories/0/content' })]) } },
  });
});

test.each(['yesterday', '', '2025-13-01T00:00:00Z', '2025-02-30T00:00:00Z', '1e999'])(
  'an import whose history has the time %j is refused by its place',
  async (createdAt) => {
    const daemon = await serveDaemon();
    const entry = { event: 'created', version: 1, reason: null, changedBy: 'ann', actorType: null, oldContent: null, newContent: 'tea' };
    const history = [{ ...entry, changedFields: null, sessionId: null, requestId: null, createdAt }];
    const memories = [{ id: 'm1', content: 'tea', created_at: '2025-01-01T00:00:00Z', history }];
    const { status, body } = await daemon.post('/api/memories/import', { memories });
    expect(status).toBe(400);
    expect(body.errors[0].pointer).toBe('/memories/0/history/0/createdAt');
    for (const field of ['created_at', 'updated_at', 'deleted_at'])
      expect((await daemon.post('/api/memories/import', { memories: [{ ...memories[0], history: [], [field]: createdAt }] })).status).toBe(
        400,
      );
    expect((await daemon.get('/api/memories')).body.total).toBe(0);
  },
);
