import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { nextSignal, type Rig, readLog, startRig } from '../e2e/rig.ts';
import { openSocket, type SocketClient, type SocketMessage } from '../helpers/socket-client.ts';

let rig: Rig;
let socket: SocketClient;
beforeAll(async () => {
  rig = await startRig();
  await rig.tool('shell', () => 'ran', { needsApproval: true });
});
beforeEach(async () => {
  socket = await openSocket(rig.runtimeUrl);
});
afterEach(() => socket.close());
afterAll(() => rig.close());

const create = async () => (await rig.client.session.wait((await rig.client.session.create({})).id)).id;
/** Stored signals of a session as the log has them: without what the socket adds. */
function storedOf(messages: readonly SocketMessage[], session: string): SocketMessage[] {
  return messages
    .filter((message) => message.session === session && message.seq !== undefined)
    .map(({ session: _session, cursor: _cursor, event: _event, ...signal }) => signal);
}

test('the first message is hello, and a ping is answered', async () => {
  expect(await socket.until(() => true)).toEqual({ event: 'hello', protocol: 1, limits: { subscriptions: 256 } });
  expect(await socket.ask({ op: 'ping' })).toEqual({ re: 'ask-1', ok: true, at: expect.any(String) });
  expect(await socket.ask({ id: 7, op: 'ping' })).toMatchObject({ re: 7, ok: true });
});

describe('subscriptions', () => {
  test('follow many sessions over one socket, each from its snapshot to its end, without a gap', async () => {
    const ids = await Promise.all(Array.from({ length: 10 }, create));
    for (const id of ids) {
      const { seq } = await rig.client.session.get(id);
      expect(await socket.ask({ op: 'sub', session: id })).toMatchObject({ ok: true, event: 'subscribed', session: id, head: seq });
    }
    rig.model.respond(() => ({ text: 'one two three' }));
    await Promise.all(
      ids.map(async (id) => {
        await rig.client.session.prompt(id, { content: 'Count.' });
        await rig.client.session.end(id);
      }),
    );
    for (const id of ids) {
      expect(await socket.until((message) => message.session === id && message.event === 'end')).toEqual({
        session: id,
        event: 'end',
        reason: 'ended',
      });
      const mine = socket.messages.filter((message) => message.session === id && message.re === undefined);
      expect(mine[0]).toMatchObject({ event: 'session:snapshot', snapshot: { id, state: 'idle' }, head: expect.any(Number) });
      expect(storedOf(mine, id)).toEqual(await readLog(rig.client, id));
      const text = mine.filter(({ event }) => event === 'text:delta').map(({ content }) => content);
      expect(text.join('')).toBe('one two three');
    }
  });

  test('may filter and leave out deltas, and stop', async () => {
    const id = await create();
    await socket.ask({ op: 'sub', session: id, events: 'turn:*', deltas: false });
    await rig.client.session.prompt(id, { content: 'One.' });
    await socket.until(({ event }) => event === 'turn:end');
    expect(socket.messages.filter((message) => message.session === id && message.re === undefined).map(({ event }) => event)).toEqual([
      'session:snapshot',
      'turn:start',
      'turn:end',
    ]);
    expect(await socket.ask({ op: 'unsub', session: id })).toMatchObject({ ok: true, unsubscribed: true });
    expect(await socket.ask({ op: 'unsub', session: id })).toMatchObject({ ok: true, unsubscribed: false });
    await rig.client.session.prompt(id, { content: 'Two.' });
    await socket.ask({ op: 'ping' });
    expect(socket.messages.filter(({ event }) => event === 'turn:end').length).toBe(1);
  });

  test('resume at a cursor, also inside a text', async () => {
    const id = await create();
    rig.model.script([{ text: 'one two three four five six', fault: { kind: 'stall', after: 4 } }]);
    await rig.client.session.promptAsync(id, { content: 'Count.' });
    let text = '';
    const first = await openSocket(rig.runtimeUrl, (message) => {
      if (message.event === 'text:delta') text += message.content;
    });
    await first.ask({ op: 'sub', session: id });
    await first.until(() => text === 'one two three four ');
    const cursor = String(first.messages.at(-1)!.cursor);
    await first.close();
    expect(cursor).toMatch(/^\d+\.19$/);
    await socket.ask({ op: 'sub', session: id, after: cursor.replace('.19', '.14') });
    expect(await socket.until(({ event }) => event === 'text:delta')).toMatchObject({ cursor, content: 'four ', session: id });
    await socket.ask({ op: 'abort', session: id });
    await socket.until(({ event }) => event === 'turn:end');
    const rest = storedOf(socket.messages, id);
    expect(rest).toEqual((await readLog(rig.client, id)).slice(Number(cursor.split('.')[0]), rest.length + Number(cursor.split('.')[0])));
  });

  test('to an unknown session and with a bad pattern or cursor are refused, and the socket lives on', async () => {
    const id = await create();
    expect(await socket.ask({ op: 'sub', session: 'ses_unknown' })).toMatchObject({
      ok: false,
      error: { code: 'session_not_found', status: 404 },
    });
    expect(await socket.ask({ op: 'sub', session: id, events: 'a:***' })).toMatchObject({ ok: false, error: { code: 'invalid_pattern' } });
    expect(await socket.ask({ op: 'sub', session: id, after: 'soon' })).toMatchObject({ ok: false, error: { code: 'invalid_cursor' } });
    expect(await socket.ask({ op: 'ping' })).toMatchObject({ ok: true });
  });
});

