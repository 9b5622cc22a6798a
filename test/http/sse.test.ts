import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { readSse, type SseEvent } from '../../src/client/sse-reader.ts';
import { AppError } from '../../src/core/errors.ts';
import { SseParser } from '../../src/core/sse-parser.ts';
import { encodeFrame, type SseWriter } from '../../src/http/sse.ts';
import { openDeafReader, rawRequest } from '../helpers/raw-http.ts';
import { startStreams } from '../helpers/stream-app.ts';

const until = (signal: AbortSignal) =>
  new Promise<void>((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve(), { once: true })));

describe('the writer', () => {
  test('sends headers and retry at once, then frames, then a named end', async () => {
    const app = await startStreams({
      watch: (input, _context, sse) => {
        sse.frame(encodeFrame({ event: 'session:snapshot', data: { topic: input.topic } }));
        sse.frame(encodeFrame({ id: 7, event: 'text:delta', data: 'a\nb' }));
      },
    });
    const answer = await rawRequest(app.port, { path: '/watch/x', headers: { 'x-request-id': 'r1' } });
    expect(answer.text).toBe(
      'retry: 1000\n\n' +
        'event: session:snapshot\ndata: {"topic":"x"}\n\n' +
        'id: 7\nevent: text:delta\ndata: a\ndata: b\n\n' +
        'event: end\ndata: {"reason":"ended"}\n\n',
    );
    expect(answer.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
      'x-request-id': 'r1',
    });
    await app.close();
  });

  test('open() alone reaches the client while the handler still waits', async () => {
    const app = await startStreams({
      watch: async (_input, _context, sse) => {
        sse.open();
        await until(sse.closed);
      },
    });
    const response = await fetch(`${app.url}/watch/x`);
    const { value } = await response.body!.getReader().read();
    expect(new TextDecoder().decode(value)).toBe('retry: 1000\n\n');
    await app.close();
  });

  test('a refusal before the first byte is a problem, a failure after it the reason of the end', async () => {
    const app = await startStreams({
      watch: (input, _context, sse) => {
        if (input.topic === 'late') sse.open();
        if (input.topic === 'bug') sse.open();
        if (input.topic === 'bug') throw new TypeError('secret');
        throw new AppError('session_not_found', { detail: 'no such topic' });
      },
    });
    const early = await rawRequest(app.port, { path: '/watch/early' });
    expect([early.status, early.json().code]).toEqual([404, 'session_not_found']);
    expect((await rawRequest(app.port, { path: '/watch/late' })).text).toContain('event: end\ndata: {"reason":"session_not_found"}');
    const bug = (await rawRequest(app.port, { path: '/watch/bug' })).text;
    expect(bug).toContain('{"reason":"internal"}');
    expect(bug).not.toContain('secret');
    expect((await rawRequest(app.port, { path: '/watch/x?after=abc' })).json()).toMatchObject({ errors: [{ pointer: '/after' }] });
    await app.close();
  });

  test('foreign pages cannot open a stream, not even by an image', async () => {
    const app = await startStreams({});
    expect((await rawRequest(app.port, { path: '/watch/x', headers: { origin: 'http://evil.example' } })).status).toBe(403);
    expect((await rawRequest(app.port, { path: '/watch/x', headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(403);
    expect((await rawRequest(app.port, { path: '/watch/x', headers: { origin: 'null' } })).status).toBe(403);
    await app.close();
  });

  test('a token may come in the query of a stream', async () => {
    const app = await startStreams({ security: { authenticate: (token) => (token === 't1' ? 'readonly' : undefined) } });
    expect((await rawRequest(app.port, { path: '/watch/x?token=t1' })).status).toBe(200);
    expect((await rawRequest(app.port, { path: '/watch/x?token=t2' })).status).toBe(401);
    await app.close();
  });

  test('a reader that never reads stops the producer, holds a bounded amount and is closed after the stall limit', async () => {
    const result = Promise.withResolvers<{ frames: number; reason: unknown; waited: number }>();
    const frame = encodeFrame({ id: 1, event: 'text:delta', data: 'x'.repeat(16_000) });
    const app = await startStreams({
      limits: { stallTimeoutMs: 300 },
      watch: async (_input, _context, sse) => {
        let frames = 0;
        let stopped = performance.now();
        while (!sse.closed.aborted) {
          frames += 1;
          if (sse.frame(frame)) continue;
          stopped = performance.now();
          await sse.drained();
        }
        result.resolve({ frames, reason: sse.closed.reason, waited: performance.now() - stopped });
      },
    });
    const socket = await openDeafReader(app.port, '/watch/x');
    const { frames, reason, waited } = await result.promise;
    expect(reason).toBe('stalled');
    expect(waited).toBeGreaterThan(250);
    // What the kernel takes is 2 to 6 MB; without a limit this would be everything memory holds.
    expect(frames * frame.length).toBeLessThan(16_000_000);
    socket.destroy();
    await app.close();
  });

  test('a producer that ignores false loses the reader at the limit instead of filling memory', async () => {
    const result = Promise.withResolvers<{ frames: number; reason: unknown }>();
    const frame = Buffer.alloc(65_536, 'x');
    const app = await startStreams({
      limits: { readerBytesMax: 200_000 },
      watch: (_input, _context, sse) => {
        let frames = 0;
        for (; !sse.closed.aborted && frames < 10_000; frames += 1) sse.frame(frame);
        result.resolve({ frames, reason: sse.closed.reason });
      },
    });
    const socket = await openDeafReader(app.port, '/watch/x');
    const { frames, reason } = await result.promise;
    expect(reason).toBe('overrun');
    expect(frames).toBeLessThan(500);
    socket.destroy();
    await app.close();
  });

  test('a slow reader gets every frame once the producer waits for it', async () => {
    const frames = 2_000;
    const app = await startStreams({
      watch: async (_input, _context, sse) => {
        for (let id = 1; id <= frames; id += 1)
          if (!sse.frame(encodeFrame({ id, event: 'n', data: 'y'.repeat(5_000) }))) await sse.drained();
      },
    });
    const ids: string[] = [];
    for await (const event of readSse(`${app.url}/watch/x`, { reconnect: false })) if (event.event === 'n') ids.push(event.id);
    expect(ids.length).toBe(frames);
    expect(ids.at(-1)).toBe('2000');
    await app.close();
  });

  test('closed aborts when the reader leaves, and streams end by name when the server closes', async () => {
    const writers: SseWriter[] = [];
    const opened = Promise.withResolvers<void>();
    const app = await startStreams({
      watch: async (input, _context, sse) => {
        writers.push(sse);
        sse.open();
        if (input.topic === 'stays') opened.resolve();
        await until(sse.closed);
      },
    });
    const leaver = await openDeafReader(app.port, '/watch/leaves');
    leaver.resume();
    await once(leaver, 'data');
    leaver.destroy();
    await until(writers[0]!.closed);
    expect(writers[0]!.closed.reason).toBe('gone');
    expect(writers[0]!.frame('x')).toBe(false);
    await writers[0]!.drained();
    const staying = rawRequest(app.port, { path: '/watch/stays' });
    await opened.promise;
    await app.close();
    expect((await staying).text).toContain('event: end\ndata: {"reason":"closing"}');
  });
});

describe('the parser', () => {
  const read = (text: string, sizes: number) => {
    const parser = new SseParser();
    const bytes = Buffer.from(text);
    const events: SseEvent[] = [];
    for (let at = 0; at < bytes.length; at += sizes) events.push(...parser.push(bytes.subarray(at, at + sizes)));
    return { events, parser };
  };
  const TEXT =
    '\uFEFF: comment\r\nid: 1\r\nevent: a:b\r\ndata: grüße 🙂\r\ndata:second\r\n\r\nretry: 42\rid\rdata\r\rretry: x\nid: 2\0\nevent: nothing\n\ndata:  two spaces\n\ndata: unfinished';

  test.each([1, 2, 3, 7, 1_000])('reads any line end and split characters in pieces of %i bytes', (sizes) => {
    const { events, parser } = read(TEXT, sizes);
    expect(events).toEqual([
      { id: '1', event: 'a:b', data: 'grüße 🙂\nsecond' },
      { id: '', event: 'message', data: '' },
      { id: '', event: 'message', data: ' two spaces' },
    ]);
    expect(parser.retryMs).toBe(42);
  });

  test('an event without an end is refused at its limit', () => {
    const parser = new SseParser();
    const chunk = Buffer.alloc(4 * 1_048_576, 'x');
    expect(() => {
      for (let at = 0; at < 5; at += 1) parser.push(chunk);
    }).toThrow('16777216 characters');
  });
});

describe('the reader', () => {
  test('comes back with the last id after every break and never repeats or misses an event', async () => {
    const asked: (string | undefined)[] = [];
    const app = await startStreams({
      watch: async (_input, context, sse) => {
        const after = Number(context.header('last-event-id') ?? 0);
        asked.push(context.header('last-event-id'));
        for (let id = after + 1; id <= after + 3; id += 1) sse.frame(encodeFrame({ id, event: 'n', data: { id } }));
      },
    });
    const seen: number[] = [];
    const withoutRetry: typeof fetch = async (url, init) => {
      const response = await fetch(url, init);
      return new Response((await response.text()).replace('retry: 1000', 'retry: 5'), {
        status: response.status,
        headers: response.headers,
      });
    };
    for await (const event of readSse(`${app.url}/watch/x`, { fetch: withoutRetry, reconnectMs: 5 })) {
      if (event.event !== 'n') continue;
      seen.push(Number(event.id));
      if (seen.length === 8) break;
    }
    expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(asked).toEqual([undefined, '3', '6']);
    await app.close();
  });

  test('waits out a server that is down, gives up on a refusal, and stops on its signal', async () => {
    const app = await startStreams({
      watch: () => {
        throw new AppError('session_not_found', { detail: 'no such topic' });
      },
    });
    await expect(readSse(`${app.url}/watch/x`).next()).rejects.toMatchObject({ code: 'session_not_found' });
    await app.close();
    await expect(readSse(`${app.url}/watch/x`, { reconnect: false }).next()).rejects.toMatchObject({ code: 'daemon_unreachable' });
    let attempts = 0;
    const controller = new AbortController();
    const counting: typeof fetch = (url, init) => {
      attempts += 1;
      if (attempts === 4) controller.abort();
      return fetch(url, init);
    };
    const ended = await readSse(`${app.url}/watch/x`, { reconnectMs: 1, fetch: counting, signal: controller.signal }).next();
    expect([ended.done, attempts]).toEqual([true, 4]);
  });

  test('takes silence for a dead connection', async () => {
    const closed = Promise.withResolvers<unknown>();
    const app = await startStreams({
      watch: async (_input, _context, sse) => {
        sse.frame(encodeFrame({ id: 1, event: 'n', data: 1 }));
        await until(sse.closed);
        closed.resolve(sse.closed.reason);
      },
    });
    const reader = readSse(`${app.url}/watch/x`, { reconnect: false, watchdogMs: 100 });
    expect((await reader.next()).value).toEqual({ id: '1', event: 'n', data: '1' });
    await expect(reader.next()).rejects.toMatchObject({ code: 'timeout' });
    expect(await closed.promise).toBe('gone');
    await app.close();
  });

  test('leaving the loop closes the connection; a Response can be read as well', async () => {
    const closed = Promise.withResolvers<unknown>();
    const app = await startStreams({
      watch: async (_input, _context, sse) => {
        sse.frame(encodeFrame({ event: 'n', data: 1 }));
        await until(sse.closed);
        closed.resolve(sse.closed.reason);
      },
    });
    for await (const event of readSse(await fetch(`${app.url}/watch/x`))) {
      expect(event).toEqual({ id: '', event: 'n', data: '1' });
      break;
    }
    expect(await closed.promise).toBe('gone');
    await app.close();
  });
});
