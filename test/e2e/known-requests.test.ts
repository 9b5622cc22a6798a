import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, call } from '../conformance/calls.ts';
import { keepLoopBusy } from '../helpers/busy-loop.ts';
import { startModelServer } from '../helpers/model-server/server.ts';
import { startSignet } from '../helpers/signet.ts';
import { untilEnd } from '../helpers/workflow.ts';
import { nextSignal, payloads, type Rig, startRig, wireEnvironment } from './rig.ts';

const TEST_TIMEOUT_MS = 90_000;
/** The event loop of a test that is kept busy is always later than this; unit: milliseconds. */
const YAML = 'runtime: { limits: { eventLoopDelayMsMax: 100, drainTimeoutMs: 20000 }, approvals: [{ tool: "ask_*", decision: ask }] }\n';
const AGENT = { name: 'writer', activateOn: ['workflow:start'], prompt: 'Write.', emits: ['text:written'], updates: 'text' };

let rig: Rig;
let busy: { stop(): void } | undefined;
beforeEach(async () => {
  rig = await startRig({ yaml: YAML });
});
afterEach(async () => {
  busy?.stop();
  busy = undefined;
  rig.model.open();
  await rig.close();
});

type Request = [method: string, url: string, body?: unknown];

/** Every idempotent request of both ports, each answered once; resolves with what it answered. */
async function askEach(): Promise<{ requests: Record<string, Request>; first: Record<string, Answer> }> {
  const [runtime, daemon] = [rig.runtimeUrl, rig.daemonUrl];
  const requests: Record<string, Request> = {
    create: ['POST', `${runtime}/session`, { id: 'known_one', title: 'known' }],
    prompt: ['POST', `${runtime}/session/known_one/prompt`, { id: 'p1', content: 'Hello.' }],
    promptOfEnded: ['POST', `${runtime}/session/ended_one/prompt`, { id: 'p1', content: 'Hello.' }],
    fork: ['POST', `${runtime}/session/known_one/fork`, { newId: 'forked_one', title: 'a fork' }],
    end: ['DELETE', `${runtime}/session/ended_one`],
    runWorkflow: ['POST', `${runtime}/workflows`, { id: 'flow_one', agents: [AGENT] }],
    stopWorkflow: ['DELETE', `${runtime}/workflows/flow_one`],
    remember: ['POST', `${daemon}/api/memory/remember`, { content: 'The sky is blue.', idempotencyKey: 'once' }],
    hookRemember: ['POST', `${daemon}/api/hooks/remember`, { harness: 'test', content: 'Grass is green.', idempotencyKey: 'twice' }],
    secret: ['POST', `${daemon}/api/secrets/KEY`, { value: 'sesame' }],
    presence: ['POST', `${daemon}/api/cross-agent/presence`, { agentId: 'default', sessionKey: 'here', harness: 'test' }],
  };
  await whenTaken(['POST', `${runtime}/session`, { id: 'ended_one' }]);
  const first: Record<string, Answer> = {};
  for (const [name, request] of Object.entries(requests)) {
    first[name] = await whenTaken(request);
    expect(first[name], `${name}: ${JSON.stringify(first[name].body)}`).toMatchObject({
      status: expect.toSatisfy((status) => status < 300),
    });
    if (name === 'runWorkflow') await untilEnd(runtime, 'flow_one');
  }
  return { requests, first };
}

/** A machine that is busy with other tests may be late by itself; what is refused for it is sent again. */
async function whenTaken(request: Request): Promise<Answer> {
  for (;;) {
    const answer = await call(...request);
    if (answer.body?.code !== 'overloaded') return answer;
  }
}

/** What an answer promises to be the same each time; the state of a session moves on. */
function told({ body }: Answer): unknown {
  const { id, memoryId, memory, content, agentId, name } = body;
  return { id: id ?? memoryId ?? memory?.id, content, agentId, name };
}

async function askAgain({ requests, first }: Awaited<ReturnType<typeof askEach>>): Promise<void> {
  for (const [name, request] of Object.entries(requests)) {
    const again = await call(...request);
    expect([200, 201], `${name}: ${JSON.stringify(again.body)}`).toContain(again.status);
    expect(told(again), name).toEqual(told(first[name]!));
  }
}

