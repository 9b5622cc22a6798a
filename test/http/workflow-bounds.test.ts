import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { payloads, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { answersPerMatch, refusals, startWorkflow, untilEnd, workflowLog } from '../helpers/workflow.ts';

let rig: Rig;
beforeEach(async () => {
  rig = await startRig();
});
afterEach(() => rig.close());

describe('a loop', () => {
  const echo = { name: 'echo', activateOn: ['workflow:start', 'echo:said'], prompt: 'Again.', emits: ['echo:said'] };

  test('of an agent that activates itself ends at the depth of its chain', async () => {
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [echo], limits: { depth: 3 } });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:activated').map(({ chain }) => chain)).toEqual([1, 2, 3]);
    expect(refusals(log)).toEqual(['echo depth echo:said']);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'quiescent' });
  });

  test('ends at the number of activations, of the agent or of the run', async () => {
    const limited = await startWorkflow(rig.runtimeUrl, { agents: [{ ...echo, limits: { activations: 2 } }] });
    const ofAgent = await untilEnd(rig.runtimeUrl, limited.id);
    expect(payloads(ofAgent, 'agent:activated')).toHaveLength(2);
    expect(refusals(ofAgent)).toEqual(['echo budget echo:said']);
    const told = { kind: 'activations', used: 2, limit: 2 };
    expect(payloads(ofAgent, 'budget:exceeded')).toEqual([{ scope: 'agent', agent: 'echo', ...told }]);
    const run = await startWorkflow(rig.runtimeUrl, { agents: [echo], limits: { activations: 2 } });
    const ofRun = await untilEnd(rig.runtimeUrl, run.id);
    expect(refusals(ofRun)).toEqual(['echo budget echo:said']);
    expect(payloads(ofRun, 'budget:exceeded')).toEqual([{ scope: 'workflow', ...told }]);
    expect(ofRun.at(-1)!.payload).toMatchObject({ reason: 'budget', metrics: { activations: 2, skipped: 1 } });
  });

  test('ends when the tokens are used up', async () => {
    rig.model.respond(() => ({ text: 'x', usage: { inputTokens: 60, outputTokens: 1 } }));
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [echo], limits: { tokens: 100 } });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'budget', metrics: { activations: 2 } });
  });

  test('cannot begin inside an activation: what it causes while it runs is skipped as self, unless that is allowed', async () => {
    const listener = { name: 'listener', activateOn: ['workflow:start', 'harness:start'], prompt: 'Listen.' };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [listener] });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(refusals(log)).toEqual(['listener self harness:start']);
    const allowed = await startWorkflow(rig.runtimeUrl, { agents: [{ ...listener, allowSelf: true }], limits: { depth: 2 } });
    const second = await untilEnd(rig.runtimeUrl, allowed.id);
    expect(payloads(second, 'agent:activated')).toHaveLength(2);
    expect(refusals(second)).toEqual(['listener depth harness:start']);
  });

  test('of an agent that listens to everything ends, and each signal is answered once for it', async () => {
    const all = { name: 'all', activateOn: ['**'], prompt: 'Hear.' };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [all], limits: { activations: 3 } });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:activated')).toHaveLength(3);
    expect(payloads(log, 'budget:exceeded')).toMatchObject([{ scope: 'workflow', used: 3, limit: 3 }]);
    expect(new Set(refusals(log).map((line) => line.split(' ')[1]))).toEqual(new Set(['self', 'budget']));
    expect([...answersPerMatch(log).values()].every((count) => count === 1)).toBe(true);
  });
});

describe('the end of a workflow', () => {
  const worker = { name: 'worker', activateOn: ['workflow:start'], prompt: 'Work.', emits: ['worker:done'], updates: 'work' };
  const next = { name: 'next', activateOn: ['worker:done'], prompt: 'Next.' };

  test('comes when endWhen holds; what was still to come is skipped as terminated', async () => {
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [worker, next], state: { work: null }, endWhen: 'state.work != null' });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'workflow:terminating')).toEqual([{ reason: 'end-when', agent: 'worker' }]);
    expect(refusals(log)).toEqual(['next terminated worker:done']);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'end-when' });
  });

  test('comes by abort: the turn is really cancelled, and the answer waits until all has settled', async () => {
    rig.model.gate();
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [worker, next] });
    const { request } = await rig.model.next();
    const answer = await call('DELETE', `${rig.runtimeUrl}/workflows/${id}?reason=enough`);
    expect(answer).toMatchObject({ status: 200, body: { status: 'ended', reason: 'aborted', live: [] } });
    expect(await request.closed).toEqual({ aborted: true });
    const log = await workflowLog(rig.runtimeUrl, id);
    expect(payloads(log, 'workflow:abort')).toMatchObject([{ reason: 'enough' }]);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'aborted' });
    const session = String(payloads(log, 'agent:activated')[0]!.session);
    expect(payloads(await readLog(rig.client, session), 'turn:end')).toMatchObject([{ stopReason: 'cancelled' }]);
    expect((await call('DELETE', `${rig.runtimeUrl}/workflows/${id}`)).body).toMatchObject({ status: 'ended', reason: 'aborted' });
  });

  test('comes by timeout, which stops the work as well', async () => {
    rig.model.gate();
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [worker], timeoutMs: 300 });
    await rig.model.next();
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'timeout' });
    const session = String(payloads(log, 'agent:activated')[0]!.session);
    expect(payloads(await readLog(rig.client, session), 'turn:end')).toMatchObject([{ stopReason: 'cancelled' }]);
  });

  test('comes when an agent fails: as an error when nobody reacts to the failure, otherwise not', async () => {
    rig.model.respond(() => ({ fault: { kind: 'status', status: 400, message: 'odd' } }));
    const alone = await startWorkflow(rig.runtimeUrl, { agents: [worker] });
    const log = await untilEnd(rig.runtimeUrl, alone.id);
    expect(payloads(log, 'agent:failed')).toMatchObject([{ agent: 'worker', code: 'provider_refused', willRetry: false }]);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'error', error: { code: 'provider_refused' } });
    const medic = { name: 'medic', activateOn: ['agent:failed'], prompt: 'Heal {{ signal.payload.code }}.', from: { agents: ['worker'] } };
    rig.model.respond(({ body }) =>
      JSON.stringify(body.messages).includes('Heal') ? { text: 'healed' } : { fault: { kind: 'status', status: 400, message: 'odd' } },
    );
    const healed = await startWorkflow(rig.runtimeUrl, { agents: [worker, medic] });
    expect((await untilEnd(rig.runtimeUrl, healed.id)).at(-1)!.payload).toMatchObject({ reason: 'quiescent' });
  });

  test('waits for retries', async () => {
    let calls = 0;
    rig.model.respond(() => {
      calls += 1;
      return calls === 1 ? { fault: { kind: 'status', status: 400, message: 'odd' } } : { text: 'well' };
    });
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [{ ...worker, limits: { retries: 1 } }] });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:failed')).toMatchObject([{ willRetry: true }]);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'quiescent', state: { work: 'well' }, metrics: { activations: 1 } });
  });

  test('comes also when an expression fails on what it meets', async () => {
    const broken = { ...next, activateOn: ['worker:done'], prompt: '{{ state.work - 1 }}' };
    const { id } = await startWorkflow(rig.runtimeUrl, { agents: [worker, broken] });
    const log = await untilEnd(rig.runtimeUrl, id);
    expect(payloads(log, 'agent:failed')).toMatchObject([{ agent: 'next', code: 'invalid_expression' }]);
    expect(log.at(-1)!.payload).toMatchObject({ reason: 'error' });
  });
});
