import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { nextSignal, payloads, type Rig, readLog, startRig } from './rig.ts';

let rig: Rig;
let id: string;
beforeEach(async () => {
  rig = await startRig();
  ({ id } = await rig.client.session.create({}));
});
afterEach(() => rig.close());

describe('a prompt that meets a running turn', () => {
  test('joins it at the next model boundary with delivery steer, and both are answered by the one turn', async () => {
    let finish = (): void => undefined;
    await rig.tool('look', (_input, _request, response) => {
      finish = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{"output":"found"}');
      return undefined;
    });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'look', input: {} }] }, { text: 'For both of you.' }]);
    const first = rig.client.session.prompt(id, { content: 'Look for tea.', promptId: 'p1' });
    await nextSignal(rig.client, id, 'tool:call');
    const second = rig.client.session.prompt(id, { content: 'And for milk.', promptId: 'p2', delivery: 'steer' });
    await nextSignal(rig.client, id, 'prompt:received', (prompt) => prompt.promptId === 'p2');
    finish();
    expect((await first).content).toBe('For both of you.');
    const toolResults = [{ name: 'look', input: {}, output: 'found' }];
    expect(await second).toMatchObject({ id: 'p2', status: 'completed', content: 'For both of you.', toolResults });
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'turn:end')).toMatchObject([{ promptIds: ['p1', 'p2'], rounds: 2 }]);
    expect(payloads(log, 'turn:steered')).toMatchObject([{ turn: 1, promptId: 'p2' }]);
    const messages = rig.model.requests[1]!.body.messages as { role: string }[];
    expect(JSON.stringify(messages.at(-1))).toContain('And for milk.');
  });

  test('keeps the turn open when it steers in while the model speaks its last words', async () => {
    rig.model.gate();
    const first = rig.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' });
    const held = await rig.model.next();
    await rig.client.session.promptAsync(id, { content: 'And milk.', promptId: 'p2', delivery: 'steer' });
    held.reply({ text: 'tea' });
    (await rig.model.next()).reply({ text: 'tea and milk' });
    expect((await first).content).toBe('tea and milk');
    const messages = await rig.client.session.messages(id);
    expect(messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)).toEqual(['tea', 'tea and milk']);
    expect(payloads(await readLog(rig.client, id), 'turn:end')).toMatchObject([{ promptIds: ['p1', 'p2'] }]);
  });

  test('stops it and goes first with delivery interrupt', async () => {
    rig.model.gate();
    const first = rig.client.session.prompt(id, { content: 'Long story.', promptId: 'p1' });
    const held = await rig.model.next();
    await rig.client.session.promptAsync(id, { content: 'Later.', promptId: 'p2' });
    const urgent = rig.client.session.prompt(id, { content: 'Now!', promptId: 'p3', delivery: 'interrupt' });
    expect(await held.request.closed).toEqual({ aborted: true });
    (await rig.model.next()).reply({ text: 'at once' });
    (await rig.model.next()).reply({ text: 'and later' });
    expect(await first).toMatchObject({ status: 'aborted', stopReason: 'cancelled' });
    expect((await urgent).content).toBe('at once');
    await rig.client.session.wait(id);
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'turn:start').map(({ promptId }) => promptId)).toEqual(['p1', 'p3', 'p2']);
  });

  test('is refused when as many as may wait are waiting to steer; none of those is lost', async () => {
    rig.model.gate();
    const first = rig.client.session.prompt(id, { content: 'One.', promptId: 'p0' });
    const held = await rig.model.next();
    for (let n = 1; n <= 16; n += 1)
      await rig.client.session.promptAsync(id, { content: `Steer ${n}.`, promptId: `p${n}`, delivery: 'steer' });
    await expect(rig.client.session.prompt(id, { content: 'Too many.', delivery: 'steer' })).rejects.toMatchObject({
      code: 'session_busy',
      status: 429,
    });
    held.reply({ text: 'one' });
    (await rig.model.next()).reply({ text: 'all of you' });
    expect((await first).content).toBe('all of you');
    const sent = JSON.stringify(rig.model.requests[1]!.body.messages);
    for (let n = 1; n <= 16; n += 1) expect(sent).toContain(`Steer ${n}.`);
  });

  test('is refused with delivery reject', async () => {
    rig.model.gate();
    const first = rig.client.session.prompt(id, { content: 'One.' });
    const held = await rig.model.next();
    await expect(rig.client.session.prompt(id, { content: 'Two.', delivery: 'reject' })).rejects.toMatchObject({
      code: 'turn_open',
      status: 409,
    });
    held.reply({ text: 'one' });
    expect((await first).content).toBe('one');
    rig.model.open();
    expect((await rig.client.session.prompt(id, { content: 'Three.', delivery: 'reject' })).status).toBe('completed');
  });
});

