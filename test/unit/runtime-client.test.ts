import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createRuntimeClient, type RuntimeClient } from '../../src/client/runtime-client.ts';
import { type SessionEvent, toSessionEvent } from '../../src/client/session-stream.ts';
import { type FakeRuntime, openFakeRuntime } from '../helpers/fake-runtime.ts';

let runtime: FakeRuntime;
let client: RuntimeClient;

beforeEach(async () => {
  runtime = await openFakeRuntime();
  client = createRuntimeClient({ baseUrl: `${runtime.url}/`, token: 'secret' });
});
afterEach(() => runtime.close());

describe('the stream of a session', () => {
  test('printing content of every event prints the answer once', async () => {
    const session = await client.session.create();
    let printed = '';
    const names: string[] = [];

    const reading = (async () => {
      for await (const event of client.session.stream(session.id)) {
        printed += event.content ?? '';
        names.push(event.name);
        if (event.name === 'session:snapshot') await client.session.promptAsync(session.id, { content: 'hello' });
        if (event.name === 'turn:end') break;
      }
    })();
    await reading;

    expect(printed).toBe('You said: hello');
    expect(names).toContain('text:complete');
    expect(names.filter((name) => name === 'text:delta')).toHaveLength(2);
  });

  test('goes on after a lost connection where it stopped, each signal once', async () => {
    const session = await client.session.create();
    const seqs: number[] = [];

    for await (const event of client.session.stream(session.id, { after: 0 })) {
      if (event.seq === undefined) continue;
      seqs.push(event.seq);
      if (event.seq === 2) runtime.cutStreams();
      if (event.seq === 5) break;
      runtime.emit(session.id, 'session:updated', { by: 'test' });
    }

    expect(seqs).toEqual([1, 2, 3, 4, 5]);
    expect(runtime.requests.filter(({ path }) => path.endsWith('/stream')).map(({ headers }) => headers['last-event-id'])).toEqual([
      '0',
      '2',
    ]);
  });

  test('ends with the session, and by its signal without an error', async () => {
    const session = await client.session.create();
    const stop = new AbortController();
    const names = collectNames(client.session.stream(session.id));
    const stopped = collectNames(client.session.stream(session.id, { signal: stop.signal }), () => stop.abort());

    expect(await stopped).toContain('session:snapshot');
    await client.session.end(session.id);
    expect((await names).at(-1)).toBe('end');
  });

  test('refuses a session that is not there', async () => {
    await expect(collectNames(client.session.stream('ses_absent'))).rejects.toMatchObject({ code: 'session_not_found' });
  });

  test('only text:delta carries content at the top', () => {
    const frame = (event: string, data: object) => toSessionEvent({ id: '', event, data: JSON.stringify(data) });

    expect(frame('text:delta', { payload: { content: 'a', index: 0, offset: 0 } }).content).toBe('a');
    expect(frame('text:complete', { payload: { key: 'k', content: 'a' }, content: 'a' }).content).toBeUndefined();
    expect(frame('thinking:delta', { payload: { content: 'hm' } }).content).toBeUndefined();
    expect(frame('heartbeat', { head: 4 })).toEqual({ name: 'heartbeat', event: 'heartbeat', payload: { head: 4 } });
    expect(frame('session:snapshot', { id: 'ses_a', seq: 3 }).seq).toBeUndefined();
  });
});

describe('calls', () => {
  test('a prompt answers when its turn has ended, and a failed turn rejects with its code', async () => {
    const session = await client.session.create({ agent: 'scout' });

    expect(await client.session.prompt(session.id, { content: 'hi' })).toMatchObject({ status: 'completed', content: 'You said: hi' });
    await expect(client.session.prompt(session.id, { content: 'fail' })).rejects.toMatchObject({ code: 'provider_failed' });
  });

  test('promptAsync answers while the turn runs, and getPrompt tells its end', async () => {
    const session = await client.session.create();

    const running = await client.session.promptAsync(session.id, { content: 'slow', promptId: 'p1' });
    await client.session.abort(session.id);

    expect(running).toMatchObject({ id: 'p1', status: 'running', content: '' });
    expect((await client.session.getPrompt(session.id, 'p1')).status).toBe('aborted');
  });

  test('leaving a prompt ends the wait but not the turn', async () => {
    const session = await client.session.create();
    const leave = new AbortController();

    const waiting = client.session.prompt(session.id, { content: 'slow' }, { signal: leave.signal });
    const left = expect(waiting).rejects.toThrow('enough');
    for await (const event of client.session.stream(session.id)) if (event.name === 'turn:start') break;
    leave.abort(new Error('enough'));

    await left;
    expect((await client.session.get(session.id)).state).toBe('generating');
  });

  test('a prompt whose headers come too late for the platform is asked for again by the same id', async () => {
    const ids: unknown[] = [];
    const late = Object.assign(new TypeError('fetch failed'), { cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } });
    const impatient = createRuntimeClient({
      baseUrl: runtime.url,
      fetch: async (url, init) => {
        const isPrompt = String(url).includes('/prompt');
        if (isPrompt)
          ids.push((JSON.parse(String(init?.body)) as { promptId?: string; id?: string }).id ?? JSON.parse(String(init?.body)).promptId);
        if (isPrompt && ids.length === 1) throw late;
        return fetch(url, init);
      },
    });
    const session = await impatient.session.create();

    expect((await impatient.session.prompt(session.id, { content: 'patience' })).content).toBe('You said: patience');
    expect(ids).toHaveLength(2);
    expect(ids[0]).toMatch(/^prm_/);
    expect(ids[1]).toBe(ids[0]);
  });

  test('says who asks, carries the token, and reaches every part of the server', async () => {
    const session = await client.session.create();
    await client.session.update(session.id, { title: 'new' });
    await client.approvals.decide(session.id, 'apr_1', 'once');
    expect((await client.tools.list()).count).toBe(1);
    expect((await client.info()).name).toBe('signet');

    expect(runtime.requests.map(({ method, path }) => `${method} ${path.replace(session.id, 'ID')}`)).toEqual([
      'POST /session',
      'PATCH /session/ID',
      'POST /session/ID/approvals/apr_1',
      'GET /tools',
      'GET /info',
    ]);
    expect(runtime.requests[0]?.headers).toMatchObject({ authorization: 'Bearer secret', 'x-signet-actor': 'sdk' });
  });

  test('a server that is not there is daemon_unreachable', async () => {
    await runtime.close();
    await expect(client.health()).rejects.toMatchObject({ code: 'daemon_unreachable' });
  });
});

async function collectNames(events: AsyncIterable<SessionEvent>, onFirst?: () => void): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of events) {
    names.push(name);
    if (names.length === 1) onFirst?.();
  }
  return names;
}
