import { expect, test } from 'vitest';
import { serveDaemon } from '../helpers/daemon-server.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';

const YAML = 'agents: { roster: [{ name: dot }, { name: rose }] }\n';

test('who names an agent is told counts of what that agent may see, by field, header and MCP', async () => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': YAML } });
  const store = (body: object) => daemon.post('/api/memory/remember', body);
  await store({ content: 'Everybody may know that tea is served at four.' });
  await store({ content: 'Rose keeps the key under the mat.', agentId: 'rose', scope: 'private' });
  await store({ content: 'Rose counts her steps each night.', agentId: 'rose', scope: 'private' });
  const named = { 'x-signet-agent-id': 'dot' };
  const [all, byField, byHeader] = [
    (await daemon.get('/api/status')).body,
    (await daemon.get('/api/status?agentId=dot')).body,
    (await daemon.get('/api/status', named)).body,
  ];
  expect([all.memories, byField.memories, byHeader.memories]).toEqual([3, 1, 1]);
  expect(byHeader.index).not.toHaveProperty('memories');
  const mcp = await connectHttp(daemon.url, named);
  expect(await mcp.call('diagnostics')).toMatchObject({ memories: 1 });
  await mcp.close();
  expect((await daemon.get('/api/status', { 'x-signet-agent-id': '../x' })).status).toBe(400);
});

test('jobs of others are neither listed nor counted for who names an agent', async () => {
  const daemon = await serveDaemon({ files: { 'agent.yaml': YAML } });
  expect((await daemon.post('/api/synthesis/trigger', { agentId: 'rose' })).status).toBeLessThan(300);
  const whole = (await daemon.get('/api/jobs')).body;
  const sum = (counts: Record<string, number>) => Object.values(counts).reduce((total, count) => total + count, 0);
  expect([whole.jobs.length, sum(whole.counts)]).toEqual([1, 1]);
  for (const part of [
    (await daemon.get('/api/jobs?agentId=dot')).body,
    (await daemon.get('/api/jobs', { 'x-signet-agent-id': 'dot' })).body,
  ])
    expect([part.jobs, sum(part.counts)]).toEqual([[], 0]);
});
