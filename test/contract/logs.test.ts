import { expect, onTestFinished, test } from 'vitest';
import { daemonLogOperations, LOG_ENTRIES_MAX } from '../../src/contract/daemon-logs.ts';
import { createLogBook, recordingLogger } from '../../src/core/log-book.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { createLogHandlers, streamLogs } from '../../src/daemon/log-handlers.ts';
import { createTokenCheck } from '../../src/http/security.ts';
import { createHttpServer } from '../../src/http/server.ts';
import { call } from '../conformance/calls.ts';
import { verifies } from '../conformance/verifies.ts';
import { serveDaemon } from '../helpers/daemon-server.ts';
import { openSse } from '../helpers/sse-client.ts';

/** The log over HTTP, with a hand on what is written to it. */
async function serveLogs({ heartbeatMs = 10_000, level = 'debug' as const, security = {} } = {}) {
  const clock = { ms: Date.parse('2025-03-03T12:00:00.000Z'), now: () => clock.ms };
  const log = recordingLogger(silentLogger, createLogBook(clock, level));
  const logs = log.book;
  const server = createHttpServer({
    operations: daemonLogOperations,
    handlers: createLogHandlers({ logs }),
    streams: { streamLogs: (input, context, sse) => streamLogs({ logs, heartbeatMs }, input, context, sse) },
    ...{ security, title: 'test', version: '0', log: silentLogger },
  });
  const { url } = await server.listen('127.0.0.1', 0);
  onTestFinished(() => server.close());
  const messages = async (query = ''): Promise<string[]> =>
    (await call('GET', `${url}/api/logs${query}`)).body.logs.map((entry: { message: string }) => entry.message);
  return { clock, log, url, messages };
}

