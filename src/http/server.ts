import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import websocketPlugin from '@fastify/websocket';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { Operation, ParsedInputOf } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Handlers, Operations, RequestContext } from '../core/operation-call.ts';
import { authLimitsOf } from './auth-limits.ts';
import { Connections } from './connections.ts';
import { type Halves, parseJsonBody } from './json-body.ts';
import { describeMiss } from './not-found.ts';
import { openapiDocument } from './openapi.ts';
import { refuseUnreadable, sendProblem } from './problem.ts';
import { echoIds, requestIdOf } from './request-scope.ts';
import {
  type AnyHandler,
  type RawRoute,
  type RouteHost,
  registerJsonRoute,
  registerRawRoute,
  registerSocketRoute,
  registerSseRoute,
} from './route-registry.ts';
import { createGate, isLoopback, type SecurityOptions } from './security.ts';
import { type SseWriter, STREAM_LIMITS, type StreamLimits } from './sse.ts';
import { listenOnSocket } from './unix-socket.ts';
import { UnreadAnswers } from './unread-answers.ts';
import { SOCKET_MESSAGE_BYTES_MAX, SOCKET_PING_INTERVAL_MS, type SocketWriter } from './websocket.ts';

/** A request, body included, arrives within this or is refused; answers may take longer; unit: milliseconds. */
export const REQUEST_TIMEOUT_MS = 60_000;
/** The head of a request arrives within this, counted from the beginning of the connection for the first one; unit: milliseconds. */
export const HEADERS_TIMEOUT_MS = 15_000;
/** An idle connection is kept open for this; unit: milliseconds. */
export const KEEP_ALIVE_TIMEOUT_MS = 72_000;
/** How often requests that take too long are looked for: the two limits above hold to this; unit: milliseconds. */
const TIMEOUT_CHECK_MS = 1_000;
/** Longest value of one path field as it stands in the URL; unit: characters. */
export const PARAM_CHARS_MAX = 4_096;

export type { RawRoute } from './route-registry.ts';

export type SseHandler<Op extends Operation> = (input: ParsedInputOf<Op>, context: RequestContext, sse: SseWriter) => void | Promise<void>;
export type SocketHandler<Op extends Operation> = (
  input: ParsedInputOf<Op>,
  context: RequestContext,
  socket: SocketWriter,
) => void | Promise<void>;

export interface HttpServerOptions<T extends Operations> {
  readonly operations: T;
  /** One for every operation that is not a stream; `/openapi.json` is answered by the server itself when it has none. */
  readonly handlers: Partial<Handlers<T>>;
  /** One for every operation with `stream: 'sse'`. */
  readonly streams?: { readonly [K in keyof T]?: SseHandler<T[K]> };
  /** One for every operation with `stream: 'websocket'`. */
  readonly sockets?: { readonly [K in keyof T]?: SocketHandler<T[K]> };
  readonly rawRoutes?: readonly RawRoute[];
  readonly security: SecurityOptions;
  readonly title: string;
  readonly version: string;
  readonly log: Logger;
  /** What to change when the port is taken: `--port or SIGNET_PORT`. */
  readonly portSetting?: string;
  /** PEM texts; plain HTTP without them. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  /** Also answer at this Unix domain socket, which is made at `listen`. */
  readonly socketPath?: string;
  readonly streamLimits?: Partial<StreamLimits>;
  /** What all servers of the process share; limits of its own when left out. */
  readonly shared?: SharedLimits;
  /** unit: milliseconds. */
  readonly headersTimeoutMs?: number;
  /** After listen. */
  onReady?(address: HttpAddress): void;
}

/** Limits on what callers may hold of one process, over all its servers. */
export interface SharedLimits {
  readonly connections: Connections;
  readonly unread: UnreadAnswers;
}

export function createSharedLimits(): SharedLimits {
  return { connections: new Connections(), unread: new UnreadAnswers() };
}

export interface HttpAddress {
  readonly host: string;
  readonly port: number;
  readonly url: string;
}

