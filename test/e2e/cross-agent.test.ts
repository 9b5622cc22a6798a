import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet, startSignetProcess } from '../helpers/signet.ts';
import { openSse } from '../helpers/sse-client.ts';
import { named, nextSignal, payloads, type Rig, readLog, startRig, wireEnvironment } from './rig.ts';

const KILL_POINT = new URL('./kill-point.ts', import.meta.url).href;
const YAML = 'agents: { roster: [{ name: dot }, { name: rose }] }\n';

async function start(more = ''): Promise<Rig> {
  const rig = await startRig({ yaml: YAML + more });
  onTestFinished(() => rig.close());
  return rig;
}

async function send(signet: Signet, body: object) {
  const answer = await call('POST', `${signet.daemonUrl}/api/cross-agent/messages`, body);
  expect(answer.status).toBe(200);
  return answer.body.message;
}

/** What the model was given last, all of it as text. */
const given = (model: ModelServer): string => JSON.stringify(model.requests.at(-1)?.body);

test('a message to a session of the runtime is in its log, and before its model with the next turn, once', async () => {
  const rig = await start();
  const { session } = rig.client;
  const { id, sessionKey } = await session.create({ agent: 'rose' });
  await session.prompt(id, { content: 'Good morning.' });
  const toSession = await send(rig, { content: 'Deploy waits for you.', type: 'question', fromAgentId: 'dot', toSessionKey: sessionKey });
  expect(toSession).toMatchObject({ toAgentId: 'rose', deliveryStatus: 'delivered', recipients: 1 });
  const toAll = await send(rig, { content: 'Freeze at noon.', broadcast: true });

  await session.prompt(id, { content: 'What is new?' });
  expect(given(rig.model)).toContain(`[${toSession.id}] question from dot`);
  expect(given(rig.model)).toContain('> Deploy waits for you.');
  await session.prompt(id, { content: 'And now?' });
  expect(given(rig.model).split('Deploy waits for you.')).toHaveLength(2);

  const log = await readLog(rig.client, id);
  expect(payloads(log, 'message:received')).toEqual([
    { messageId: toSession.id, type: 'question', from: 'dot', broadcast: false },
    { messageId: toAll.id, type: 'info', from: 'default', broadcast: true },
  ]);
  const [, , second, third] = payloads(log, 'hook:end');
  expect(second).toMatchObject({ key: 't2.hook', inject: expect.stringContaining('> Deploy waits for you.') });
  expect(third).not.toHaveProperty('messages');
  expect(await session.verify(id)).toMatchObject({ verified: true });
  const inbox = await call('GET', `${rig.daemonUrl}/api/cross-agent/messages?session_key=${encodeURIComponent(sessionKey)}&unread=true`);
  expect(inbox.body.items).toEqual([]);
});

test('a session at rest says at once in its stream that a message came; its model is shown it with the next prompt, once', async () => {
  const rig = await start();
  const { session } = rig.client;
  const { id, sessionKey } = await session.create({ agent: 'rose' });
  await session.prompt(id, { content: 'Good morning.' });
  const before = rig.model.requests.length;
  const stream = await openSse(`${rig.runtimeUrl}/session/${id}/stream?after=0`);
  onTestFinished(() => stream.close());
  const draft = { content: 'Deploy waits.', type: 'question', fromAgentId: 'dot', fromSessionKey: 'd1', toSessionKey: sessionKey };
  const message = await send(rig, draft);
  const told = await stream.until(({ event }) => event === 'message:received');
  const facts = { messageId: message.id, type: 'question', from: 'dot', fromSession: 'd1', broadcast: false };
  expect(told.data.payload).toEqual(facts);
  expect(rig.model.requests).toHaveLength(before);
  expect(await session.get(id)).toMatchObject({ state: 'idle', turns: 1 });

  await session.prompt(id, { content: 'What is new?' });
  expect(given(rig.model)).toContain(`[${message.id}] question from dot (session d1)`);
  expect(given(rig.model).split('> Deploy waits.')).toHaveLength(2);
  const log = await readLog(rig.client, id);
  expect([...payloads(log, 'message:arrived'), ...payloads(log, 'message:received')]).toEqual([facts, facts]);
  expect(named(log, 'message:received')[0]!.source.turn).toBeUndefined();
  expect(await session.verify(id)).toMatchObject({ verified: true });
});