describe('an abort', () => {
  test('closes the socket of the provider, keeps what was said, and answers when all has settled', async () => {
    rig.model.script([{ text: 'Once upon a time there was a kettle.', fault: { kind: 'stall', after: 3 } }]);
    const prompt = rig.client.session.prompt(id, { content: 'A story.', promptId: 'p1' });
    for await (const event of rig.client.session.stream(id)) if (event.name === 'text:delta') break;
    expect(await rig.client.session.abort(id, { reason: 'enough' })).toMatchObject({ aborted: true, cancelled: [], state: 'idle' });
    expect(await rig.model.requests[0]!.closed).toEqual({ aborted: true });
    expect(await prompt).toMatchObject({ status: 'aborted', stopReason: 'cancelled' });
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'turn:cancel')).toMatchObject([{ by: 'sdk', reason: 'enough' }]);
    const said = (await rig.client.session.messages(id)).at(-1)!;
    expect([said.role, 'Once upon a time there was a kettle.'.startsWith(said.content), said.content.length > 0]).toEqual([
      'assistant',
      true,
      true,
    ]);
    rig.model.script([{ text: 'on with it' }]);
    expect((await rig.client.session.prompt(id, { content: 'Go on.' })).content).toBe('on with it');
  });

  test('reaches a running tool, and takes the queue along when asked to', async () => {
    const closed = Promise.withResolvers<void>();
    await rig.tool('hang', (_input, _request, response) => {
      response.once('close', () => closed.resolve());
      return undefined;
    });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'hang', input: {} }] }]);
    const prompt = rig.client.session.prompt(id, { content: 'Hang.', promptId: 'p1' });
    await nextSignal(rig.client, id, 'tool:call');
    await expect.poll(() => rig.tools.requests.length).toBe(1);
    await rig.client.session.promptAsync(id, { content: 'Two.', promptId: 'p2' });
    await rig.client.session.promptAsync(id, { content: 'Three.', promptId: 'p3' });
    expect(await rig.client.session.abort(id, { clearQueue: true })).toMatchObject({
      aborted: true,
      cancelled: ['p2', 'p3'],
      state: 'idle',
    });
    await closed.promise;
    expect((await prompt).status).toBe('aborted');
    expect(await rig.client.session.getPrompt(id, 'p3')).toMatchObject({ status: 'cancelled' });
    const log = await readLog(rig.client, id);
    expect(payloads(log, 'tool:result')).toMatchObject([{ id: 'c1', isError: true, error: { code: 'aborted' } }]);
    expect(payloads(log, 'turn:end')).toMatchObject([{ promptId: 'p1', stopReason: 'cancelled' }]);
  });

  test('ends a wait for the provider at once', async () => {
    rig.model.script([{ fault: { kind: 'status', status: 529, headers: { 'retry-after': '50' } } }]);
    const prompt = rig.client.session.prompt(id, { content: 'Hello?' });
    await nextSignal(rig.client, id, 'timer:set');
    expect(await rig.client.session.abort(id)).toMatchObject({ aborted: true, state: 'idle' });
    expect((await prompt).status).toBe('aborted');
    expect(rig.model.requests.length).toBe(1);
  });

  test('of an idle session does nothing', async () => {
    expect(await rig.client.session.abort(id)).toMatchObject({ aborted: false, cancelled: [] });
  });
});

test('a turn that passes its own deadline is stopped and fails; the session goes on', async () => {
  rig.model.script([{ fault: { kind: 'stall' } }, { text: 'in time' }]);
  await expect(rig.client.session.prompt(id, { content: 'Be quick.', timeoutMs: 100 })).rejects.toMatchObject({
    code: 'turn_timeout',
    status: 504,
  });
  expect(await rig.model.requests[0]!.closed).toEqual({ aborted: true });
  expect((await rig.client.session.prompt(id, { content: 'Again.' })).content).toBe('in time');
});

verifies('runtime.channel.close', 'a client that leaves in the middle of its prompt does not cancel it', async () => {
  rig.model.gate();
  const { port } = new URL(rig.runtimeUrl);
  const socket = connect(Number(port), '127.0.0.1');
  await once(socket, 'connect');
  const body = JSON.stringify({ content: 'Say tea.', id: 'p1' });
  socket.write(
    `POST /session/${id}/prompt HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  const held = await rig.model.next();
  socket.destroy();
  await once(socket, 'close');
  held.reply({ text: 'tea' });
  expect(await rig.client.session.prompt(id, { content: 'Say tea.', promptId: 'p1' })).toMatchObject({
    status: 'completed',
    content: 'tea',
  });
  expect(held.request.aborted).toBe(false);
});

verifies(
  ['runtime.session.end', 'runtime.session.ended.prompt'],
  'a session that ends in the middle of a turn stops it, refuses what waits, and stays ended',
  async () => {
    rig.model.gate();
    const running = rig.client.session.prompt(id, { content: 'One.', promptId: 'p1' });
    const held = await rig.model.next();
    const waiting = rig.client.session.prompt(id, { content: 'Two.', promptId: 'p2' });
    waiting.catch(() => undefined);
    await nextSignal(rig.client, id, 'turn:queued');
    expect(await rig.client.session.end(id, { reason: 'done' })).toMatchObject({ id, state: 'ended' });
    expect(await held.request.closed).toEqual({ aborted: true });
    expect(await running).toMatchObject({ status: 'aborted', stopReason: 'cancelled' });
    await expect(waiting).rejects.toMatchObject({ code: 'session_ended' });
    expect(await rig.client.session.get(id)).toMatchObject({ state: 'ended', endReason: 'done', queue: [] });
    await expect(rig.client.session.prompt(id, { content: 'Three.' })).rejects.toMatchObject({ code: 'session_ended', status: 409 });
    const log = await readLog(rig.client, id);
    expect(log.at(-1)?.name).toBe('supervisor:child:stopped');
    expect(payloads(log, 'turn:rejected')).toEqual([{ promptId: 'p2', reason: 'ended' }]);
  },
);