export interface HttpServer {
  /**
   * @param port  0 takes any free one; the answer has the real one
   * @throws AppError `port_taken`, `config_invalid` (host is not this machine's, or not loopback and no token is asked for)
   */
  listen(host: string, port: number): Promise<HttpAddress>;
  /** Ends the streams with `end {reason: closing}`, then every connection. May be called twice. */
  close(): Promise<void>;
}

/**
 * HTTP, SSE and WebSocket routes of one operation table. Nothing is bound before `listen`.
 *
 * @throws Error when an operation has no handler or a handler no operation: a mistake of ours, found at start
 */
export function createHttpServer<T extends Operations>(options: HttpServerOptions<T>): HttpServer {
  const { connections, unread } = options.shared ?? createSharedLimits();
  const app = createApp(options.log, options.headersTimeoutMs ?? HEADERS_TIMEOUT_MS, options.tls);
  connections.follow(app.server);
  const gate = createGate({ ...options.security, tls: options.tls !== undefined });
  const host: Omit<RouteHost, 'authLimits'> = {
    app,
    gate,
    log: options.log,
    unread,
    limits: { ...STREAM_LIMITS, ...options.streamLimits, pingIntervalMs: SOCKET_PING_INTERVAL_MS },
    open: new Set(),
  };
  app.addHook('onRequest', (request, reply, done) => {
    echoIds(request, reply);
    connections.admit(request, reply, gate.auth.holdsToken);
    if (!gate.admit(request, reply)) done();
  });
  // A refused upgrade leaves a socket that no HTTP parser owns any more; the plugin ends it only when its own hook has run.
  app.addHook('onResponse', (request, _reply, done) => {
    if (request.raw.headers.upgrade !== undefined) request.raw.socket.destroySoon();
    done();
  });
  const table = Object.values(options.operations);
  app.setNotFoundHandler((request, reply) => sendProblem(options.log, describeMiss(table, request), request, reply));
  registerWebsockets(app, table);
  // A plugin of its own: it loads after the one above, whose hooks turn routes into sockets.
  app.register(async (scope) => {
    const { authenticate, limits } = options.security;
    registerRoutes(options, { ...host, app: scope, authLimits: authenticate && limits && authLimitsOf(limits) });
  });
  let closing: Promise<void> | undefined;
  let socket: { close(): void } | undefined;
  return {
    async listen(address, port) {
      const bound = await listen(app, address, port, options);
      // Plain HTTP, with TLS too: nobody is in between.
      const event = options.tls ? 'secureConnection' : 'connection';
      if (options.socketPath !== undefined)
        socket = await listenOnSocket(options.socketPath, (opened) => void app.server.emit(event, opened));
      options.onReady?.(bound);
      return bound;
    },
    close: () => {
      socket?.close();
      closing ??= closeApp(host);
      return closing;
    },
  };
}

/** Routes carry no JSON schema: inputs are checked by zod, and Fastify's own compilers would be loaded for nothing. */
const NO_SCHEMAS = { buildValidator: refuseSchemas, buildSerializer: refuseSchemas };

function refuseSchemas(): never {
  throw new Error('a route has a JSON schema of its own: declare its fields in the operation table');
}

function createApp(
  log: Logger,
  headersTimeoutMs: number,
  tls: { readonly cert: string; readonly key: string } | undefined,
): FastifyInstance {
  const http = { headersTimeout: headersTimeoutMs, requestTimeout: REQUEST_TIMEOUT_MS, connectionsCheckingInterval: TIMEOUT_CHECK_MS };
  const app: FastifyInstance = Fastify({
    // The type of the instance is that of plain HTTP for both.
    ...(tls ? ({ https: { ...http, ...tls } } as object) : { http }),
    forceCloseConnections: true,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    exposeHeadRoutes: false,
    schemaController: { compilersFactory: NO_SCHEMAS },
    routerOptions: { maxParamLength: PARAM_CHARS_MAX },
    genReqId: (request) => requestIdOf(request as IncomingMessage),
    frameworkErrors: (error, request, reply) => void sendProblem(log, error, request, reply),
    clientErrorHandler: refuseUnreadable,
  });
  app.removeAllContentTypeParsers();
  // The gate has refused every other type by now; on an unknown path the body does not matter.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, bytes: Buffer) => {
    if (request.is404) return undefined;
    const { url, config } = request.routeOptions;
    return parseJsonBody(bytes, { halves: halvesOn(url), ...(config.valuesMax === undefined ? {} : { valuesMax: config.valuesMax }) });
  });
  app.setErrorHandler((error, request, reply) => sendProblem(log, error, request, reply));
  return app;
}

