import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { AppError } from '../core/errors.ts';
import { cutError, type FaultContext, stallError } from './errors.ts';
import { StreamedAnswer } from './streamed-answer.ts';

/** Bytes of an error body that are read; the rest is left. */
const ERROR_BODY_BYTES_MAX = 65_536;
/** What a Response can carry. */
const STATUS_MIN = 200;
const STATUS_MAX = 599;
/** Statuses that have no body. */
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);

type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * A fetch for streamed answers that the SDKs are given; a success stands for a StreamedAnswer. It uses node:http, which takes less processor time than
 * the built-in fetch for an answer of many small pieces. It throws AppErrors where only the bytes show what went wrong:
 * `provider_timeout` when neither headers nor a byte come within the stall limit (the clock runs only while somebody reads,
 * so a slow reader is not a stalled server), `provider_stream_cut` when the socket breaks after the headers,
 * `provider_malformed` for a page or a document in place of an event stream. Redirects are not followed: they would carry the key away.
 */
export function createWatchedFetch(context: FaultContext): Fetch {
  return async (input, init = {}) => {
    const signal = init.signal ?? undefined;
    signal?.throwIfAborted();
    const request = open(input instanceof Request ? input.url : input, init);
    // Without an error of its own: the answer may be over in this very moment, and a socket on its way to the pool has nobody to catch it.
    const abort = () => request.destroy();
    signal?.addEventListener('abort', abort, { once: true });
    const unlink = () => signal?.removeEventListener('abort', abort);
    try {
      const message = await answered(request, context, signal);
      const head = responseHead(message, context);
      if (head.status > 299) {
        const body = BODILESS.has(head.status) ? null : await errorBody(message, context, signal);
        unlink();
        return new Response(body, head);
      }
      const fault = unreadable(message, context);
      if (fault) throw fault;
      return new StreamedAnswer({ message, head, context, signal, unlink }).toResponse();
    } catch (error) {
      unlink();
      request.destroy();
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

/** The default agents keep connections and know the proxies of the environment where Node is told to use them. */
function open(url: string | URL, { method = 'GET', headers, body }: RequestInit): ClientRequest {
  const text = typeof body === 'string' ? body : undefined;
  const send = String(url).startsWith('https:') ? httpsRequest : httpRequest;
  const request = send(url, {
    method,
    headers: {
      ...Object.fromEntries(new Headers(headers)),
      // Compressing an event stream would hold its pieces back.
      'accept-encoding': 'identity',
      ...(text === undefined ? {} : { 'content-length': String(Buffer.byteLength(text)) }),
    },
  });
  request.end(text);
  return request;
}

/** The head of the answer. Rejects with the fault of the connection, the reason of the abort, or `provider_timeout`. */
function answered(request: ClientRequest, context: FaultContext, signal: AbortSignal | undefined): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const timer = setTimeout(() => request.destroy(stallError(context)), context.stallTimeoutMs);
  request.on('error', (error) => {
    clearTimeout(timer);
    reject(signal?.aborted ? signal.reason : error);
  });
  request.once('response', (message) => {
    clearTimeout(timer);
    resolve(message);
  });
  return promise;
}

function responseHead(message: IncomingMessage, context: FaultContext) {
  const status = message.statusCode ?? 0;
  if (status < STATUS_MIN || status > STATUS_MAX) {
    throw new AppError('provider_malformed', { detail: `${context.id}: ${context.origin} answered with status ${status}` });
  }
  const headers = new Headers();
  for (let index = 0; index + 1 < message.rawHeaders.length; index += 2)
    headers.append(message.rawHeaders[index]!, message.rawHeaders[index + 1]!);
  return { status, statusText: message.statusMessage ?? '', headers };
}

/** The text of an error, as far as it comes; what is too long or breaks off is cut. */
async function errorBody(message: IncomingMessage, context: FaultContext, signal: AbortSignal | undefined): Promise<string> {
  const timer = setTimeout(() => message.destroy(stallError(context)), context.stallTimeoutMs);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of message as AsyncIterable<Buffer>) {
      timer.refresh();
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > ERROR_BODY_BYTES_MAX) break;
    }
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (error instanceof AppError) throw error;
    throw new AppError('provider_stream_cut', {
      detail: cutError(context, 'the connection broke in the middle of the answer').detail,
      cause: error,
    });
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Why a response with status 200 cannot be an event stream, if so. */
function unreadable({ statusCode, headers }: IncomingMessage, context: FaultContext): AppError | undefined {
  const type = (headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase();
  if (type === 'text/html' || type === 'application/json') {
    return new AppError('provider_malformed', {
      detail: `${context.id}: ${context.origin} answered ${type} where an event stream was asked for`,
    });
  }
  if (statusCode === 204 || headers['content-length'] === '0') {
    return new AppError('provider_malformed', { detail: `${context.id}: ${context.origin} answered nothing` });
  }
  return undefined;
}
