import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  DEFAULT_NEGOTIATED_PROTOCOL_VERSION,
  isJSONRPCRequest,
  type JSONRPCMessage,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js';
import { type AppError, isAppError } from '../core/errors.ts';
import { createSseWriter } from '../http/sse.ts';
import { createMcpServer, type McpServerDeps } from './server.ts';
import { callerOf, type Rights } from './server-address.ts';
import type { McpCaller } from './server-caller.ts';
import { HttpExchange } from './server-exchange.ts';
import { isFault, type RpcFault, readMessages, rpcFault } from './server-messages.ts';
import { createResourceWatch, type Notice, type ResourceWatch } from './server-watch.ts';

/** Event streams open at once; more are refused. */
export const STREAMS_MAX = 1_000;
/** A comment goes out on a silent stream after this, so that a dead one is found; unit: milliseconds. */
export const HEARTBEAT_MS = 15_000;
/** How often the resources of an agent are looked at while somebody listens; unit: milliseconds. */
const WATCH_EVERY_MS = 2_000;
/** The server's own code for a request that HTTP, not JSON-RPC, refuses. */
const REFUSED = -32_000;
const HEARTBEAT = ': heartbeat\n\n';

export interface McpHttp {
  post(request: IncomingMessage, response: ServerResponse, body: unknown, rights: Rights): Promise<void>;
  get(request: IncomingMessage, response: ServerResponse, rights: Rights): void;
}

/**
 * Streamable HTTP without sessions: each POST is served by a server of its own, which knows nothing of earlier ones and is gone with its answer.
 *
 * @source MCP specification 2025-03-26 and later, "Streamable HTTP"; spec/mcp-server, "Transports"
 */
export function createMcpHttp(deps: McpServerDeps): McpHttp {
  const watch = createResourceWatch(deps, WATCH_EVERY_MS);
  let streams = 0;
  return {
    async post(request, response, body, rights) {
      const version = versionOf(request);
      if (version === undefined) return refuse(response, 400, rpcFault(REFUSED, unsupported(request)));
      const type = answerType(request.headers.accept);
      if (type === undefined)
        return refuse(response, 406, rpcFault(REFUSED, 'Not Acceptable: accept application/json or text/event-stream'));
      const read = readMessages(body, version);
      if (isFault(read)) return refuse(response, 400, read);
      const fault = overCharge(read.messages.length + read.faults.length - 1, rights);
      if (fault) {
        response.setHeader('retry-after', Math.ceil((fault.retryAfterMs ?? 1_000) / 1_000));
        return refuse(response, 429, rpcFault(REFUSED, fault.detail));
      }
      const answers = await answer(deps, callerOf(request, response, rights), response, read.messages);
      if (answers === undefined) return;
      const all = [...answers, ...read.faults];
      if (all.length === 0) response.writeHead(202).end();
      else send(response, type, read.isBatch ? all : all[0]!);
    },
    get(request, response, rights) {
      if (versionOf(request) === undefined) return refuse(response, 400, rpcFault(REFUSED, unsupported(request)));
      if (!accepts(request.headers.accept, 'text/event-stream'))
        return refuse(response, 406, rpcFault(REFUSED, 'Not Acceptable: this is an event stream; accept text/event-stream'));
      if (streams >= STREAMS_MAX)
        return refuse(response, 503, rpcFault(REFUSED, `${STREAMS_MAX} event streams are open, as many as may be`));
      streams += 1;
      openStream(watch, callerOf(request, response, rights), response, () => {
        streams -= 1;
      });
    },
  };
}

/** The body itself was counted. Undefined while the token has requests left. */
function overCharge(more: number, { charge }: Rights): AppError | undefined {
  try {
    if (more > 0) charge?.(more);
    return undefined;
  } catch (error) {
    if (isAppError(error, 'rate_limited')) return error;
    throw error;
  }
}

/** @returns undefined when the client left before its answer was there; what it asked for is then given up */
async function answer(
  deps: McpServerDeps,
  caller: McpCaller,
  response: ServerResponse,
  messages: readonly JSONRPCMessage[],
): Promise<JSONRPCMessage[] | undefined> {
  if (!messages.some(isJSONRPCRequest)) return [];
  const exchange = new HttpExchange();
  const server = createMcpServer(deps, caller);
  await server.connect(exchange);
  let isGone = response.destroyed;
  const leave = (): void => {
    isGone = true;
    void exchange.close();
  };
  response.once('close', leave);
  try {
    if (isGone) return undefined;
    return await exchange.run(messages);
  } catch (error) {
    if (isGone) return undefined;
    throw error;
  } finally {
    response.off('close', leave);
  }
}

function send(response: ServerResponse, type: string, answer: unknown): void {
  const text = JSON.stringify(answer);
  if (type === 'text/event-stream') {
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' }).end(`event: message\ndata: ${text}\n\n`);
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(text) }).end(text);
}

function refuse(response: ServerResponse, status: number, fault: RpcFault): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(fault));
}

function openStream(watch: ResourceWatch, caller: McpCaller, response: ServerResponse, closed: () => void): void {
  const sse = createSseWriter(response, () => ({}));
  const tell = (notice: Notice): void => {
    sse.frame(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...notice })}\n\n`);
  };
  // MEMORY.md is made of all projects: a caller of one is not told that it changes.
  const unwatch = caller.limit?.project === undefined ? watch.add(caller, tell) : () => undefined;
  const heartbeat = setInterval(() => sse.frame(HEARTBEAT), HEARTBEAT_MS).unref();
  const end = (): void => {
    clearInterval(heartbeat);
    unwatch();
    closed();
  };
  if (sse.closed.aborted) {
    end();
    return;
  }
  sse.closed.addEventListener('abort', end, { once: true });
  sse.open();
  // What stands between may hold back a head without a body.
  sse.frame(HEARTBEAT);
}

/** Undefined for one this server does not speak. Clients of the first version send none. */
function versionOf({ headers }: IncomingMessage): string | undefined {
  const version = headers['mcp-protocol-version'] ?? DEFAULT_NEGOTIATED_PROTOCOL_VERSION;
  return SUPPORTED_PROTOCOL_VERSIONS.find((known) => known === version);
}

function unsupported({ headers }: IncomingMessage): string {
  const version = String(headers['mcp-protocol-version']).slice(0, 64);
  return `Bad Request: unsupported protocol version ${version}; supported are ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')}`;
}

/** JSON, unless the client takes event streams alone. */
function answerType(accept: string | undefined): string | undefined {
  return ['application/json', 'text/event-stream'].find((type) => accepts(accept, type));
}

/** A client that does not say takes anything. */
function accepts(accept: string | undefined, type: string): boolean {
  if (accept === undefined) return true;
  const ranges = accept.split(',').map((range) => range.split(';')[0]!.trim().toLowerCase());
  return ranges.some((range) => range === type || range === '*/*' || range === `${type.split('/')[0]}/*`);
}