/** Harnesses cut what they send to hooks, and do not look at the answer: a refusal would lose a transcript for half an emoji. */
function halvesOn(path: string | undefined): Halves {
  return path?.startsWith('/api/hooks/') ? 'replace' : 'refuse';
}

/** At the root, so that a refused upgrade on any path ends its connection. */
function registerWebsockets(app: FastifyInstance, table: readonly Operation[]): void {
  const sockets = table.filter((operation) => operation.stream === 'websocket');
  if (sockets.length === 0) return;
  const maxPayload = Math.max(...sockets.map((operation) => operation.bodyBytesMax ?? SOCKET_MESSAGE_BYTES_MAX));
  app.register(websocketPlugin, { options: { maxPayload }, errorHandler: (_error, socket) => socket.terminate() });
}

function registerRoutes<T extends Operations>(options: HttpServerOptions<T>, host: RouteHost): void {
  for (const [key, operation] of Object.entries(options.operations)) {
    if (operation.stream === 'sse') registerSseRoute(host, operation, need(options.streams?.[key], key));
    else if (operation.stream === 'websocket') registerSocketRoute(host, operation, need(options.sockets?.[key], key));
    else registerJsonRoute(host, operation, need(options.handlers[key] ?? openapiHandler(options, operation), key));
  }
  for (const route of options.rawRoutes ?? []) registerRawRoute(host, route);
}

function need(handler: unknown, key: string): AnyHandler {
  if (typeof handler !== 'function') throw new Error(`the operation ${key} has no handler`);
  return handler as AnyHandler;
}

/** Built at the first request: it costs tens of milliseconds that a start does not have. */
function openapiHandler<T extends Operations>(options: HttpServerOptions<T>, operation: Operation): (() => unknown) | undefined {
  if (operation.path !== '/openapi.json') return undefined;
  let document: unknown;
  return () => {
    document ??= openapiDocument(options.operations, { title: options.title, version: options.version });
    return document;
  };
}

async function listen<T extends Operations>(
  app: FastifyInstance,
  host: string,
  port: number,
  options: HttpServerOptions<T>,
): Promise<HttpAddress> {
  if (!isLoopback(host) && !options.security.authenticate) {
    throw new AppError('config_invalid', {
      detail:
        `${host} is not a loopback address: other machines could call without a token; ` +
        'set auth.mode to team or hybrid in agent.yaml (SIGNET_AUTH_MODE), or bind 127.0.0.1',
    });
  }
  try {
    await app.listen({ host, port });
  } catch (error) {
    throw listenError(error, host, port, options.portSetting ?? 'the port');
  }
  const bound = app.server.address() as AddressInfo;
  const scheme = options.tls ? 'https' : 'http';
  const address = { host, port: bound.port, url: `${scheme}://${host.includes(':') ? `[${host}]` : host}:${bound.port}` };
  return address;
}

function listenError(error: unknown, host: string, port: number, setting: string): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE')
    return new AppError('port_taken', {
      detail: `port ${port} on ${host} is taken by another program; stop it, or change ${setting}`,
      cause: error,
    });
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new AppError('config_invalid', { detail: `cannot bind ${host}:${port} (${code}); change the host or ${setting}`, cause: error });
  return error;
}

async function closeApp(host: Pick<RouteHost, 'app' | 'open'>): Promise<void> {
  for (const end of host.open) end();
  await host.app.close();
}