describe('commands', () => {
  test('prompt, approve and abort a session, and silence its hooks', async () => {
    const id = await create();
    await socket.ask({ op: 'sub', session: id });
    rig.model.script([{ toolCalls: [{ id: 'c1', name: 'shell', input: {} }] }, { text: 'Ran it.' }, { fault: { kind: 'stall' } }]);
    expect(await socket.ask({ op: 'prompt', session: id, content: 'Run it.', promptId: 'p1' })).toMatchObject({
      ok: true,
      answer: { id: 'p1', status: 'running' },
    });
    await socket.until(({ event }) => event === 'tool:approval:requested');
    expect(await socket.ask({ op: 'approve', session: id, approvalId: 'c1', decision: 'once' })).toMatchObject({
      ok: true,
      decision: 'once',
    });
    await socket.until(({ event }) => event === 'turn:end');
    expect(await rig.client.session.getPrompt(id, 'p1')).toMatchObject({ status: 'completed', answer: { content: 'Ran it.' } });
    expect(await socket.ask({ op: 'approve', session: id, approvalId: 'c1', decision: 'deny' })).toMatchObject({
      ok: false,
      error: { code: 'approval_decided', status: 409 },
    });
    await socket.ask({ op: 'prompt', session: id, content: 'Again.', promptId: 'p2' });
    await nextSignal(rig.client, id, 'harness:start', ({ key }) => String(key).startsWith('t2'));
    expect(await socket.ask({ op: 'abort', session: id })).toMatchObject({ ok: true, aborted: true, state: 'idle' });
    expect(await rig.client.session.getPrompt(id, 'p2')).toMatchObject({ status: 'aborted' });
    expect(await socket.ask({ op: 'bypass', session: id, enabled: true })).toMatchObject({ ok: true, bypassed: true });
    expect(await rig.client.session.get(id)).toMatchObject({ bypassed: true });
  });

  test('that do not fit are answered with what is wrong, under their id', async () => {
    const unknown = await socket.ask({ op: 'dance' });
    expect(unknown).toMatchObject({
      ok: false,
      error: {
        code: 'invalid_request',
        status: 400,
        detail: 'op must be one of ping, sub, unsub, prompt, abort, approve, bypass',
        errors: [{ pointer: '/op' }],
      },
    });
    const empty = await socket.ask({ op: 'prompt', session: 'ses_unknown', content: '' });
    expect(JSON.stringify(empty.error)).toContain('/content');
    const blank = await socket.ask({ op: 'prompt', session: 'ses_unknown', content: ' \n' });
    expect(JSON.stringify(blank.error)).toContain('/content');
    const extra = await socket.ask({ op: 'ping', more: 1 });
    expect(extra).toMatchObject({ ok: false, error: { code: 'invalid_request' } });
    expect(await socket.ask({ op: 'ping' })).toMatchObject({ ok: true });
  });

  test.each(['no JSON', '[]', '"ping"', 'null', '{"op":"ping"}', '{"id":{},"op":"ping"}'])(
    'that nobody could answer close the socket: %s',
    async (text) => {
      const bad = await openSocket(rig.runtimeUrl);
      bad.send(text);
      expect(await bad.closed).toBe(4400);
    },
  );
});