verifies(
  ['logs.recent', 'logs.recent.limit', 'logs.recent.level'],
  'the last ones, of a level and above, of a category, since a time',
  async () => {
    const { clock, log, url, messages } = await serveLogs();
    log.info({ hook: 'hookRecall' }, 'one');
    log.warn({ category: 'config' }, 'two');
    clock.ms += 60_000;
    log.error({ operation: 'recall', err: new Error('no such table') }, 'three');
    log.debug({}, 'four');
    expect(await messages()).toEqual(['one', 'two', 'three', 'four']);
    expect(await messages('?limit=2')).toEqual(['three', 'four']);
    expect(await messages('?level=warn')).toEqual(['two', 'three']);
    expect(await messages('?category=hooks')).toEqual(['one']);
    expect(await messages('?since=2025-03-03T12:00:30.000Z')).toEqual(['three', 'four']);
    expect((await call('GET', `${url}/api/logs?level=error`)).body).toMatchObject({
      count: 1,
      logs: [{ timestamp: '2025-03-03T12:01:00.000Z', level: 'error', category: 'http', error: { message: 'no such table' } }],
    });
    expect(await call('GET', `${url}/api/logs?level=loud`)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  },
);

test('stacks are for the role admin, and where no token is asked for', async () => {
  const authenticate = createTokenCheck({ theirs: 'operator', ours: 'admin' });
  const guarded = await serveLogs({ security: { authenticate } });
  const open = await serveLogs();
  const fail = ({ log }: typeof open) => log.error({ err: new Error('no such table') }, 'three');
  fail(guarded);
  fail(open);
  const errorOf = async (url: string, token?: string) =>
    (await call('GET', `${url}/api/logs`, undefined, token ? { authorization: `Bearer ${token}` } : {})).body.logs[0].error;
  const streamed = async (token: string) => {
    const stream = await openSse(`${guarded.url}/api/logs/stream?after=1&token=${token}`);
    onTestFinished(() => stream.close());
    return (await stream.until(({ event }) => event === 'message')).data.error as { stack?: string };
  };
  expect(await errorOf(guarded.url, 'theirs')).toEqual({ name: 'Error', message: 'no such table' });
  expect(await streamed('theirs')).toEqual({ name: 'Error', message: 'no such table' });
  expect((await errorOf(guarded.url, 'ours')).stack).toContain('logs.test.ts');
  expect((await streamed('ours')).stack).toContain('logs.test.ts');
  expect((await errorOf(open.url)).stack).toContain('logs.test.ts');
});

test('only so many entries are kept, the newest, and long ones are cut', async () => {
  const { log, messages, url } = await serveLogs();
  for (let index = 0; index < LOG_ENTRIES_MAX + 5; index += 1) log.info({}, `entry ${index}`);
  log.info({ text: 'x'.repeat(100_000), list: Array(1_000).fill(1), deep: { a: { b: { c: { d: 1 } } } } }, 'large');
  const all = await messages(`?limit=${LOG_ENTRIES_MAX * 2}`);
  expect([all.length, all[0], all.at(-1)]).toEqual([LOG_ENTRIES_MAX, 'entry 6', 'large']);
  expect(JSON.stringify((await call('GET', `${url}/api/logs?limit=1`)).body).length).toBeLessThan(3_000);
});

test('secrets are taken out, by the name of their field and by their looks', async () => {
  const { log, url } = await serveLogs();
  const key = `sk-${'a1B2'.repeat(6)}`;
  const err = new Error('401 for Bearer abcdefghijklmnop');
  log.error({ apiKey: 'k-1', nested: { Authorization: 'k-2', url: 'x' }, note: `used ${key}`, err }, 'failed');
  const text = JSON.stringify((await call('GET', `${url}/api/logs`)).body);
  expect(text).toContain('[redacted]');
  for (const secret of ['k-1', 'k-2', key, 'abcdefghijklmnop']) expect(text).not.toContain(secret);
});

verifies(
  ['logs.stream', 'logs.stream.entry'],
  'entries come as JSON events with ids, and go on behind the last one seen, also after a restart of the log',
  async () => {
    const { clock, log, url } = await serveLogs();
    log.info({}, 'before');
    const reader = await openSse(`${url}/api/logs/stream`);
    onTestFinished(() => reader.close());
    await reader.until(({ event }) => event === 'connected');
    log.warn({ session: 'ses_1' }, 'first');
    const first = await reader.until(({ event }) => event === 'message');
    expect(first.data).toMatchObject({ level: 'warn', message: 'first', category: 'session', data: { session: 'ses_1' } });
    expect(first.id).toBe(String(first.data.id));
    reader.close();

    log.info({}, 'second');
    clock.ms += 5;
    log.info({}, 'third');
    const again = await openSse(`${url}/api/logs/stream`, { lastEventId: first.id! });
    onTestFinished(() => again.close());
    await again.until(({ data }) => data.message === 'third');
    expect(again.frames.filter(({ event }) => event === 'message').map(({ data }) => data.message)).toEqual(['second', 'third']);
    const later = createLogBook({ now: () => clock.ms + 1_000 }, 'info');
    later.write('info', {}, 'after the restart');
    expect(later.head).toBeGreaterThan(Number(again.lastId));
  },
);

test('a silent stream says that it is alive, without an id, so that no cursor moves', async () => {
  const { url } = await serveLogs({ heartbeatMs: 20 });
  const reader = await openSse(`${url}/api/logs/stream`);
  onTestFinished(() => reader.close());
  const beat = await reader.until(({ event }) => event === 'heartbeat');
  expect(beat.id).toBeUndefined();
});

test('a stream filters by level and category', async () => {
  const { log, url } = await serveLogs();
  const reader = await openSse(`${url}/api/logs/stream?level=warn&category=config`);
  onTestFinished(() => reader.close());
  await reader.until(({ event }) => event === 'connected');
  log.info({ category: 'config' }, 'quiet');
  log.error({ category: 'hooks' }, 'elsewhere');
  log.warn({ category: 'config' }, 'heard');
  await reader.until(({ event }) => event === 'message');
  expect(reader.frames.filter(({ event }) => event === 'message').map(({ data }) => data.message)).toEqual(['heard']);
});

test('neither prompts nor what is injected, nor memories, stand in the log of the daemon', async () => {
  const daemon = await serveDaemon();
  await daemon.post('/api/memory/remember', { content: 'The vault code is in the blue book' });
  await daemon.post('/api/hooks/session-start', { harness: 'test', sessionKey: 'k' });
  await daemon.post('/api/hooks/user-prompt-submit', { harness: 'test', sessionKey: 'k', prompt: 'where is the vault code?' });
  await daemon.post('/api/hooks/user-prompt-submit', { harness: 'test', sessionKey: 'k', prompt: ' ' });
  await daemon.post('/api/hooks/session-end', { harness: 'test', sessionKey: 'k', transcript: [{ role: 'user', content: 'vault code' }] });
  expect(JSON.stringify((await daemon.get('/api/logs?limit=1000')).body)).not.toMatch(/vault|blue book/);
});
