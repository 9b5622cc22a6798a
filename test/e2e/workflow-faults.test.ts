import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { WorkflowAgentRules, WorkflowLimits } from '../../src/contract/workflow.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { WorkflowAgent, WorkflowDefinition } from '../../src/core/workflow.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { WorkflowService } from '../../src/runtime/workflow/workflow-service.ts';
import { viewOf } from '../../src/runtime/workflow/workflow-view.ts';
import { openSignalLog } from '../../src/store/signal-log.ts';
import { call } from '../conformance/calls.ts';
import { payloads, startRig } from '../e2e/rig.ts';
import { replaceInLog } from '../helpers/replaced-log.ts';
import { refusals, startWorkflow, untilEnd } from '../helpers/workflow.ts';

/** Deepest nesting a signal takes. */
const LEVELS = 200;

function codeAgent(extra: Partial<WorkflowAgent>): WorkflowAgent {
  return { ...WorkflowAgentRules.parse({ name: 'one', activateOn: ['workflow:start'] }), prompt: () => 'Go.', ...extra };
}

function inCode(agent: WorkflowAgent, extra: Partial<WorkflowDefinition> = {}): WorkflowDefinition {
  const limits = WorkflowLimits.parse({});
  return { name: 'code', agents: [agent], state: {}, input: null, timeoutMs: 60_000, project: null, source: null, limits, ...extra };
}

/** Cannot be frozen, so what an agent may look at cannot be made of it: stands for any fault of the router itself. */
const UNFREEZABLE = { input: new Uint8Array([1, 2]) };