test('a message reaches a session in the middle of a turn, and all sessions it is for and no others', async () => {
  const rig = await start();
  const { session } = rig.client;
  const [first, second, other] = [
    await session.create({ agent: 'rose' }),
    await session.create({ agent: 'rose' }),
    await session.create({ agent: 'dot' }),
  ];
  rig.model.gate();
  const asked = session.prompt(first.id, { content: 'Think.' });
  const held = await rig.model.next();
  await send(rig, { content: 'For rose.', toAgentId: 'rose' });
  await send(rig, { content: 'From dot to all.', fromAgentId: 'dot', fromSessionKey: other.sessionKey, broadcast: true });
  await nextSignal(rig.client, first.id, 'message:received', ({ broadcast }) => broadcast === true);
  expect(await session.get(first.id)).toMatchObject({ state: 'generating' });
  rig.model.open();
  held.reply({ text: 'Thought.' });
  await asked;
  await session.prompt(first.id, { content: 'What is new?' });
  expect(given(rig.model).split('> For rose.')).toHaveLength(2);
  expect(given(rig.model).split('> From dot to all.')).toHaveLength(2);

  const received = async (id: string) =>
    payloads(await readLog(rig.client, id), 'message:received').map(({ broadcast }) => broadcast === true);
  expect(await received(first.id)).toEqual([false, true]);
  expect(await received(second.id)).toEqual([false, true]);
  expect(await received(other.id)).toEqual([]);
  for (const { id } of [first, second, other]) expect(await session.verify(id)).toMatchObject({ verified: true });
});

test('a bypassed session hears of a message when it is bypassed no more, and one that left memory is not woken', async () => {
  const rig = await start('runtime: { limits: { idleTtlMs: 1000 } }\n');
  const { session } = rig.client;
  const silent = await session.create({ agent: 'rose', bypass: true });
  const asleep = await session.create({ agent: 'dot' });
  await nextSignal(rig.client, asleep.id, 'session:passivated');
  await send(rig, { content: 'Anybody?', fromAgentId: 'default', broadcast: true });
  await session.prompt(asleep.id, { content: 'What is new?' });
  expect(given(rig.model).split('> Anybody?')).toHaveLength(2);
  expect(payloads(await readLog(rig.client, asleep.id), 'message:received')).toMatchObject([{ turn: 1, broadcast: true }]);
  const names = (await readLog(rig.client, silent.id)).map(({ name }) => name);
  expect(names.filter((name) => name.startsWith('message:'))).toEqual([]);
  const unbypassed = await call('POST', `${rig.daemonUrl}/api/sessions/${silent.sessionKey}/bypass`, { enabled: false });
  expect(unbypassed.status).toBe(200);
  await session.prompt(silent.id, { content: 'What is new?' });
  expect(given(rig.model).split('> Anybody?')).toHaveLength(2);
});

test('no other agent’s model is given it, and an aborted turn loses nothing', async () => {
  const rig = await start();
  const { session } = rig.client;
  const dot = await session.create({ agent: 'dot' });
  const rose = await session.create({ agent: 'rose' });
  await send(rig, { content: 'For rose alone.', toAgentId: 'rose' });
  await session.prompt(dot.id, { content: 'Anything?' });
  expect(given(rig.model)).not.toContain('For rose alone.');

  rig.model.gate();
  const aborted = session.prompt(rose.id, { content: 'Anything?' }).catch(() => undefined);
  const held = await rig.model.next();
  await session.abort(rose.id);
  await aborted;
  rig.model.open();
  held.reply({ text: 'too late' });
  await session.prompt(rose.id, { content: 'And now?' });
  // It stands with the prompt that was aborted, which is still part of the conversation.
  expect(given(rig.model).split('For rose alone.')).toHaveLength(2);
  expect(payloads(await readLog(rig.client, rose.id), 'message:received')).toHaveLength(1);
});

test('after kill -9 in the middle of a turn a message is there, and there once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-cross-agent-'));
  const model = await startModelServer();
  const begin = () =>
    startSignetProcess({ folder, yaml: YAML, env: { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'warn' } });
  let signet = await begin();
  onTestFinished(async () => {
    await signet.kill();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const { id, sessionKey } = await signet.client.session.create({ agent: 'rose' });
  await signet.client.session.prompt(id, { content: 'Good morning.' });
  await send(signet, { content: 'Read me once.', toSessionKey: sessionKey });
  await send(signet, { content: 'Kept for dot.', toAgentId: 'dot' });
  model.gate();
  const lost = signet.client.session.prompt(id, { content: 'What is new?' }).catch(() => undefined);
  await model.next(15_000);
  await signet.kill();
  await lost;
  model.open();
  signet = await begin();
  await expect.poll(async () => (await signet.client.session.get(id)).state, { timeout: 20_000 }).toBe('idle');

  const log = await readLog(signet.client, id);
  expect(payloads(log, 'message:received')).toHaveLength(1);
  expect(given(model).split('Read me once.')).toHaveLength(2);
  expect(await signet.client.session.verify(id)).toMatchObject({ verified: true });
  const inbox = await call('GET', `${signet.daemonUrl}/api/cross-agent/messages?agent_id=dot`);
  expect(inbox.body.items).toMatchObject([{ content: 'Kept for dot.', deliveryStatus: 'queued' }]);
});

