import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Logger } from '../../src/core/logger.ts';
import { call } from '../conformance/calls.ts';
import { startRig } from '../e2e/rig.ts';
import { startSignet } from '../helpers/signet.ts';

function recordingLogger() {
  const warnings: { fields: object; message: string }[] = [];
  const ignore = () => undefined;
  const logger: Logger = { debug: ignore, info: ignore, error: ignore, warn: (fields, message) => void warnings.push({ fields, message }) };
  return { logger, warnings };
}

describe('the tools of a session', () => {
  test('must be known when it is created, and the answer names the one that was meant', async () => {
    const signet = await startSignet();
    onTestFinished(() => signet.close());
    const refused = await call('POST', `${signet.runtimeUrl}/session`, { tools: ['memory_search', 'memory_serch'] });
    expect(refused).toMatchObject({ status: 400, body: { code: 'unknown_tool', errors: [{ pointer: '/tools/1' }] } });
    expect(refused.body.detail).toContain('did you mean memory_search');
    expect(await call('POST', `${signet.runtimeUrl}/session`, { tools: ['memory_search'] })).toMatchObject({ status: 201 });
    const agents = [{ name: 'one', activateOn: ['workflow:start'], prompt: 'Go.', tools: ['nosuch'] }];
    expect(await call('POST', `${signet.runtimeUrl}/workflows`, { agents })).toMatchObject({
      status: 400,
      body: { code: 'unknown_tool', errors: [{ pointer: '/agents/0/tools/0' }] },
    });
  });

  test('of an MCP server may come when it answers', async () => {
    const yaml = 'runtime: { mcpServers: { files: { command: /nowhere/to/be/found } } }\n';
    const signet = await startSignet({ yaml });
    onTestFinished(() => signet.close());
    expect(await call('POST', `${signet.runtimeUrl}/session`, { tools: ['files_read'] })).toMatchObject({ status: 201 });
    expect(await call('POST', `${signet.runtimeUrl}/session`, { tools: ['file_read'] })).toMatchObject({ status: 400 });
  });
});

describe('a provider whose key stands in a variable that is not set', () => {
  test('is told at the start and by its status', async () => {
    const { logger, warnings } = recordingLogger();
    const provider = '{ kind: anthropic, apiKeyEnv: WORK_KEY }';
    const yaml = `runtime: { default: work, providers: { work: ${provider}, near: { kind: openai-compatible, baseUrl: $MODEL, apiKeyEnv: NEAR_KEY } } }\n`;
    const rig = await startRig({ yaml, logger, wire: 'chat', env: { SIGNET_PROVIDER: '' } });
    onTestFinished(() => rig.close());
    expect(warnings.filter(({ message }) => message.includes('apiKeyEnv')).map(({ fields }) => fields)).toEqual([
      { provider: 'work', variable: 'WORK_KEY' },
      { provider: 'near', variable: 'NEAR_KEY' },
    ]);
    const status = async (id: string) => (await call('GET', `${rig.runtimeUrl}/providers/${id}/status`)).body;
    expect(await status('work')).toMatchObject({ available: false, detail: expect.stringContaining('WORK_KEY') });
    expect(await status('near')).toMatchObject({ detail: expect.stringContaining('NEAR_KEY') });
    await rig.client.session.create({});
  });
});

test('a model that the list of its provider does not have is told once, with the nearest, and not refused', async () => {
  const { logger, warnings } = recordingLogger();
  const rig = await startRig({ logger });
  onTestFinished(() => rig.close());
  const listed = (await call('GET', `${rig.runtimeUrl}/models?provider=anthropic`)).body.models.map(({ id }: { id: string }) => id);
  const wrong = `${listed[0]}x`;
  const told = () => warnings.filter(({ message }) => message.includes('does not have this model'));
  await rig.client.session.create({ model: wrong });
  await expect
    .poll(told)
    .toMatchObject([{ fields: { provider: 'anthropic', model: wrong, nearest: expect.arrayContaining([listed[0]]) } }]);
  await rig.client.session.create({ model: wrong });
  await rig.client.session.create({ model: listed[0] });
  expect(told()).toHaveLength(1);
});

test('health is degraded, and says why, from a write that failed until one succeeds', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-health-'));
  const signet = await startSignet({ folder });
  onTestFinished(async () => {
    await signet.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const health = async () => (await call('GET', `${signet.runtimeUrl}/health`)).body;
  expect(await health()).toMatchObject({ status: 'healthy', reasons: [] });

  // Whoever holds the write lock keeps the log from being written, as a full disk does.
  const other = new DatabaseSync(join(folder, 'data', 'signals.db'));
  other.exec('BEGIN IMMEDIATE');
  expect(await call('POST', `${signet.runtimeUrl}/session`, {})).toMatchObject({ status: 507, body: { code: 'storage_failed' } });
  expect(await health()).toMatchObject({ status: 'degraded', reasons: [expect.stringContaining('signal log failed')] });
  other.exec('ROLLBACK');
  other.close();

  expect(await call('POST', `${signet.runtimeUrl}/session`, {})).toMatchObject({ status: 201 });
  expect(await health()).toMatchObject({ status: 'healthy', reasons: [] });
});
