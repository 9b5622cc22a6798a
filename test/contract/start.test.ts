import { statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { serveDaemon } from '../helpers/daemon-server.ts';
import { startSignet } from '../helpers/signet.ts';

const env = (folder: string) => ({ SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' });

test('agent.yaml is read with comments, lists and block scalars', async () => {
  const yaml = `# who I am
agent:
  name: Merle   # the blackbird
hooks:
  sessionStart:
    recallLimit: 1          # How many memories to include
  preCompaction:
    summaryGuidelines: |    # Custom instructions
      Focus on:
      - Decisions made
      - Code patterns
agents:
  roster:
    - name: dot
    - { name: rose, skills: [web, code] }
`;
  const daemon = await serveDaemon({ files: { 'agent.yaml': yaml } });
  for (const content of ['one thing', 'another thing']) await daemon.post('/api/memory/remember', { content });
  const { body } = await daemon.post('/api/hooks/session-start', {});
  expect(body.identity).toEqual({ name: 'Merle' });
  expect(body.memories).toHaveLength(1);
  expect((await daemon.post('/api/hooks/pre-compaction', {})).body.guidelines).toBe('Focus on:\n- Decisions made\n- Code patterns\n');
  expect((await daemon.get('/api/agents')).body.agents.map((agent: { name: string }) => agent.name)).toEqual(['default', 'dot', 'rose']);
});

test('the keys of an existing agent.yaml are taken', async () => {
  const yaml = `version: 1
schema: signet/v1
agent: { name: Merle, description: helper, created: '2025-01-01' }
embedding: { provider: none }
search: { alpha: 0.7, top_k: 20, min_score: 0.1 }
memory:
  pipelineV2: { enabled: true, extraction: { provider: ollama } }
hooks:
  sessionStart: { recallLimit: 50, candidatePoolLimit: 100, includeIdentity: true, maxInjectChars: 24000, recencyBias: 0.7 }
git: { autoCommit: false }
`;
  const daemon = await serveDaemon({ files: { 'agent.yaml': yaml } });
  expect((await daemon.get('/api/config')).body.config.hooks.sessionStart).toMatchObject({
    recallLimit: 50,
    candidatePoolLimit: 100,
    maxInjectChars: 24_000,
  });
});

test('a wrong configuration is reported at the start, every problem with file, line and column', async () => {
  const folder = tempFolder({ 'agent.yaml': 'hooks:\n  sessionStart:\n    recallLimt: 3\n    recencyBias: 7\n' });
  const report = () => resolveSettings(env(folder));
  expect(report).toThrow(/agent\.yaml:3:5 .*recallLimt.*did you mean "recallLimit"/s);
  expect(report).toThrow(/agent\.yaml:4:5 hooks\.sessionStart\.recencyBias/);
});

test.each(['signals.db', 'memory.db'])('a workspace whose %s lost all its content is not taken for a new one', async (file) => {
  const folder = tempFolder();
  await (await startSignet({ folder })).close();
  const path = join(folder, 'data', file);
  truncateSync(path, 0);
  await expect(start(resolveSettings(env(folder)), silentLogger)).rejects.toMatchObject({
    code: 'storage_corrupt',
    detail: expect.stringMatching(/is damaged \(it is empty\); it was kept untouched.*backup/),
  });
  expect(statSync(path).size).toBe(0);
});

test('a second daemon on the same workspace refuses to start', async () => {
  const signet = await startSignet();
  try {
    await expect(start(resolveSettings(env(signet.folder)), silentLogger)).rejects.toMatchObject({ code: 'workspace_locked' });
  } finally {
    await signet.close();
  }
});
