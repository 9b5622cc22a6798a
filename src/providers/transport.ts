import { AppError } from '../core/errors.ts';
import { cutError, type FaultContext, stallError } from './errors.ts';

/** Largest streamed answer in bytes; protects the memory against a server that never ends. */
const ANSWER_BYTES_MAX = 67_108_864;
/** Bytes of an error body that are read; the rest is left. */
const ERROR_BODY_BYTES_MAX = 65_536;

type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * A fetch for streamed answers that the SDKs are given. It throws AppErrors where only the bytes show what went wrong:
 * `provider_timeout` when neither headers nor a byte come within the stall limit (the clock runs only while somebody reads,
 * so a slow reader is not a stalled server), `provider_stream_cut` when the socket breaks after the headers,
 * `provider_malformed` for a page or a document in place of an event stream. Redirects are not followed: they would carry the key away.
 */
export function createWatchedFetch(context: FaultContext): Fetch {
  return async (input, init) => {
    const controller = new AbortController();
    const unlink = linkAbort(init?.signal ?? undefined, controller);
    const watch = createWatch(context, controller);
    try {
      watch.start();
      const response = await fetch(input, { ...init, signal: controller.signal, redirect: 'manual' });
      watch.stop();
      const fault = unreadable(response, context);
      if (fault) {
        controller.abort();
        throw fault;
      }
      if (!response.body) {
        unlink();
        return response;
      }
      const body = watchedBody({ body: response.body, ok: response.ok, context, controller, watch, unlink });
      return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
    } catch (error) {
      watch.stop();
      unlink();
      throw error;
    }
  };
}

/** Pass an abort on; the returned function takes the listener off, for signals that outlive the request. */
export function linkAbort(signal: AbortSignal | undefined, controller: AbortController): () => void {
  if (!signal) return () => undefined;
  const forward = () => controller.abort(signal.reason);
  if (signal.aborted) forward();
  else signal.addEventListener('abort', forward, { once: true });
  return () => signal.removeEventListener('abort', forward);
}

interface Watch {
  start(): void;
  stop(): void;
}

function createWatch(context: FaultContext, controller: AbortController): Watch {
  let timer: NodeJS.Timeout | undefined;
  return {
    start: () => {
      timer = setTimeout(() => controller.abort(stallError(context)), context.stallTimeoutMs);
    },
    stop: () => clearTimeout(timer),
  };
}

interface BodyInput {
  readonly body: ReadableStream<Uint8Array>;
  readonly ok: boolean;
  readonly context: FaultContext;
  readonly controller: AbortController;
  readonly watch: Watch;
  readonly unlink: () => void;
}

function watchedBody({ body, ok, context, controller, watch, unlink }: BodyInput): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let bytes = 0;
  const read = async (): Promise<Uint8Array | undefined> => {
    watch.start();
    try {
      const { value } = await reader.read();
      return value;
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason;
      // Node's fetch has a limit of its own, five minutes, which a longer stall limit runs into.
      if (timedOut(error)) throw stallError(context);
      throw new AppError('provider_stream_cut', {
        detail: cutError(context, 'the connection broke in the middle of the answer').detail,
        cause: error,
      });
    } finally {
      watch.stop();
    }
  };
  return new ReadableStream<Uint8Array>(
    {
      pull: async (out) => {
        try {
          const value = await read();
          bytes += value?.byteLength ?? 0;
          if (ok && bytes > ANSWER_BYTES_MAX)
            throw new AppError('provider_malformed', { detail: `${context.id}: the answer passed ${ANSWER_BYTES_MAX} bytes` });
          if (value) out.enqueue(value);
          const enough = !ok && bytes > ERROR_BODY_BYTES_MAX;
          if (enough) controller.abort();
          if (!value || enough) {
            unlink();
            out.close();
          }
        } catch (error) {
          unlink();
          controller.abort();
          throw error;
        }
      },
      cancel: async (reason) => {
        unlink();
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

function timedOut(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause as { code?: unknown } | undefined) : undefined;
  return cause?.code === 'UND_ERR_BODY_TIMEOUT';
}

/** Why a response with status 200 cannot be an event stream, if so. */
function unreadable(response: Response, context: FaultContext): AppError | undefined {
  if (!response.ok) return undefined;
  const type = (response.headers.get('content-type') ?? '').split(';')[0]!.trim().toLowerCase();
  if (type === 'text/html' || type === 'application/json') {
    return new AppError('provider_malformed', {
      detail: `${context.id}: ${context.origin} answered ${type} where an event stream was asked for`,
    });
  }
  if (response.status === 204 || response.headers.get('content-length') === '0') {
    return new AppError('provider_malformed', { detail: `${context.id}: ${context.origin} answered nothing` });
  }
  return undefined;
}
