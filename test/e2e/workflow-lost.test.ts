import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { WorkflowAgentRules, WorkflowLimits } from '../../src/contract/workflow.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { defineWorkflow } from '../../src/workflow.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { wireEnvironment } from './rig.ts';

test('a workflow that was defined with functions ends in error when another process finds it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-workflow-'));
  writeFileSync(join(folder, 'agent.yaml'), 'runtime: { limits: { drainTimeoutMs: 200 } }\n');
  const model = await startModelServer();
  const env = { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0', ...wireEnvironment('anthropic', model.url) };
  const boot = () => start(resolveSettings(env), silentLogger);
  const first = await boot();
  model.gate();
  const agent = { ...WorkflowAgentRules.parse({ name: 'one', activateOn: ['workflow:start'] }), prompt: () => 'Go.' };
  const definition = { name: 'code', agents: [agent], state: {}, input: null, timeoutMs: 60_000, project: null, source: null };
  const run = await first.workflows.start({ ...definition, limits: WorkflowLimits.parse({}) }, { id: 'code_flow', client: 'test' });
  await model.next();
  await first.close();
  await expect(run.done).rejects.toMatchObject({ code: 'draining' });
  const second = await boot();
  try {
    const again = await second.workflows.get('code_flow');
    expect(await again.done).toMatchObject({ reason: 'error', error: { code: 'workflow_lost' } });
    const trace = await again.signals();
    expect(trace.at(-1)?.name).toBe('workflow:end');
    expect(trace.filter(({ name }) => name === 'turn:end').map(({ payload }) => payload.stopReason)).toEqual(['cancelled']);
  } finally {
    await second.close();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  }
}, 60_000);

test('a workflow that listens by regular expressions goes on in another process', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-workflow-'));
  writeFileSync(join(folder, 'agent.yaml'), 'runtime: { limits: { drainTimeoutMs: 200 } }\n');
  const model = await startModelServer();
  const env = { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0', ...wireEnvironment('anthropic', model.url) };
  const boot = () => start(resolveSettings(env), silentLogger);
  const definition = defineWorkflow({
    agents: {
      one: { prompt: 'Go.', activateOn: [/^Workflow:(start)$/i], emits: ['one:done'] },
      two: { prompt: 'Look.', activateOn: ['nobody:*', /^one:d.ne$/u], updates: 'two' },
    },
    state: { two: null },
  });
  const first = await boot();
  model.gate();
  const run = await first.workflows.start(definition, { id: 'regexp_flow', client: 'test' });
  await model.next();
  await first.close();
  await expect(run.done).rejects.toMatchObject({ code: 'draining' });
  model.open();
  model.respond(() => ({ text: 'Seen.' }));
  const second = await boot();
  try {
    const again = await second.workflows.start(definition, { id: 'regexp_flow', client: 'test' });
    expect(await again.done).toMatchObject({ reason: 'quiescent', state: { two: 'Seen.' }, metrics: { activations: 2 } });
    expect((await again.signals())[0]).toMatchObject({
      payload: { agents: [{ activateOn: [{ regexp: '^Workflow:(start)$', flags: 'i' }] }, {}] },
    });
  } finally {
    await second.close();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  }
}, 60_000);