describe('a request that was answered before', () => {
  test(
    'is answered the same while the process takes no new work',
    async () => {
      const asked = await askEach();
      const calls = rig.model.requests.length;
      busy = keepLoopBusy();
      const fresh = () => call('POST', `${rig.runtimeUrl}/session/known_one/prompt`, { content: 'Something new.' });
      await expect.poll(async () => (await fresh()).status, { timeout: 30_000 }).toBe(503);
      const settled = rig.model.requests.length;
      await askAgain(asked);
      expect((await fresh()).body).toMatchObject({ code: 'overloaded' });
      expect((await call('POST', `${rig.runtimeUrl}/session/known_one/prompt`, { id: 'p1', content: 'Other.' })).body.code).toBe(
        'id_conflict',
      );
      expect((await call('POST', `${rig.runtimeUrl}/session/ended_one/prompt`, { id: 'p1', content: 'Other.' })).body.code).toBe(
        'id_conflict',
      );
      busy.stop();
      // The prompts that were taken before the loop was late are the only new calls.
      expect(settled).toBeGreaterThanOrEqual(calls);
      expect(rig.model.requests).toHaveLength(settled);
    },
    TEST_TIMEOUT_MS,
  );

  test(
    'is answered the same while the process shuts down',
    async () => {
      const asked = await askEach();
      rig.model.gate();
      await whenTaken(['POST', `${rig.runtimeUrl}/session`, { id: 'holder_one' }]);
      const running: Request = [
        'POST',
        `${rig.runtimeUrl}/session/holder_one/prompt`,
        { id: 'held', content: 'Hold it open.', async: true },
      ];
      expect((await whenTaken(running)).status).toBe(202);
      const held = await rig.model.next();
      const closing = rig.close();
      const fresh = () => call('POST', `${rig.runtimeUrl}/session`, { id: 'fresh_one' });
      await expect.poll(async () => (await fresh()).body.code, { timeout: 10_000 }).toBe('draining');
      await askAgain(asked);
      expect(await call(...running)).toMatchObject({ status: 202, body: { id: 'held', status: 'running' } });
      held.reply({ text: 'done' });
      await closing;
      rig = await startRig({ yaml: YAML });
    },
    TEST_TIMEOUT_MS,
  );

  test(
    'and decided an approval says so again, whatever the load',
    async () => {
      await rig.tool('ask_first', () => 'ran');
      rig.model.script([{ toolCalls: [{ id: 'c1', name: 'ask_first' }] }, { text: 'done' }]);
      await whenTaken(['POST', `${rig.runtimeUrl}/session`, { id: 'approving_one' }]);
      await whenTaken(['POST', `${rig.runtimeUrl}/session/approving_one/prompt`, { content: 'Go.', async: true }]);
      await nextSignal(rig.client, 'approving_one', 'tool:approval:requested');
      const decide: Request = ['POST', `${rig.runtimeUrl}/session/approving_one/approvals/c1`, { decision: 'once' }];
      expect((await call(...decide)).status).toBe(200);
      await nextSignal(rig.client, 'approving_one', 'turn:end');
      busy = keepLoopBusy();
      const fresh = () => call('POST', `${rig.runtimeUrl}/session/approving_one/prompt`, { content: 'Something new.' });
      await expect.poll(async () => (await fresh()).status, { timeout: 30_000 }).toBe(503);
      expect(await call(...decide)).toMatchObject({ status: 409, body: { code: 'approval_decided' } });
    },
    TEST_TIMEOUT_MS,
  );
});

test(
  'activations that ended before a restart keep their outcome when the process comes back under load',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'signet-known-'));
    const model = await startModelServer();
    const options = { folder, yaml: YAML, env: wireEnvironment('anthropic', model.url) };
    let signet = await startSignet(options);
    try {
      model.gate();
      const ids = Array.from({ length: 12 }, (_, index) => `known_run_${index}`);
      for (const id of ids) expect((await whenTaken(['POST', `${signet.runtimeUrl}/workflows`, { id, agents: [AGENT] }])).status).toBe(201);
      const held = [];
      for (const _ of ids) held.push(await model.next(20_000));
      // The run is let go of first, so its turn ends without being recorded as a result.
      const closing = signet.close();
      await expect.poll(async () => (await call('GET', `${signet.runtimeUrl}/health`)).body.status, { timeout: 10_000 }).toBe('draining');
      for (const { reply } of held) reply({ text: 'written' });
      await closing;
      expect(model.requests).toHaveLength(ids.length);

      busy = keepLoopBusy();
      signet = await startSignet(options);
      const refused = () => call('POST', `${signet.runtimeUrl}/session`, {});
      await expect.poll(async () => (await refused()).body.code, { timeout: 60_000 }).toBe('overloaded');
      const logs = await Promise.all(ids.map((id) => untilEnd(signet.runtimeUrl, id)));
      busy.stop();
      for (const log of logs) {
        expect(payloads(log, 'agent:error')).toEqual([]);
        expect(log.at(-1)).toMatchObject({ name: 'workflow:end', payload: { reason: 'quiescent', state: { text: 'written' } } });
      }
      expect(model.requests).toHaveLength(ids.length);
    } finally {
      busy?.stop();
      await signet.close();
      await model.close();
      rmSync(folder, { recursive: true, force: true });
    }
  },
  TEST_TIMEOUT_MS,
);