test.for([
  ['before the log of the session has it', {}, { turn: 2 }],
  ['when the log of the session has it', { KILL_AFTER: '1' }, {}],
] as const)('after kill -9 %s, a message that is stored arrives, and is named and shown once', async ([, point, shown]) => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-cross-agent-'));
  const model = await startModelServer();
  const env = { ...wireEnvironment('anthropic', model.url), SIGNET_LOG_LEVEL: 'warn' };
  const killed = { NODE_OPTIONS: `--import=${KILL_POINT}`, KILL_AT_SIGNAL: 'message:arrived', ...point };
  let signet = await startSignetProcess({ folder, yaml: YAML, env: { ...env, ...killed } });
  onTestFinished(async () => {
    await signet.kill();
    await model.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const { id, sessionKey } = await signet.client.session.create({ agent: 'rose' });
  await signet.client.session.prompt(id, { content: 'Good morning.' });
  const exited = once(signet.process, 'exit');
  call('POST', `${signet.daemonUrl}/api/cross-agent/messages`, { content: 'Read me once.', toSessionKey: sessionKey }).catch(
    () => undefined,
  );
  expect(await exited).toEqual([null, 'SIGKILL']);

  signet = await startSignetProcess({ folder, yaml: YAML, env });
  await signet.client.session.prompt(id, { content: 'What is new?' });
  await signet.client.session.prompt(id, { content: 'And now?' });
  expect(given(model).split('> Read me once.')).toHaveLength(2);
  const received = payloads(await readLog(signet.client, id), 'message:received');
  expect(received).toEqual([{ messageId: expect.any(String), type: 'info', from: 'default', broadcast: false, ...shown }]);
  expect(await signet.client.session.verify(id)).toMatchObject({ verified: true });
});

test('a replay shows the model what it was shown when it was recorded, though nobody writes any more', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'signet-cross-agent-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const model = await startModelServer();
  const recording = { SIGNALS_RECORDING: join(folder, 'run.jsonl') };
  const talk = async (signet: Signet, between: (sessionKey: string) => Promise<unknown>) => {
    const { id, sessionKey } = await signet.client.session.create({ agent: 'rose' });
    const { content: first } = await signet.client.session.prompt(id, { content: 'Good morning.' });
    await between(sessionKey);
    const { content: second } = await signet.client.session.prompt(id, { content: 'What is new?' });
    await signet.client.session.prompt(id, { content: 'And now?' });
    const log = await readLog(signet.client, id);
    const injects = payloads(log, 'hook:end').map(({ inject }) => inject);
    const messages = { received: payloads(log, 'message:received'), arrived: payloads(log, 'message:arrived') };
    // Where a message is named depends on whether somebody wrote it just then.
    const names = log.map(({ name }) => name).filter((name) => !name.startsWith('message:'));
    return { told: { answers: [first, second], injects, names }, messages, verified: (await signet.client.session.verify(id)).verified };
  };
  const live = await startSignet({ yaml: YAML, env: { ...wireEnvironment('anthropic', model.url), ...recording, SIGNALS_MODE: 'record' } });
  const recorded = await talk(live, (toSessionKey) => send(live, { content: 'Deploy waits.', toSessionKey }));
  await live.close();
  await model.close();
  const [message] = recorded.messages.received;
  expect(recorded).toMatchObject({ messages: { received: [{ from: 'default' }], arrived: [message] }, verified: true });

  const again = await startSignet({ yaml: YAML, env: { ...recording, SIGNALS_MODE: 'replay' } });
  onTestFinished(() => again.close().then(() => undefined));
  const replayed = await talk(again, async () => undefined);
  expect(replayed.told).toEqual(recorded.told);
  expect(replayed).toMatchObject({ messages: { received: [{ ...message, turn: 2 }], arrived: [] }, verified: true });
});
