import { expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type DaemonServer, serveDaemon } from '../helpers/daemon-server.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';

const ROSTER = 'agents:\n  roster:\n    - { name: dot, memory: { defaultVisibility: private } }\n    - { name: rose }\n';

async function found(daemon: DaemonServer, query: string, agentId?: string) {
  const { results } = (await daemon.post('/api/memory/recall', { query, agentId })).body;
  return results.map(({ content, agentId: owner, scope, who }: Record<string, string>) => ({ content, owner, scope, who }));
}

verifies('mcp.memory_store.visibility', 'a harness keeps a memory for its own agent, and sees whose a memory is', async () => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': 'agents: { roster: [{ name: dot }, { name: rose }] }\n' } });
  const dot = await connectHttp(daemon.url, { 'x-signet-agent-id': 'dot', 'x-signet-harness': 'openclaw' });
  const rose = await connectHttp(daemon.url, { 'x-signet-agent-id': 'rose' });
  const nobody = await connectHttp(daemon.url, { 'x-signet-harness': 'claude-code' });
  try {
    const told = { content: 'Ada earns 4,000 a month', visibility: 'private' };
    expect(await dot.call('memory_store', told)).toMatchObject({ agentId: 'dot', scope: 'private', who: 'dot' });
    const { results } = await dot.call('memory_search', { query: 'what does Ada earn?' });
    expect(results).toMatchObject([{ content: told.content, agentId: 'dot', scope: 'private' }]);
    expect(await rose.call('memory_search', { query: 'what does Ada earn?' })).toMatchObject({ count: 0 });
    expect(await found(daemon, 'what does Ada earn?', 'rose')).toEqual([]);
    expect(await dot.call('memory_store', { content: 'Ada drinks tea' })).toMatchObject({ scope: 'global', who: 'dot' });
    expect(await nobody.refusal('memory_store', told)).toMatch(/private memory needs the agentId/);
    expect(await nobody.call('memory_store', { content: 'Ada sails' })).toMatchObject({
      agentId: 'default',
      scope: 'global',
      who: 'claude-code',
    });
    const document = { source: 'contract.md', content: 'The rent of the harbour office is 900.', visibility: 'private' };
    await dot.call('document_ingest', document);
    expect(await found(daemon, 'rent of the harbour office', 'dot')).toMatchObject([{ scope: 'private', who: 'dot' }]);
    expect(await found(daemon, 'rent of the harbour office', 'rose')).toEqual([]);
  } finally {
    await Promise.all([dot.close(), rose.close(), nobody.close()]);
  }
});

/** Every way to write a memory that says nothing of who may see it. */
const WRITERS = {
  remember: (daemon: DaemonServer, who: object, content: string) => daemon.post('/api/memory/remember', { content, ...who }),
  save: (daemon: DaemonServer, who: object, content: string) => daemon.post('/api/memory/save', { content, ...who }),
  'hooks/remember': (daemon: DaemonServer, who: object, content: string) =>
    daemon.post('/api/hooks/remember', { harness: 'test', content, ...who }),
  documents: (daemon: DaemonServer, who: object, content: string) => daemon.post('/api/documents', { source: 'a.md', content, ...who }),
  'compaction-complete': (daemon: DaemonServer, who: object, summary: string) =>
    daemon.post('/api/hooks/compaction-complete', { harness: 'test', sessionKey: 'k', summary, ...who }),
  import: (daemon: DaemonServer, who: object, content: string) =>
    daemon.post('/api/memories/import', { memories: [{ id: 'm1', content, created_at: '2025-01-01T00:00:00Z', ...who }] }),
};

test.each(Object.entries(WRITERS))('%s writes as memory.defaultVisibility of the agent says', async (_name, write) => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': ROSTER } });
  expect((await write(daemon, { agentId: 'dot' }, 'The kettle is hidden in the attic.')).status).toBeLessThan(300);
  expect(await found(daemon, 'kettle attic', 'rose')).toEqual([]);
  expect(await found(daemon, 'kettle attic', 'dot')).toMatchObject([{ owner: 'dot', scope: 'private' }]);
});

test.each(Object.entries(WRITERS))('%s of nobody in particular is kept for default when all is to be private', async (_name, write) => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': 'memory: { defaultVisibility: private }\n' } });
  expect((await write(daemon, {}, 'The kettle is hidden in the attic.')).status).toBeLessThan(300);
  expect(await found(daemon, 'kettle attic')).toEqual([]);
  expect(await found(daemon, 'kettle attic', 'rose')).toEqual([]);
  expect(await found(daemon, 'kettle attic', 'default')).toMatchObject([{ owner: 'default', scope: 'private' }]);
});

test('what is said of a memory goes before the default, and an agent before the workspace', async () => {
  const yaml = `memory: { defaultVisibility: private }\n${ROSTER.replace('name: rose', 'name: rose, memory: { defaultVisibility: global }')}`;
  const daemon = await serveDaemon({ files: { 'agent.yaml': yaml } });
  const store = async (fields: object) => (await daemon.post('/api/memory/remember', fields)).body;
  expect(await store({ content: 'tea', agentId: 'dot', visibility: 'global' })).toMatchObject({ scope: 'global', who: 'dot' });
  expect(await store({ content: 'cake', agentId: 'rose' })).toMatchObject({ scope: 'global', who: 'rose' });
  expect(await store({ content: 'rum', agentId: 'kim' })).toMatchObject({ scope: 'private', who: 'kim' });
  expect(await store({ content: 'rye', agentId: 'kim', who: 'Ada' })).toMatchObject({ who: 'Ada' });
});

test('a memory of nobody in particular is by default; by a harness, by that', async () => {
  const daemon = await serveDaemon();
  expect((await daemon.post('/api/memory/remember', { content: 'tea' })).body.who).toBe('default');
  const { id } = (await daemon.post('/api/hooks/remember', { harness: 'openclaw', content: 'cake' })).body;
  expect((await daemon.get(`/api/memory/${id}`)).body.who).toBe('openclaw');
  const own = (await daemon.post('/api/hooks/remember', { harness: 'openclaw', content: 'rum', agentId: 'dot' })).body;
  expect((await daemon.get(`/api/memory/${own.id}?agentId=dot`)).body.who).toBe('dot');
});
