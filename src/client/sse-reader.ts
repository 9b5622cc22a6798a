import { AppError, isAppError } from '../core/errors.ts';
import { type SseEvent, SseParser } from '../core/sse-parser.ts';
import { readProblem, unreachable } from './http-transport.ts';

/** A server sends a heartbeat every 10 s; a stream silent for longer than this is dead; unit: milliseconds. */
export const SSE_WATCHDOG_MS = 25_000;
/** First wait before a reconnect when the server names none, and the longest; unit: milliseconds. */
export const SSE_RECONNECT_MS = 1_000;
export const SSE_RECONNECT_MS_MAX = 30_000;

export type { SseEvent } from '../core/sse-parser.ts';

export interface ReadSseOptions {
  /** Resume after this id. */
  readonly lastEventId?: string;
  /** Ends the reading, without an error. */
  readonly signal?: AbortSignal;
  /** Come back after an end, a break, silence, 429 or 5xx. Default true for a URL, never for a Response. */
  readonly reconnect?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: typeof fetch;
  /** Default SSE_WATCHDOG_MS. */
  readonly watchdogMs?: number;
  /** Default SSE_RECONNECT_MS, doubled with every failure in a row; the server's `retry` replaces it. */
  readonly reconnectMs?: number;
}

/**
 * Events of a stream in order, over reconnects, each after the last id seen. Leaving the loop closes the connection.
 * Ends on `signal`, on 204, and without `reconnect` at the end of the stream.
 *
 * @throws AppError for a refusal that will not change (4xx); without `reconnect` also `daemon_unreachable` and `timeout` (silence)
 */
export async function* readSse(source: string | URL | Response, options: ReadSseOptions = {}): AsyncGenerator<SseEvent, void, undefined> {
  const parserState = { lastEventId: options.lastEventId ?? '', retryMs: options.reconnectMs ?? SSE_RECONNECT_MS };
  const reconnect = !(source instanceof Response) && (options.reconnect ?? true);
  for (let failures = 0; !options.signal?.aborted; failures += 1) {
    let retryAfterMs = 0;
    try {
      for await (const event of readOnce(source, options, parserState)) {
        failures = 0;
        yield event;
      }
      if (!reconnect || options.signal?.aborted) return;
    } catch (error) {
      if (options.signal?.aborted || error === STOP) return;
      if (!reconnect || !mayPass(error)) throw error;
      retryAfterMs = isAppError(error) ? (error.retryAfterMs ?? 0) : 0;
    }
    await pause(Math.max(retryAfterMs, backoff(parserState.retryMs, failures)), options.signal);
  }
}

/** 204 tells an event source to stop coming back. */
const STOP = Symbol('stop');

interface ReaderState {
  lastEventId: string;
  retryMs: number;
}

async function* readOnce(source: string | URL | Response, options: ReadSseOptions, state: ReaderState): AsyncGenerator<SseEvent> {
  const controller = new AbortController();
  const give = () => controller.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', give, { once: true });
  const watchdog = createWatchdog(controller, options.watchdogMs ?? SSE_WATCHDOG_MS);
  try {
    const response = source instanceof Response ? source : await connect(source, options, state, controller.signal);
    if (!response.body) return;
    const parser = new SseParser(state.lastEventId);
    for await (const chunk of chunksOf(response.body, controller.signal)) {
      watchdog.feed();
      const events = parser.push(chunk);
      state.retryMs = parser.retryMs ?? state.retryMs;
      for (const event of events) {
        state.lastEventId = event.id;
        // A consumer that takes its time is not a silent server.
        watchdog.pause();
        yield event;
        watchdog.feed();
      }
    }
  } catch (error) {
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    watchdog.pause();
    options.signal?.removeEventListener('abort', give);
    controller.abort();
  }
}

async function connect(url: string | URL, options: ReadSseOptions, state: ReaderState, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { accept: 'text/event-stream', ...options.headers };
  if (state.lastEventId !== '') headers['last-event-id'] = state.lastEventId;
  let response: Response;
  try {
    response = await (options.fetch ?? fetch)(url, { headers, signal, cache: 'no-store', redirect: 'error' });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw unreachable(new URL(url).origin, error);
  }
  if (response.status === 204) throw STOP;
  if (!response.ok) throw readProblem(response, await response.text());
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('text/event-stream'))
    throw new AppError('invalid_request', { detail: `${url} does not answer an event stream but ${type}` });
  return response;
}

/** A reader of its own, so that an abort ends a read that never returns: cancelling resolves it. */
async function* chunksOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  const cancel = () => {
    reader.cancel().catch(() => {}); // The connection is gone already, which is what was wanted.
  };
  if (signal.aborted) cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (signal.aborted) throw signal.reason;
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener('abort', cancel);
    cancel();
  }
}

function createWatchdog(controller: AbortController, ms: number): { feed(): void; pause(): void } {
  const bark = () => controller.abort(new AppError('timeout', { detail: `the stream was silent for ${ms} ms` }));
  let timer = setTimeout(bark, ms);
  return {
    feed() {
      clearTimeout(timer);
      timer = setTimeout(bark, ms);
    },
    pause: () => clearTimeout(timer),
  };
}

/** Broken connections are worth another try, and so is a server that says it may pass. */
function mayPass(error: unknown): boolean {
  return !isAppError(error) || error.retryable || error.status >= 500;
}

function backoff(baseMs: number, failures: number): number {
  const ms = Math.min(baseMs * 2 ** Math.min(failures, 10), SSE_RECONNECT_MS_MAX);
  return ms * (0.75 + Math.random() / 2);
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(done, ms);
  function done(): void {
    clearTimeout(timer);
    signal?.removeEventListener('abort', done);
    resolve();
  }
  if (signal?.aborted) done();
  else signal?.addEventListener('abort', done, { once: true });
  return promise;
}
