import { expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';

const QUERY = 'heron';

/** Every route that reads memories, as text: whatever stands in the answer, in whichever field. */
async function readings(daemon: DaemonServer, agentId?: string): Promise<[name: string, text: string][]> {
  const agent = agentId === undefined ? '' : `&agentId=${agentId}`;
  const who = agentId === undefined ? {} : { agentId };
  const gets = [
    `/api/memories?limit=1000${agent}`,
    `/api/memory/search?q=${QUERY}${agent}`,
    `/memory/search?q=${QUERY}${agent}`,
    `/memory/search?limit=50${agent}`,
    `/api/memories/export?limit=1000${agent}`,
  ];
  const posts: [string, object][] = [
    ['/api/memory/recall', { query: QUERY, ...who }],
    ['/api/hooks/recall', { query: QUERY, ...who }],
    ['/api/hooks/session-start', { ...who }],
    ['/api/hooks/user-prompt-submit', { prompt: `where does the ${QUERY} nest?`, ...who }],
    ['/api/hooks/pre-compaction', { ...who }],
    ['/api/memory/forget', { query: QUERY, mode: 'preview', ...who }],
    ['/api/memory/forget', { type: 'fact', mode: 'preview', ...who }],
  ];
  const answers: [string, string][] = [];
  for (const path of gets) answers.push([path, JSON.stringify((await daemon.get(path)).body)]);
  for (const [path, body] of posts) answers.push([path, JSON.stringify((await daemon.post(path, body)).body)]);
  return answers;
}

const remember = async (daemon: DaemonServer, content: string, more: object = {}): Promise<string> =>
  (await daemon.post('/api/memory/remember', { content, type: 'fact', ...more })).body.id;

test('a deleted memory is returned by no read route, by its words or by its id', async () => {
  const daemon = await serveDaemon();
  const kept = await remember(daemon, 'The heron nests in the alder');
  const gone = await remember(daemon, 'The heron nests in the willow');
  await daemon.call('DELETE', `/api/memory/${gone}`, { reason: 'it moved' });

  const answers = await readings(daemon);
  for (const [path, text] of answers) expect([path, text]).toEqual([path, expect.not.stringMatching(new RegExp(`willow|${gone}`))]);
  expect(answers.filter(([, text]) => text.includes('alder') || text.includes(kept))).toHaveLength(answers.length);
  for (const path of [`/api/memory/${gone}`, `/api/memory/${gone}/history`]) expect((await daemon.get(path)).status).toBe(404);
});

verifies(
  ['agents.param.search', 'agents.param.memories'],
  'every read route honours the scope: private memories are for their agent alone',
  async () => {
    const daemon = await serveDaemon();
    await remember(daemon, 'The heron nests in the alder');
    const mine = await remember(daemon, 'The heron nests in the birch', { agentId: 'dot', scope: 'private' });
    const theirs = await remember(daemon, 'The heron nests in the cedar', { agentId: 'rose', visibility: 'private' });

    for (const [path, text] of await readings(daemon)) expect([path, text]).toEqual([path, expect.not.stringMatching(/birch|cedar/)]);
    for (const [path, text] of await readings(daemon, 'dot')) {
      expect([path, text]).toEqual([path, expect.not.stringContaining('cedar')]);
      expect([path, text]).toEqual([path, expect.stringMatching(new RegExp(`birch|${mine}`))]);
    }
    for (const path of [`/api/memory/${theirs}`, `/api/memory/${theirs}/history`]) {
      expect((await daemon.get(`${path}?agentId=dot`)).status).toBe(404);
      expect((await daemon.get(`${path}?agentId=rose`)).status).toBe(200);
    }
    // The header of existing clients means the same.
    expect((await daemon.get(`/api/memory/${mine}`, { 'x-signet-agent-id': 'dot' })).status).toBe(200);
  },
);

test('limits out of range are taken as the nearest that is not; no number is refused', async () => {
  const daemon = await serveDaemon();
  for (let index = 0; index < 12; index += 1) await remember(daemon, `Heron number ${index} was seen at the weir`);
  const count = async (path: string): Promise<number> => {
    const { body } = await daemon.get(path);
    return (body.results ?? body.memories).length;
  };
  expect(await count('/api/memory/search?q=heron&limit=-5')).toBe(1);
  expect(await count('/api/memory/search?q=heron&limit=0')).toBe(1);
  expect(await count('/api/memory/search?q=heron&limit=100000')).toBe(12);
  expect(await count('/api/memories?limit=-5')).toBe(1);
  expect(await count('/api/memories?limit=99999999')).toBe(12);
  expect(await daemon.get('/api/memories?limit=many')).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  expect(await daemon.get('/api/memories?offset=-1')).toMatchObject({ status: 400, body: { errors: [{ pointer: '/offset' }] } });
});
