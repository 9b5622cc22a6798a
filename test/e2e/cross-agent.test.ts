import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { call } from '../conformance/calls.ts';
import { type ModelServer, startModelServer } from '../helpers/model-server/server.ts';
import { type Signet, startSignet, startSignetProcess } from '../helpers/signet.ts';
import { payloads, type Rig, readLog, startRig, wireEnvironment } from './rig.ts';

const YAML = 'agents: { roster: [{ name: dot }, { name: rose }] }\n';

async function start(): Promise<Rig> {
  const rig = await startRig({ yaml: YAML });
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
    { turn: 2, messageId: toSession.id, type: 'question', from: 'dot', broadcast: false },
    { turn: 2, messageId: toAll.id, type: 'info', from: 'default', broadcast: true },
  ]);
  const [, , second, third] = payloads(log, 'hook:end');
  expect(second).toMatchObject({ key: 't2.hook', inject: expect.stringContaining('> Deploy waits for you.') });
  expect(third).not.toHaveProperty('messages');
  expect(await session.verify(id)).toMatchObject({ verified: true });
  const inbox = await call('GET', `${rig.daemonUrl}/api/cross-agent/messages?session_key=${encodeURIComponent(sessionKey)}&unread=true`);
  expect(inbox.body.items).toEqual([]);
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
    return { answers: [first, second], injects, received: payloads(log, 'message:received'), names: log.map(({ name }) => name) };
  };
  const live = await startSignet({ yaml: YAML, env: { ...wireEnvironment('anthropic', model.url), ...recording, SIGNALS_MODE: 'record' } });
  const recorded = await talk(live, (toSessionKey) => send(live, { content: 'Deploy waits.', toSessionKey }));
  await live.close();
  await model.close();
  expect(recorded.received).toHaveLength(1);

  const again = await startSignet({ yaml: YAML, env: { ...recording, SIGNALS_MODE: 'replay' } });
  onTestFinished(() => again.close().then(() => undefined));
  expect(await talk(again, async () => undefined)).toEqual(recorded);
});
