import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifies } from '../conformance/verifies.ts';
import { type Rig, readLog, startRig } from '../e2e/rig.ts';
import { openSse, type SseFrame } from '../helpers/sse-client.ts';

const CONTROL = ['session:snapshot', 'heartbeat', 'gap', 'lagged', 'caught_up', 'end'];

let rig: Rig;
/** A session with one finished turn. */
let id: string;
beforeAll(async () => {
  rig = await startRig();
  await rig.tool('look', () => 'found');
  ({ id } = await rig.client.session.create({}));
  rig.model.script([{ text: 'Let me look.', toolCalls: [{ id: 'c1', name: 'look', input: {} }] }, { text: 'It is found.' }]);
  await rig.client.session.prompt(id, { content: 'Where is it?' });
});
afterAll(() => rig.close());

const streamOf = (session: string, query = '') => `${rig.runtimeUrl}/session/${session}/stream${query}`;
const stored = (frames: readonly SseFrame[]) => frames.filter(({ event }) => !CONTROL.includes(event) && !event.endsWith(':delta'));
const textIn = (frames: readonly SseFrame[]) =>
  frames
    .filter(({ event }) => event === 'text:delta')
    .map(({ data }) => data.content)
    .join('');

verifies(
  ['runtime.sse.content-type', 'sdk.session.stream.content'],
  'a stream begins with the snapshot, then tells all that was, with ids; control frames carry none',
  async () => {
    const client = await openSse(streamOf(id));
    await client.until(({ event }) => event === 'turn:end');
    client.close();
    expect([client.status, client.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8']);
    const [snapshot] = client.frames;
    const log = await readLog(rig.client, id);
    expect(snapshot).toMatchObject({ event: 'session:snapshot', data: { session: { id, state: 'idle', turns: 1 }, head: log.length } });
    for (const { event, id: frameId } of client.frames) expect([event, frameId !== undefined]).toEqual([event, !CONTROL.includes(event)]);
    const frames = stored(client.frames);
    expect(frames.map(({ data }) => data)).toEqual(log.slice(0, frames.length));
    expect(frames.map(({ event, data }) => [event, data.name])).toEqual(log.slice(0, frames.length).map(({ name }) => [name, name]));
    // A reader that comes late has the text as deltas too, once.
    expect(textIn(client.frames)).toBe('Let me look.It is found.');
  },
);

describe('a reader may choose', () => {
  test('names of signals, in patterns', async () => {
    const client = await openSse(streamOf(id, '?events=turn:*,tool:**,!tool:result'));
    await client.until(({ event }) => event === 'turn:end');
    client.close();
    expect(client.frames.map(({ event }) => event)).toEqual(['session:snapshot', 'turn:start', 'tool:call', 'turn:end']);
  });

  test('to have no deltas', async () => {
    const client = await openSse(streamOf(id, '?deltas=0'));
    await client.until(({ event }) => event === 'turn:end');
    client.close();
    expect(client.frames.some(({ event }) => event.endsWith(':delta'))).toBe(false);
    expect(client.frames.some(({ event }) => event === 'text:complete')).toBe(true);
  });

  test('where to begin, by after or by Last-Event-ID, which wins', async () => {
    const log = await readLog(rig.client, id);
    const middle = log.find(({ name }) => name === 'tool:result')!.seq;
    const first = async (query: string, lastEventId?: string) => {
      const client = await openSse(streamOf(id, query), lastEventId === undefined ? {} : { lastEventId });
      const frame = await client.until(({ event }) => !CONTROL.includes(event));
      client.close();
      return frame.data.seq;
    };
    expect(await first(`?after=${middle}`)).toBe(middle + 1);
    expect(await first('', String(middle))).toBe(middle + 1);
    expect(await first('?after=1', String(middle))).toBe(middle + 1);
    expect(await first('?after=0')).toBe(1);
    // A cursor of a log that is not this one: all of it again, rather than nothing for ever.
    expect(await first('?after=999999')).toBe(1);
  });
});

test('a filtered stream resumes behind the last signal it was sent', async () => {
  const session = (await rig.client.session.create({})).id;
  rig.model.script([{}, {}]);
  await rig.client.session.prompt(session, { content: 'One.' });
  const first = await openSse(streamOf(session, '?events=turn:end'));
  await first.until(({ event }) => event === 'turn:end');
  first.close();
  const second = await openSse(streamOf(session, '?events=turn:end'), { lastEventId: first.lastId! });
  await rig.client.session.prompt(session, { content: 'Two.' });
  await second.until(({ event }) => event === 'turn:end');
  second.close();
  expect(second.frames.map(({ event, data }) => [event, (data.payload as { turn?: number } | undefined)?.turn])).toEqual([
    ['session:snapshot', undefined],
    ['turn:end', 2],
  ]);
});

test('a reader that resumes inside a text has the rest of it and no more', async () => {
  const session = (await rig.client.session.create({})).id;
  const text = 'one two three four five six seven eight';
  rig.model.script([{ text, fault: { kind: 'stall', after: 4 } }]);
  const prompt = rig.client.session.prompt(session, { content: 'Count.' });
  const first = await openSse(streamOf(session));
  await first.until(() => textIn(first.frames) === 'one two three four ');
  first.close();
  expect(first.lastId).toMatch(/^\d+\.19$/);
  const inside = first.lastId!.replace('.19', '.8');
  const second = await openSse(streamOf(session), { lastEventId: inside });
  const frame = await second.until(({ event }) => event === 'text:delta');
  expect([frame.data.content, frame.data.payload, frame.id]).toEqual([
    'three four ',
    { content: 'three four ', index: 0, offset: 19 },
    first.lastId,
  ]);
  expect(stored(second.frames)).toEqual([]);
  second.close();
  await rig.client.session.abort(session);
  expect((await prompt).status).toBe('aborted');
});

test('the end of the session ends the stream, with its reason last; a stream of an ended session ends too', async () => {
  const session = (await rig.client.session.create({})).id;
  const client = await openSse(streamOf(session));
  await rig.client.session.end(session);
  await client.closed;
  expect(client.frames.at(-1)).toEqual({ event: 'end', data: { reason: 'ended' } });
  expect(stored(client.frames).at(-1)?.event).toBe('supervisor:child:stopped');
  const late = await openSse(streamOf(session));
  await late.closed;
  expect(stored(late.frames).map(({ data }) => data)).toEqual(await readLog(rig.client, session));
  const behind = await openSse(streamOf(session), { lastEventId: late.lastId! });
  await behind.closed;
  expect(behind.frames.map(({ event }) => event)).toEqual(['session:snapshot', 'end']);
});

test.each([
  ['?events=', 'tool:***', 'invalid_pattern'],
  ['?events=', '*', 'invalid_pattern'],
  ['?after=', 'tomorrow', 'invalid_request'],
])('a stream with %s%s is refused before it begins', async (query, value, code) => {
  const response = await fetch(streamOf(id, query + encodeURIComponent(value)));
  expect([response.status, response.headers.get('content-type'), await response.json()]).toMatchObject([
    400,
    expect.stringContaining('application/problem+json'),
    { code },
  ]);
});

test('a Last-Event-ID this server never gave out is refused, and so is a stream of an unknown session', async () => {
  const foreign = await fetch(streamOf(id), { headers: { 'last-event-id': 'sig_abc' } });
  expect([foreign.status, await foreign.json()]).toMatchObject([400, { code: 'invalid_cursor' }]);
  const unknown = await fetch(streamOf('ses_unknown'));
  expect([unknown.status, await unknown.json()]).toMatchObject([404, { code: 'session_not_found' }]);
});

test('a reader far behind is told how far, and when it has caught up', async () => {
  const session = (await rig.client.session.create({})).id;
  const calls = Array.from({ length: 500 }, (_, n) => ({ id: `c${n}`, name: 'memory_nothing', input: {} }));
  rig.model.script([{ toolCalls: calls }, {}]);
  await rig.client.session.prompt(session, { content: 'Many calls.' });
  const log = await readLog(rig.client, session);
  expect(log.length).toBeGreaterThan(1_000);
  const client = await openSse(streamOf(session));
  const lagged = await client.until(({ event }) => event === 'lagged');
  expect(lagged).toMatchObject({ data: { behind: log.length } });
  expect(lagged.id).toBeUndefined();
  const caughtUp = await client.until(({ event }) => event === 'caught_up');
  client.close();
  expect(caughtUp.data).toEqual({ at: log.length });
  expect(stored(client.frames).map(({ data }) => data)).toEqual(log);
});
