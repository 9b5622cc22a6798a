import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Signal } from '../../src/contract/signal.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { schemaFaults } from '../helpers/signal-schema.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { answersPerMatch, startWorkflow, untilEnd, untilSignal, workflowLog } from '../helpers/workflow.ts';
import { named, payloads, wireEnvironment } from './rig.ts';

const TEST_TIMEOUT_MS = 60_000;
const YAML = 'runtime: { limits: { drainTimeoutMs: 200 } }\n';
const agent = (name: string, on: string, emits: string) => ({
  name,
  activateOn: [on],
  prompt: `I am ${name}.`,
  emits: [emits],
  updates: name,
});
const AGENTS = [
  agent('first', 'workflow:start', 'first:done'),
  agent('left', 'first:done', 'left:done'),
  agent('right', 'first:done', 'right:done'),
  { ...agent('last', 'left:done', 'last:done'), activateOn: ['left:done', 'right:done'] },
];

let folder: string;
let model: ModelServer;
let signet: SignetProcess;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-workflow-'));
  model = await startModelServer();
  model.respond(({ body }) => ({ text: /I am (\w+)/.exec(JSON.stringify(body.messages))?.[1] ?? 'nobody' }));
  signet = await boot();
});
afterEach(async () => {
  await signet.close();
  await model.close();
  rmSync(folder, { recursive: true, force: true });
});

function boot(): Promise<SignetProcess> {
  return startSignetProcess({ folder, yaml: YAML, env: wireEnvironment('anthropic', model.url) });
}

async function killAndRestart(): Promise<void> {
  await signet.kill();
  signet = await boot();
}

/** Everything was done once: five activations, one for each signal and agent, and nothing more. */
function expectWhole(log: readonly Signal[]): void {
  expect(log.flatMap(schemaFaults)).toEqual([]);
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  expect([...answersPerMatch(log).values()]).toEqual([1, 1, 1, 1, 1]);
  expect(
    payloads(log, 'agent:completed')
      .map(({ agent: name }) => name)
      .sort(),
  ).toEqual(['first', 'last', 'last', 'left', 'right']);
  expect(log.at(-1)).toMatchObject({
    name: 'workflow:end',
    payload: { reason: 'quiescent', state: { first: 'first', left: 'left', right: 'right', last: 'last' }, metrics: { activations: 5 } },
  });
}

describe('a workflow whose process is killed', () => {
  for (const point of ['workflow:start', 'agent:activated', 'workflow:result', 'first:done', 'last:done']) {
    test(
      `goes on where ${point} was the newest thing seen, and activates nobody twice`,
      async () => {
        const { id } = await startWorkflow(signet.runtimeUrl, { agents: AGENTS });
        await untilSignal(signet.runtimeUrl, id, point);
        await killAndRestart();
        expectWhole(await untilEnd(signet.runtimeUrl, id));
      },
      TEST_TIMEOUT_MS,
    );
  }

  test(
    'goes on in the middle of two parallel turns, whose model calls are made once more',
    async () => {
      const { id } = await startWorkflow(signet.runtimeUrl, { agents: AGENTS });
      await untilSignal(signet.runtimeUrl, id, 'first:done');
      model.gate();
      await Promise.all([model.next(), model.next()]).catch(() => undefined); // They may have been answered before the gate fell.
      await killAndRestart();
      model.open();
      const log = await untilEnd(signet.runtimeUrl, id);
      expectWhole(log);
      expect(named(log, 'workflow:owned').length).toBeGreaterThan(0);
      for (const { session } of payloads(log, 'agent:activated') as { session: string }[]) {
        const { items } = await signet.client.session.events(session, { limit: 1_000 });
        expect(payloads(items, 'turn:end')).toMatchObject([{ stopReason: 'end_turn' }]);
        expect(named(items, 'prompt:received')).toHaveLength(1);
      }
    },
    TEST_TIMEOUT_MS,
  );

  test(
    'that was being aborted still ends as aborted',
    async () => {
      model.gate();
      const { id } = await startWorkflow(signet.runtimeUrl, { agents: AGENTS });
      await model.next();
      const aborted = fetch(`${signet.runtimeUrl}/workflows/${id}`, { method: 'DELETE' }).catch(() => undefined);
      await untilSignal(signet.runtimeUrl, id, 'workflow:abort');
      await killAndRestart();
      await aborted;
      expect((await untilEnd(signet.runtimeUrl, id)).at(-1)!.payload).toMatchObject({ reason: 'aborted' });
    },
    TEST_TIMEOUT_MS,
  );

  test(
    'that is stopped in good order goes on as well, and one that has ended stays as it is',
    async () => {
      const ended = await startWorkflow(signet.runtimeUrl, { agents: AGENTS });
      const before = await untilEnd(signet.runtimeUrl, ended.id);
      model.gate();
      const { id } = await startWorkflow(signet.runtimeUrl, { agents: [{ ...AGENTS[0], debounceMs: 1 }, ...AGENTS.slice(1)] });
      await untilSignal(signet.runtimeUrl, id, 'timer:set');
      await signet.close();
      model.open();
      signet = await boot();
      expectWhole(await untilEnd(signet.runtimeUrl, id));
      expect(await workflowLog(signet.runtimeUrl, ended.id)).toEqual(before);
    },
    TEST_TIMEOUT_MS,
  );
});