async function startCode() {
  const folder = mkdtempSync(join(tmpdir(), 'signet-workflow-'));
  const env = { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0' };
  const running = await start(resolveSettings(env), silentLogger);
  onTestFinished(async () => {
    await running.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return running;
}

test('a fault of the router ends the run with workflow:end, and the others go on', async () => {
  const { workflows, runtime } = await startCode();
  const broken = await workflows.start(inCode(codeAgent({}), UNFREEZABLE), { id: 'broken_flow', client: 'test' });
  const sound = await workflows.start(inCode(codeAgent({})), { id: 'sound_flow', client: 'test' });

  expect(await broken.done).toMatchObject({ reason: 'error', error: { code: 'internal' } });
  const trace = await broken.signals();
  expect(trace.at(-1)).toMatchObject({ name: 'workflow:end', payload: { reason: 'error' } });
  expect(JSON.stringify(trace)).not.toContain('freeze');
  expect((await call('GET', `${runtime.url}/workflows/broken_flow`)).body).toMatchObject({ status: 'ended', reason: 'error', live: [] });
  expect(await sound.done).toMatchObject({ reason: 'quiescent' });
}, 60_000);

test('whatever a guard throws is told as the reason of the skip', async () => {
  const { workflows } = await startCode();
  const hostile = codeAgent({
    when: () => {
      throw Object.create(null);
    },
  });
  const run = await workflows.start(inCode(hostile), { client: 'test' });
  expect(await run.done).toMatchObject({ reason: 'quiescent' });
  const skipped = (await run.signals()).find(({ name }) => name === 'agent:skipped');
  expect(skipped?.payload).toMatchObject({ reason: 'when', message: expect.stringContaining('when: it threw') });
}, 60_000);

test('an output schema that is none is refused at the start, and a failed expression is told in its own words', async () => {
  const rig = await startRig();
  onTestFinished(() => rig.close());
  const agent = { name: 'one', activateOn: ['workflow:start'], prompt: 'Go.', updates: 'x' };
  const refused = await call('POST', `${rig.runtimeUrl}/workflows`, { agents: [{ ...agent, output: { type: 'nonsense' } }] });
  expect(refused).toMatchObject({ status: 400, body: { code: 'invalid_workflow', errors: [{ pointer: '/agents/0/output' }] } });
  const { id } = await startWorkflow(rig.runtimeUrl, { agents: [agent], endWhen: 'state.x - 1 > 0' });
  const end = (await untilEnd(rig.runtimeUrl, id)).at(-1)!;
  expect(end.payload).toMatchObject({
    reason: 'error',
    error: { code: 'invalid_expression', message: expect.stringMatching(/^endWhen: at character 9/) },
  });
}, 60_000);

test('an answer that is nested too deep for a signal fails its activation, at every depth', async () => {
  const rig = await startRig();
  onTestFinished(() => rig.close());
  const agents = [{ name: 'deep', activateOn: ['workflow:start'], prompt: 'Nest.', updates: 'nest', output: { type: 'object' } }];
  const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
  for (const levels of [LEVELS - 1, LEVELS, LEVELS + 50]) {
    rig.model.respond(() => ({ text: nested(levels), chunks: 1 }));
    const { id } = await startWorkflow(rig.runtimeUrl, { agents });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:failed')).toMatchObject([{ code: 'payload_too_large' }]);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'error', error: { code: 'payload_too_large' } });
  }
  rig.model.respond(() => ({ text: nested(LEVELS - 2), chunks: 1 }));
  const { id } = await startWorkflow(rig.runtimeUrl, { agents });
  expect((await untilEnd(rig.runtimeUrl, id)).at(-1)!.payload).toMatchObject({ reason: 'quiescent' });
}, 60_000);

test('a state that would grow too large is refused, and keeps what it had', async () => {
  const rig = await startRig();
  onTestFinished(() => rig.close());
  const big = 'x'.repeat(3_000_000);
  rig.model.respond(() => ({ text: big, chunks: 1 }));
  const first = { name: 'first', activateOn: ['workflow:start'], prompt: 'Fill.', updates: 'first', emits: ['first:done'] };
  const second = { name: 'second', activateOn: ['first:done'], prompt: 'Fill.', updates: 'second' };
  const { id } = await startWorkflow(rig.runtimeUrl, { agents: [first, second], state: { first: null, second: null } });
  const log = await untilEnd(rig.runtimeUrl, id);
  expect(payloads(log, 'agent:failed')).toMatchObject([{ agent: 'second', code: 'payload_too_large' }]);
  const end = log.at(-1)!.payload as { reason: string; state: Record<string, unknown> };
  expect(end.reason).toBe('error');
  expect(end.state.second).toBeNull();
  expect(String(end.state.first)).toHaveLength(big.length);
  expect(refusals(log)).toEqual([]);
}, 60_000);

test('the end is written also when the machine of the run cannot take any further input', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-workflow-'));
  const file = await openSignalLog({ path: join(folder, 'signals.db') });
  onTestFinished(async () => {
    await file.close();
    rmSync(folder, { recursive: true, force: true });
  });
  // Behaves as the log does when an input of the run cannot be made: a fault that no code names.
  const log = replaceInLog(file, {
    append: (append) =>
      append.signals.some(({ name }) => name === 'workflow:fault') ? Promise.reject(new Error('broken')) : file.append(append),
  });
  const supervisor = { admit: () => undefined };
  const daemon = { call: async () => ({ agents: [] }) };
  const deps = { log, hub: new LiveHub(), clock: systemClock, logger: silentLogger, supervisor, daemon };
  const service = new WorkflowService({ deps } as never);
  const run = await service.start(inCode(codeAgent({}), UNFREEZABLE), { id: 'hard_flow', client: 'test' });
  expect(await run.done).toMatchObject({ reason: 'error', error: { code: 'internal' } });
  const stored = await file.read('workflow:hard_flow', 0, 100);
  expect(stored.map(({ name }) => name)).toEqual(['workflow:start', 'timer:set', 'workflow:end']);
  const again = new WorkflowService({ deps } as never);
  expect(viewOf(await again.coreOf('hard_flow'))).toMatchObject({ status: 'ended', reason: 'error' });
  expect(await again.sweep()).toBe(0);
});
