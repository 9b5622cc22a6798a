import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { AppError, toProblem } from '../core/errors.ts';
import type { RuntimeAdapter } from './adapter.ts';

/** Largest body of one lifecycle call, in bytes: a session end carries the whole transcript. */
const BODY_BYTES_MAX = 64 * 1_048_576;
/** Longest time a request may take to arrive, in ms. */
const REQUEST_TIMEOUT_MS = 30_000;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

export interface RuntimeAdapterServer {
  readonly url: string;
  /** Ends the server and its connections; may be called again. */
  close(): Promise<void>;
}

/**
 * The lifecycle of an adapter as HTTP endpoints, for harnesses that would rather call than import: `POST /session-start`,
 * `/user-prompt-submit`, `/session-end`, `/pre-compaction`, `/compaction-complete` with the parameters as a JSON body, and `GET /health`.
 * Binds to 127.0.0.1 and answers loopback names and no web page. The caller closes it.
 *
 * @param port  0 takes any free one
 * @throws AppError `port_taken`; its answers are problem documents with the code the daemon gave
 * @source spec/native-runtime, "SDK Surface Additions": RuntimeAdapterServer
 */
export async function createRuntimeAdapterServer(adapter: RuntimeAdapter, { port = 0 } = {}): Promise<RuntimeAdapterServer> {
  const server = createServer({ requestTimeout: REQUEST_TIMEOUT_MS }, (request, response) => void answer(adapter, request, response));
  await listen(server, port);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function answer(adapter: RuntimeAdapter, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    send(response, 200, 'application/json', (await dispatch(adapter, request)) ?? { success: true });
  } catch (error) {
    const problem = toProblem(error);
    send(response, problem.status, 'application/problem+json', problem);
  }
}

async function dispatch(adapter: RuntimeAdapter, request: IncomingMessage): Promise<unknown> {
  // Any web page can reach a local port: foreign names (rebinding) and every Origin are turned away.
  if (!LOOPBACK.test(request.headers.host ?? '')) throw new AppError('host_forbidden', { detail: 'only loopback names are answered' });
  if (request.headers.origin) throw new AppError('origin_forbidden', { detail: 'web pages may not call an adapter' });
  const path = new URL(request.url ?? '/', 'http://127.0.0.1').pathname;
  if (request.method === 'GET' && path === '/health') return { status: 'healthy', harness: adapter.harness };
  const lifecycle = {
    '/session-start': adapter.onSessionStart,
    '/user-prompt-submit': adapter.onUserPromptSubmit,
    '/session-end': adapter.onSessionEnd,
    '/pre-compaction': adapter.onPreCompaction,
    '/compaction-complete': adapter.onCompactionComplete,
  } as Record<string, ((params: never) => Promise<unknown>) | undefined>;
  const method = Object.hasOwn(lifecycle, path) ? lifecycle[path] : undefined;
  if (!method || request.method !== 'POST') throw new AppError('not_found', { detail: `no ${request.method} ${path} here` });
  return method.call(adapter, (await readJson(request)) as never);
}

async function readJson(request: IncomingMessage): Promise<object> {
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? ''))
    throw new AppError('unsupported_media_type', { detail: 'send the parameters as application/json' });
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new AppError('payload_too_large', { detail: `a body holds at most ${BODY_BYTES_MAX} bytes` });
    chunks.push(chunk);
  }
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString());
  } catch (cause) {
    throw new AppError('invalid_json', { detail: 'the body is not valid JSON', cause });
  }
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body;
  throw new AppError('invalid_request', { detail: 'the body must be a JSON object' });
}

function send(response: ServerResponse, status: number, type: string, body: unknown): void {
  response.writeHead(status, { 'content-type': type }).end(JSON.stringify(body));
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const taken = (cause: Error) =>
      reject(new AppError('port_taken', { detail: `cannot listen on 127.0.0.1:${port}: ${cause.message}`, cause }));
    server.once('error', taken).listen(port, '127.0.0.1', () => resolve());
  });
}
