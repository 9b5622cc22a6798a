import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import type { Held } from '../helpers/model-server/gate.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
afterEach(() => rig.close());

const ROSTER = `agents: { roster: [{ name: busy, limits: { providerCallsMax: 1, sessionsMax: 2 } }, { name: other }] }\n`;

test('an agent at its own limit of model calls waits, says so, and holds nobody else up', async () => {
  rig = await startRig({ yaml: ROSTER });
  rig.model.gate();
  const one = await rig.client.session.create({ agent: 'busy' });
  const two = await rig.client.session.create({ agent: 'busy' });
  const three = await rig.client.session.create({ agent: 'other' });
  const first = rig.client.session.prompt(one.id, { content: 'One.' });
  const running = await rig.model.next();
  const second = rig.client.session.prompt(two.id, { content: 'Two.' });
  expect((await nextSignal(rig.client, two.id, 'supervisor:limit')).payload).toEqual({
    kind: 'agent-provider-calls',
    limit: 1,
    current: 1,
    action: 'queued',
  });
  const third = rig.client.session.prompt(three.id, { content: 'Three.' });
  (await rig.model.next()).reply({ text: 'three' });
  expect((await third).content).toBe('three');
  expect(rig.model.pending).toBe(0);
  running.reply({ text: 'one' });
  (await rig.model.next()).reply({ text: 'two' });
  expect([(await first).content, (await second).content]).toEqual(['one', 'two']);
  expect((await rig.client.session.verify(two.id)).verified).toBe(true);
});

test('agents that wait for model calls are served in turn, however many sessions one of them has', async () => {
  rig = await startRig({
    yaml: `${ROSTER.replace(', limits: { providerCallsMax: 1, sessionsMax: 2 }', '')}runtime: { limits: { providerCallsMax: 1 } }\n`,
  });
  rig.model.gate();
  const order: string[] = [];
  const answer = async (held: Held) => {
    order.push(/say-(\w+)/.exec(JSON.stringify(held.request.body.messages))![1]!);
    held.reply({ text: 'said' });
  };
  const ask = async (agent: string, word: string) => {
    const { id } = await rig.client.session.create({ agent });
    const done = rig.client.session.prompt(id, { content: `say-${word}` });
    return { id, done };
  };
  const asked = [await ask('busy', 'b1')];
  const held = await rig.model.next();
  for (const word of ['b2', 'b3', 'b4']) {
    asked.push(await ask('busy', word));
    await nextSignal(rig.client, asked.at(-1)!.id, 'supervisor:limit');
  }
  asked.push(await ask('other', 'o1'));
  await nextSignal(rig.client, asked.at(-1)!.id, 'supervisor:limit', ({ kind }) => kind === 'provider-calls');
  await answer(held);
  for (let calls = 0; calls < 4; calls += 1) await answer(await rig.model.next());
  await Promise.all(asked.map(({ done }) => done));
  expect(order).toEqual(['b1', 'b2', 'o1', 'b3', 'b4']);
});

test('an agent has as many sessions open as it may, and the refusal says when to come again', async () => {
  rig = await startRig({ yaml: ROSTER });
  const tries = await Promise.all(
    Array.from({ length: 5 }, () =>
      rig.client.session.create({ agent: 'busy' }).then(
        ({ id }) => id,
        (error: unknown) => error,
      ),
    ),
  );
  const refused = tries.filter((outcome) => typeof outcome !== 'string');
  expect(refused).toHaveLength(3);
  expect(refused[0]).toMatchObject({ code: 'too_many_sessions', status: 429, retryAfterMs: 5_000 });
  expect((await rig.client.session.create({ agent: 'other' })).agent).toBe('other');
  await rig.client.session.end(tries.find((outcome) => typeof outcome === 'string') as string);
  expect((await rig.client.session.create({ agent: 'busy' })).agent).toBe('busy');
});

test('a tool and a model that ignore an abort end with their turn after the grace time; no session counts as stuck', async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { abortGraceMs: 300, stuckGraceMs: 500 } }\n' });
  await rig.tool('deaf', () => undefined);
  const { id } = await rig.client.session.create({});
  rig.model.script([{ toolCalls: [{ id: 'c1', name: 'deaf', input: {} }] }]);
  const inTool = rig.client.session.prompt(id, { content: 'Call.' });
  await nextSignal(rig.client, id, 'tool:call');
  expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
  expect((await inTool).status).toBe('aborted');

  rig.model.gate();
  const inModel = rig.client.session.prompt(id, { content: 'Think.' });
  await rig.model.next();
  expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
  expect((await inModel).status).toBe('aborted');
  expect((await readLog(rig.client, id)).filter(({ name }) => name === 'turn:end')).toHaveLength(2);

  const health = (await (await fetch(`${rig.runtimeUrl}/health`)).json()) as { sessions: object };
  expect(health.sessions).toMatchObject({ alive: 1, stuck: 0, quarantined: 0 });
  const metrics = await (await fetch(`${rig.runtimeUrl}/metrics`)).text();
  expect(metrics).toMatch(/^signet_sessions_stuck 0$/m);
});

test('a tool that answers a gigabyte is cut off at its cap: the rest is never taken in', async () => {
  rig = await startRig();
  let sent = 0;
  const flood = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"output":"');
    const chunk = 'x'.repeat(65_536);
    const pour = () => {
      while (sent < 1_073_741_824 && !response.destroyed) {
        sent += chunk.length;
        if (!response.write(chunk)) return void response.once('drain', pour);
      }
      response.end('"}');
    };
    pour();
  });
  await new Promise<void>((resolve) => flood.listen(0, '127.0.0.1', resolve));
  try {
    const url = `http://127.0.0.1:${(flood.address() as AddressInfo).port}`;
    await rig.client.tools.register({
      name: 'flood',
      description: 'Much.',
      inputSchema: { type: 'object' },
      class: 'pure',
      callback: { url },
    });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'flood', input: {} }] }, { text: 'Too much.' }]);
    const { id } = await rig.client.session.create({});
    expect(await rig.client.session.prompt(id, { content: 'Pour.' })).toMatchObject({ status: 'completed', content: 'Too much.' });
    const [result] = payloads(await readLog(rig.client, id), 'tool:result');
    expect(result).toMatchObject({ isError: true, error: { code: 'tool_failed' } });
    // The cap, and what the sockets' buffers held.
    expect(sent).toBeLessThan(64 * 1_048_576);
  } finally {
    flood.closeAllConnections();
    flood.close();
  }
});

test('an overloaded process refuses new prompts and sessions with 503 and Retry-After, and takes them again when it has caught up', async () => {
  rig = await startRig({ yaml: 'runtime: { limits: { eventLoopDelayMsMax: 50 } }\n' });
  const { id } = await rig.client.session.create({});
  const post = (path: string, body: object) =>
    fetch(`${rig.runtimeUrl}${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  let isBusy = true;
  const block = () => {
    const until = performance.now() + 150;
    while (performance.now() < until);
    if (isBusy) setTimeout(block, 1);
  };
  block();
  try {
    await expect.poll(async () => (await post(`/session/${id}/prompt`, { content: 'now' })).status, { timeout: 30_000 }).toBe(503);
    const refused = await post('/session', {});
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await refused.json()).toMatchObject({ code: 'overloaded' });
  } finally {
    isBusy = false;
  }
  await expect.poll(async () => (await post(`/session/${id}/prompt`, { content: 'and now' })).status, { timeout: 30_000 }).toBe(200);
});
