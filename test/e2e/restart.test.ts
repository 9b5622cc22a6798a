import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type CallbackServer, startCallbackServer } from '../helpers/callback-server.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';
import { nextSignal, payloads, readLog, wireEnvironment } from './rig.ts';

const YAML = 'runtime: { limits: { backoffMs: 1, drainTimeoutMs: 8000 } }\n';

let folder: string;
let model: ModelServer;
let tools: CallbackServer;
let signet: SignetProcess;
/** Answers a tool call; undefined leaves it open. */
let answerTool: () => unknown;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'signet-restart-'));
  model = await startModelServer();
  answerTool = () => undefined;
  tools = await startCallbackServer(() => answerTool());
  await start();
});
afterEach(async () => {
  await signet.kill();
  await model.close();
  await tools.close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(yaml = YAML, env: Record<string, string> = {}): Promise<void> {
  signet = await startSignetProcess({
    folder,
    yaml,
    env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'warn', ...env },
  });
}

async function killAndRestart(): Promise<void> {
  await signet.kill();
  await start();
}

async function register(name: string, toolClass: 'pure' | 'idempotent' | 'unsafe', needsApproval = false): Promise<void> {
  await signet.client.tools.register({
    name,
    description: name,
    inputSchema: { type: 'object' },
    class: toolClass,
    needsApproval,
    callback: { url: tools.origin },
  });
}

async function exitCode(): Promise<number | null> {
  const { process: child } = signet;
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return child.exitCode;
}

test('a daemon killed in the middle of a model call goes on with the turn, ends it once, and keeps the queue', async () => {
  model.gate();
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Say tea.', promptId: 'p1' });
  await model.next();
  await signet.client.session.promptAsync(id, { content: 'Say milk.', promptId: 'p2' });
  await killAndRestart();
  const first = signet.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' });
  (await model.next(15_000)).reply({ text: 'tea' });
  (await model.next()).reply({ text: 'milk' });
  expect(await first).toMatchObject({ status: 'completed', content: 'tea' });
  expect(await signet.client.session.prompt(id, { content: 'Say milk.', promptId: 'p2' })).toMatchObject({ content: 'milk' });
  const log = await readLog(signet.client, id);
  expect(payloads(log, 'prompt:received').length).toBe(2);
  expect(payloads(log, 'harness:start').length).toBe(2);
  expect(payloads(log, 'turn:end').map(({ promptId, stopReason }) => [promptId, stopReason])).toEqual([
    ['p1', 'end_turn'],
    ['p2', 'end_turn'],
  ]);
  expect(payloads(log, 'session:resumed')).toMatchObject([{ restarted: ['t1.r1.a1'] }]);
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  // Both requests carried the same key, so that a provider that knows it answers once.
  expect(model.requests[0]!.headers['idempotency-key']).toBe(model.requests[1]!.headers['idempotency-key']);

  // And a question asked again after another restart has the same answer, without a model call.
  const before = model.requests.length;
  const answer = await signet.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' });
  await killAndRestart();
  expect(await signet.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' })).toEqual(answer);
  await expect(signet.client.session.prompt(id, { content: 'Say no.', promptId: 'p1' })).rejects.toMatchObject({ code: 'id_conflict' });
  expect(model.requests.length).toBe(before);
});

describe('a daemon killed in the middle of a tool call', () => {
  async function killDuringCall(toolClass: 'pure' | 'idempotent' | 'unsafe'): Promise<{ id: string; answer: Promise<unknown> }> {
    await register('act', toolClass);
    model.script([{ toolCalls: [{ id: 'c1', name: 'act', input: { n: 1 } }] }, { text: 'I see.' }]);
    const { id } = await signet.client.session.create({});
    await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
    await expect.poll(() => tools.requests.length, { timeout: 15_000 }).toBe(1);
    answerTool = () => ({ output: 'acted' });
    await killAndRestart();
    return { id, answer: signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' }) };
  }

  test('never repeats an unsafe one: the model is told that its outcome is not known', async () => {
    const { id, answer } = await killDuringCall('unsafe');
    expect(await answer).toMatchObject({ status: 'completed', content: 'I see.' });
    expect(tools.requests.length).toBe(1);
    expect(payloads(await readLog(signet.client, id), 'tool:result')).toMatchObject([
      { id: 'c1', isError: true, error: { code: 'unknown' } },
    ]);
    expect(JSON.stringify(model.requests[1]!.body.messages)).toContain('not known');
  });

  test.each(['idempotent', 'pure'] as const)('repeats a %s one under the same key', async (toolClass) => {
    const { id, answer } = await killDuringCall(toolClass);
    expect(await answer).toMatchObject({ status: 'completed', content: 'I see.' });
    expect(tools.requests.map(({ body }) => body.callKey)).toEqual([`${id}:t1.r1.c0`, `${id}:t1.r1.c0`]);
    const log = await readLog(signet.client, id);
    expect(payloads(log, 'tool:call').length).toBe(1);
    expect(payloads(log, 'tool:result')).toMatchObject([{ id: 'c1', isError: false, output: 'acted' }]);
  });
});

test('an approval that waits is still there after kill -9, and its tool runs when it is allowed', async () => {
  await register('act', 'unsafe', true);
  answerTool = () => ({ output: 'acted' });
  model.script([{ toolCalls: [{ id: 'c1', name: 'act', input: { n: 1 } }] }, { text: 'Done.' }]);
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Act.', promptId: 'p1' });
  await nextSignal(signet.client, id, 'tool:approval:requested');
  const [before] = (await signet.client.approvals.list()).items;
  await killAndRestart();
  await expect.poll(async () => (await signet.client.approvals.list()).items, { timeout: 15_000 }).toEqual([before]);
  expect(tools.requests.length).toBe(0);
  await signet.client.approvals.decide(id, 'c1', 'once');
  expect(await signet.client.session.prompt(id, { content: 'Act.', promptId: 'p1' })).toMatchObject({ content: 'Done.' });
  expect(tools.requests.length).toBe(1);
});

test('a wait for the provider goes on over kill -9', async () => {
  model.script([{ fault: { kind: 'status', status: 529, headers: { 'retry-after': '2' } } }, { text: 'here I am' }]);
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Hello?', promptId: 'p1' });
  await nextSignal(signet.client, id, 'timer:set');
  await killAndRestart();
  expect(await signet.client.session.prompt(id, { content: 'Hello?', promptId: 'p1' })).toMatchObject({ content: 'here I am' });
  const log = await readLog(signet.client, id);
  const due = Date.parse(String(payloads(log, 'timer:set')[0]!.dueAt));
  expect(Date.parse(log.find(({ name }) => name === 'timer:fired')!.timestamp)).toBeGreaterThanOrEqual(due);
  expect(model.requests.length).toBe(2);
});

test('a reader goes on over kill -9 in the middle of a text: what it had of that text is void, the rest comes once', async () => {
  model.script([
    { text: 'one two three four five', fault: { kind: 'stall', after: 3 } },
    { text: 'eins zwei drei vier fünf', delayMs: 5 },
  ]);
  const { id } = await signet.client.session.create({});
  const seqs: number[] = [];
  let text = '';
  const cut = Promise.withResolvers<void>();
  const reading = (async () => {
    for await (const event of signet.client.session.stream(id)) {
      if (event.seq !== undefined) seqs.push(event.seq);
      // The call is made again, and what it says may be something else.
      if (event.name === 'session:resumed') text = '';
      if (event.name === 'text:delta') text += event.content;
      if (text === 'one two three ') cut.resolve();
      if (event.name === 'turn:end') return;
    }
  })();
  await signet.client.session.promptAsync(id, { content: 'Count.' });
  await cut.promise;
  await signet.kill();
  await start(YAML, { SIGNET_RUNTIME_PORT: new URL(signet.runtimeUrl).port });
  await reading;
  expect(text).toBe('eins zwei drei vier fünf');
  expect(seqs).toEqual(seqs.map((_, index) => index + 1));
});

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test('lets the running turn end, refuses new work meanwhile, and exits 0', async () => {
    model.gate();
    const { id } = await signet.client.session.create({});
    const prompt = signet.client.session.prompt(id, { content: 'Say tea.' });
    const held = await model.next();
    signet.process.kill(signal);
    await expect.poll(() => signet.output(), { timeout: 15_000 }).toContain(`${signal}: draining`);
    await expect(signet.client.session.create({})).rejects.toMatchObject({ code: 'draining', status: 503 });
    held.reply({ text: 'tea' });
    expect(await prompt).toMatchObject({ status: 'completed', content: 'tea' });
    expect(await exitCode()).toBe(0);
    expect(signet.output()).toMatch(/\nstopped\n$/);
  });
});

test('a turn that does not end in the time a stop gives it goes on at the next start', async () => {
  await signet.close();
  await start('runtime: { limits: { drainTimeoutMs: 100 } }\n');
  model.gate();
  const { id } = await signet.client.session.create({});
  await signet.client.session.promptAsync(id, { content: 'Say tea.', promptId: 'p1' });
  const held = await model.next();
  signet.process.kill('SIGTERM');
  expect(await exitCode()).toBe(0);
  expect(await held.request.closed).toEqual({ aborted: true });
  expect(signet.output()).toContain('stopped; 1 session goes on at the next start');
  await start();
  (await model.next(15_000)).reply({ text: 'tea' });
  expect(await signet.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' })).toMatchObject({
    status: 'completed',
    content: 'tea',
  });
  expect(payloads(await readLog(signet.client, id), 'turn:end').length).toBe(1);
});
