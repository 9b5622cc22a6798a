import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { WebSocket } from '@fastify/websocket';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BODY_BYTES_MAX, BODY_VALUES_MAX, type Operation } from '../contract/operation.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { AuthLimits } from './auth-limits.ts';
import { sendProblem } from './problem.ts';
import { RequestScope } from './request-scope.ts';
import { createInputReader, sendAnswer } from './route.ts';
import { CONTENT_SECURITY_POLICY, type Gate, type GatedRoute } from './security.ts';
import { createSseWriter, type ServerSse } from './sse.ts';
import type { UnreadAnswers } from './unread-answers.ts';
import { CLOSE_CODE, ServerSocket, type SocketLimits } from './websocket.ts';

/** A route that speaks HTTP itself (MCP, static files). Security, request id and body parsing (JSON, 1 MiB) are done before. */
export interface RawRoute {
  readonly methods: readonly ('GET' | 'POST' | 'DELETE' | 'PUT' | 'PATCH')[];
  /** A path of the router: `/mcp`, `/assets/*`. */
  readonly path: string;
  readonly role: Operation['role'];
  /** Asks nobody for a token: for pages that show nothing of the workspace, since a browser cannot send one with a click. */
  readonly isPublic?: boolean;
  /** Largest body, default BODY_BYTES_MAX. */
  readonly bodyBytesMax?: number;
  /** Owns the response from here on. `body` is undefined when there is none. The role is checked; `rights` tell the rest. */
  handle(
    request: IncomingMessage,
    response: ServerResponse,
    body: unknown,
    rights: Pick<RequestContext, 'caller' | 'admit' | 'charge'>,
  ): void | Promise<void>;
}

/** What every route of one server shares. */
export interface RouteHost {
  readonly app: FastifyInstance;
  readonly gate: Gate;
  /** Undefined where no tokens are asked for. */
  readonly authLimits: AuthLimits | undefined;
  readonly log: Logger;
  readonly limits: SocketLimits;
  readonly unread: UnreadAnswers;
  /** Ends each open stream; for the shutdown. */
  readonly open: Set<() => void>;
}

/** Any of the three kinds of handlers; the tables of createHttpServer are where their types are checked. */
export type AnyHandler = (input: never, context: RequestContext, stream?: never) => unknown;
type LooseHandler = (input: unknown, context: RequestContext, stream?: unknown) => unknown;

export function registerJsonRoute(host: RouteHost, operation: Operation, handler: AnyHandler): void {
  const read = createInputReader(operation, host.gate.auth);
  const handle = handler as LooseHandler;
  const status = operation.status ?? 200;
  host.app.route({
    ...routeOf(host, operation),
    exposeHeadRoute: operation.method === 'GET',
    handler: async (request, reply) => {
      const input = read(request);
      await host.gate.auth.checkOwner(operation, request, input);
      reply.code(status);
      if (operation.contentType?.startsWith('text/html')) reply.header('content-security-policy', CONTENT_SECURITY_POLICY);
      return sendAnswer(operation, await handle(input, new RequestScope(request, reply, 'http', host.gate.auth)), reply, host.unread);
    },
  });
}

export function registerSseRoute(host: RouteHost, operation: Operation, handler: AnyHandler): void {
  const read = createInputReader(operation, host.gate.auth);
  host.app.route({
    ...routeOf(host, operation),
    handler: async (request, reply) => {
      const input = read(request);
      await host.gate.auth.checkOwner(operation, request, input);
      // Hijacked only when the first byte goes out: until then a refusal is an ordinary problem document.
      const sse = createSseWriter(
        reply.raw,
        () => {
          reply.hijack();
          return reply.getHeaders() as OutgoingHttpHeaders;
        },
        host.limits,
        host.unread,
      );
      const end = () => sse.end('closing');
      host.open.add(end);
      const unwatch = host.gate.auth.watch(request, () => sse.end('unauthorized'));
      try {
        const context = new RequestScope(request, reply, 'http', host.gate.auth, sse.closed);
        await runStream(host, { operation: operation.id, requestId: request.id }, sse, () =>
          (handler as LooseHandler)(input, context, sse),
        );
      } finally {
        host.open.delete(end);
        unwatch();
      }
      // The reader left before anything was sent: there is nobody to answer.
      if (!sse.opened) reply.hijack();
    },
  });
}

/** Before the first byte an error is the caller's answer; after it, the reason of the last frame. */
async function runStream(host: RouteHost, fields: object, sse: ServerSse, run: () => unknown): Promise<void> {
  try {
    await run();
    sse.open();
    sse.end();
  } catch (error) {
    if (!sse.opened && !sse.closed.aborted) throw error;
    const known = isAppError(error);
    if (!known) host.log.error({ ...fields, err: error }, 'a stream failed by a fault of this server');
    sse.end(known ? error.code : 'internal');
  }
}

