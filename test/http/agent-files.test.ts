import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serveDaemon } from '../helpers/daemon-server.ts';
import { connectHttp } from '../helpers/mcp-connection.ts';

const skill = (description: string) => `---\nname: x\ndescription: ${description}\n---\n# Steps\n`;
const FILES = {
  'agent.yaml': 'agents: { roster: [{ name: scout, skills: [brew] }, { name: monk, skills: [] }] }\n',
  'SOUL.md': 'Calm.',
  'MEMORY.md': 'Likes tea.',
  'agents/scout/SOUL.md': 'Bold.',
  'skills/brew/SKILL.md': skill('Makes  tea\n  in three steps'),
  'skills/bake/SKILL.md': '# No front matter\n',
  'skills/burn/SKILL.md': '---\ndescription: *nothing\n---\n',
  'skills/notes.txt': 'no skill',
};

test('identity files are told with origin and hash, and their text when it is wanted', async () => {
  const daemon = await serveDaemon({ files: FILES });
  const house = (await daemon.get('/api/identity/files')).body;
  expect(house).toMatchObject({
    agentId: 'default',
    files: [
      { name: 'SOUL.md', origin: 'workspace', content: 'Calm.' },
      { name: 'MEMORY.md', origin: 'workspace', content: 'Likes tea.' },
    ],
  });
  const scout = (await daemon.get('/api/identity/files?agentId=scout&content=false')).body;
  expect(scout.files.map(({ name, origin }: Record<string, string>) => [name, origin])).toEqual([
    ['SOUL.md', 'agent'],
    ['MEMORY.md', 'workspace'],
  ]);
  expect(JSON.stringify(scout)).not.toContain('Bold');
  expect(scout.files[0].hash).not.toBe(house.files[0].hash);
  expect(scout.files[1].hash).toBe(house.files[1].hash);
  writeFileSync(join(daemon.folder, 'MEMORY.md'), 'Likes coffee now.');
  expect((await daemon.get('/api/identity/files')).body.files[1].hash).not.toBe(house.files[1].hash);
  expect((await daemon.get('/api/identity/files?agentId=../x')).status).toBe(400);
  expect((await daemon.get('/api/identity/files', { 'x-signet-agent-id': '../x' })).status).toBe(400);
});

test('skills are those of the pool that the agent is allowed, with what their head says', async () => {
  const daemon = await serveDaemon({ files: FILES });
  const brew = { name: 'brew', description: 'Makes tea in three steps', path: 'skills/brew/SKILL.md' };
  const { skills, count } = (await daemon.get('/api/skills')).body;
  expect([count, skills]).toEqual([
    3,
    [
      { name: 'bake', description: '', path: 'skills/bake/SKILL.md' },
      brew,
      { name: 'burn', description: '', path: 'skills/burn/SKILL.md' },
    ],
  ]);
  expect((await daemon.get('/api/skills?agentId=scout')).body).toEqual({ skills: [brew], count: 1 });
  expect((await daemon.get('/api/skills?agentId=monk')).body).toEqual({ skills: [], count: 0 });
  const scout = await connectHttp(daemon.url, { 'x-signet-agent-id': 'scout' });
  expect(await scout.call('skill_list')).toEqual({ skills: [brew], count: 1 });
  await scout.close();
  rmSync(join(daemon.folder, 'skills'), { recursive: true });
  expect((await daemon.get('/api/skills')).body.count).toBe(0);
});

test('an MCP client reads the files of its own agent and of no other', async () => {
  const daemon = await serveDaemon({ files: FILES });
  const scout = await connectHttp(daemon.url, { 'x-signet-agent-id': 'scout' });
  const uris = (await scout.client.listResources()).resources.map(({ uri }) => uri);
  expect(uris).toEqual(['signet://agents/scout/SOUL.md', 'signet://agents/scout/MEMORY.md']);
  expect((await scout.client.readResource({ uri: uris[0]! })).contents).toMatchObject([{ text: 'Bold.' }]);
  await expect(scout.client.readResource({ uri: 'signet://agents/default/SOUL.md' })).rejects.toThrow('Resource not found');
  await scout.close();
});

test('the configuration is shown without secrets, and what is wrong lowers the score', async () => {
  const yaml = 'runtime: { providers: { house: { kind: openai, apiKey: sk-very-secret } } }\n';
  const daemon = await serveDaemon({ files: { 'agent.yaml': yaml, 'config.yaml': 'hooks: {}\n' } });
  const mcp = await connectHttp(daemon.url);
  const shown = await mcp.call('config_read', { section: 'runtime' });
  expect(Object.keys(shown.config)).toEqual(['runtime']);
  expect(shown.config.runtime.providers.house).toMatchObject({ kind: 'openai' });
  expect(JSON.stringify(await mcp.call('config_read'))).not.toContain('sk-very-secret');
  const { score, problems } = await mcp.call('diagnostics');
  expect([score, problems]).toEqual([95, ['configuration: config.yaml is ignored because agent.yaml is there']]);
  await mcp.close();
});