export function registerSocketRoute(host: RouteHost, operation: Operation, handler: AnyHandler): void {
  const read = createInputReader(operation, host.gate.auth);
  const inputs = new WeakMap<FastifyRequest, unknown>();
  host.app.route({
    ...routeOf(host, operation),
    method: 'GET',
    // Before the upgrade, so that a refusal is an HTTP answer.
    preHandler: async (request) => {
      const input = read(request);
      await host.gate.auth.checkOwner(operation, request, input);
      inputs.set(request, input);
    },
    handler: (_request, reply) => {
      reply.header('upgrade', 'websocket');
      const detail = `${operation.path} is a WebSocket: send "connection: upgrade" and "upgrade: websocket", as a WebSocket client does`;
      throw new AppError('upgrade_required', { detail });
    },
    wsHandler: (ws: WebSocket, request: FastifyRequest) => {
      const socket = new ServerSocket(ws, { limits: host.limits, log: host.log, unread: host.unread, connection: request.raw.socket });
      const end = () => socket.close(CLOSE_CODE.goingAway, 'closing');
      host.open.add(end);
      const unwatch = host.gate.auth.watch(request, () => socket.close(CLOSE_CODE.unauthorized, 'unauthorized'));
      const forget = () => {
        host.open.delete(end);
        unwatch();
      };
      socket.closed.addEventListener('abort', forget, { once: true });
      void runSocket(host, operation, handler as LooseHandler, inputs.get(request), request, socket);
    },
  });
}

async function runSocket(
  host: RouteHost,
  operation: Operation,
  handler: LooseHandler,
  input: unknown,
  request: FastifyRequest,
  socket: ServerSocket,
): Promise<void> {
  try {
    await handler(input, new RequestScope(request, undefined, 'websocket', host.gate.auth, socket.closed), socket);
  } catch (error) {
    const fields = { operation: operation.id, requestId: request.id, err: error };
    if (!isAppError(error)) host.log.error(fields, 'a socket failed by a fault of this server');
    const code = isAppError(error, 'unauthorized')
      ? CLOSE_CODE.unauthorized
      : isAppError(error, 'forbidden')
        ? CLOSE_CODE.forbidden
        : CLOSE_CODE.bug;
    socket.close(code, isAppError(error) ? error.code : 'internal error');
  }
}

export function registerRawRoute(host: RouteHost, route: RawRoute): void {
  for (const method of route.methods) {
    const { role, isPublic, bodyBytesMax } = route;
    const gated: GatedRoute = { id: `${method} ${route.path}`, method, role, isPublic, bodyBytesMax };
    host.app.route({
      method,
      url: route.path,
      bodyLimit: route.bodyBytesMax ?? BODY_BYTES_MAX,
      onRequest: admission(host, gated),
      errorHandler: (error, request, reply) => sendProblem(host.log, error, request, reply),
      handler: async (request, reply) => {
        for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) reply.raw.setHeader(name, value);
        reply.raw.setHeader('content-security-policy', CONTENT_SECURITY_POLICY);
        reply.hijack();
        // It may answer with a stream.
        reply.raw.once(
          'close',
          host.gate.auth.watch(request, () => reply.raw.destroy()),
        );
        try {
          await route.handle(request.raw, reply.raw, request.body, new RequestScope(request, reply, 'http', host.gate.auth));
        } catch (error) {
          host.log.error({ route: gated.id, requestId: request.id, err: error }, 'a route failed by a fault of this server');
          if (!reply.raw.headersSent) reply.raw.writeHead(500);
          reply.raw.end();
        }
        if (!reply.raw.writableFinished) host.unread.keepAnswer(reply.raw, reply.raw.writableLength);
      },
    });
  }
}

function routeOf(host: RouteHost, operation: Operation) {
  return {
    method: operation.method,
    url: operation.path,
    bodyLimit: operation.bodyBytesMax ?? BODY_BYTES_MAX,
    config: { valuesMax: operation.bodyValuesMax ?? BODY_VALUES_MAX },
    onRequest: admission(host, operation),
    errorHandler: (error: Error, request: FastifyRequest, reply: FastifyReply) => sendProblem(host.log, error, request, reply, operation),
  };
}

declare module 'fastify' {
  /** What the body parser of the app reads of a route. */
  interface FastifyContextConfig {
    readonly valuesMax?: number;
  }
}

type Done = (error?: Error) => void;

/** Before the body is read. Counted only where tokens are asked for. */
function admission({ gate, authLimits }: RouteHost, route: GatedRoute) {
  return (request: FastifyRequest, _reply: FastifyReply, done: Done): void => {
    let refusal: unknown;
    try {
      gate.admitTo(route, request);
    } catch (error) {
      if (!authLimits) throw error;
      refusal = error;
    }
    const refuse = (reason: unknown): void => {
      done((authLimits ? authLimits.countRefusal(request, reason) : reason) as Error);
    };
    if (!refusal) refusal = overCharge(gate, request);
    const proving = refusal === undefined && !route.isPublic ? gate.auth.prove(route, request) : undefined;
    if (refusal) refuse(refusal);
    else if (proving) proving.then(() => done(), refuse);
    else done();
  };
}

/** Undefined while the token has requests left. */
function overCharge({ auth }: Gate, request: FastifyRequest): unknown {
  try {
    auth.charge(request, 1);
  } catch (error) {
    return error;
  }
}
