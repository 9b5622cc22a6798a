import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { WireAnswer } from './frames.ts';
import { createGate, type Held } from './gate.ts';
import type { Reply, Wire } from './reply.ts';
import type { ModelRequest } from './request.ts';
import { sendReply } from './sender.ts';
import { anthropicAnswer } from './wire-anthropic.ts';
import { chatAnswer } from './wire-chat.ts';
import { responsesAnswer } from './wire-responses.ts';

/** Requests kept in `server.requests`; a benchmark must not grow without end. */
const REQUESTS_KEPT_MAX = 10_000;
/** Largest request body in bytes. */
const BODY_BYTES_MAX = 67_108_864;

const WIRES: Readonly<Record<string, Wire>> = {
  '/v1/messages': 'anthropic',
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
};

export interface ModelServerOptions {
  readonly port?: number;
  /** Answer to what neither the script nor `respond` decides. */
  readonly reply?: Reply;
  /** Ids of GET /v1/models; null answers 404, a number that status. */
  readonly models?: readonly string[] | number | null;
  /** Keep requests in `requests`, default true. */
  readonly record?: boolean;
}

export interface ModelServer {
  /** `http://127.0.0.1:<port>`; OpenAI clients take `${url}/v1`. */
  readonly url: string;
  readonly requests: readonly ModelRequest[];
  /** Requests held by the gate that `next()` has not handed out. */
  readonly pending: number;
  /** Answers for the next requests, in order; they come before `respond`. */
  script(replies: readonly Reply[]): void;
  /** Decide by the request; undefined falls back to the default reply. */
  respond(decide: (request: ModelRequest) => Reply | undefined): void;
  /** From now on every request waits until `next()` hands it out and it is given a reply. */
  gate(): void;
  /** Let held and later requests through to script, `respond` and default. */
  open(): void;
  /** The oldest held request. Rejects when none arrives within `timeoutMs` (5 s). */
  next(timeoutMs?: number): Promise<Held>;
  /** Ends every socket. */
  close(): Promise<void>;
}

/** A real HTTP server that speaks the three model APIs as the official clients expect them. */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const queue: Reply[] = [];
  const gate = createGate();
  let decide: (request: ModelRequest) => Reply | undefined = () => undefined;
  let count = 0;

  const choose = async (request: ModelRequest): Promise<Reply> =>
    (await gate.hold(request)) ?? queue.shift() ?? decide(request) ?? options.reply ?? {};

  const handle = async (message: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (message.url ?? '/').split('?')[0]!;
    if (message.method === 'GET' && path === '/v1/models') return sendModels(message, response, options.models);
    const wire = WIRES[path];
    const body = await readBody(message);
    if (message.method !== 'POST' || !wire || !body) {
      response.writeHead(wire && !body ? 400 : 404, { 'content-type': 'application/json' }).end('{"error":{"message":"not an endpoint"}}');
      return;
    }
    count += 1;
    const request = createRequest(count, wire, message, response, body);
    if (options.record !== false && requests.length < REQUESTS_KEPT_MAX) requests.push(request);
    const reply = await choose(request);
    if (!response.destroyed) await sendReply(response, { wire, stream: request.stream, reply, answer: answerFor(request, reply) });
  };

  const server = createServer((message, response) => {
    handle(message, response).catch((error: unknown) => {
      // A fault of a script is shown to the test as a broken answer with its reason.
      process.emitWarning(error instanceof Error ? error : String(error));
      response.socket?.destroy();
    });
  });
  server.keepAliveTimeout = 30_000;
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    get pending() {
      return gate.pending;
    },
    script: (replies) => void queue.push(...replies),
    respond: (next) => {
      decide = next;
    },
    gate: () => gate.close(),
    open: () => gate.open(),
    next: (timeoutMs) => gate.next(timeoutMs),
    close: async () => {
      gate.open();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function createRequest(
  number: number,
  wire: Wire,
  message: IncomingMessage,
  response: ServerResponse,
  body: Readonly<Record<string, unknown>>,
): ModelRequest {
  let aborted = false;
  const closed = new Promise<{ aborted: boolean }>((resolve) => {
    response.once('close', () => {
      aborted = !response.writableFinished;
      resolve({ aborted });
    });
  });
  return {
    number,
    wire,
    headers: message.headers,
    body,
    model: typeof body.model === 'string' ? body.model : 'unnamed',
    stream: body.stream === true,
    clientPort: message.socket.remotePort ?? 0,
    closed,
    get aborted() {
      return aborted;
    },
  };
}

function answerFor(request: ModelRequest, reply: Reply): WireAnswer {
  if (request.wire === 'anthropic') return anthropicAnswer(reply, request);
  if (request.wire === 'responses') return responsesAnswer(reply, request);
  const streamOptions = request.body.stream_options as { include_usage?: boolean } | undefined;
  return chatAnswer(reply, { number: request.number, model: request.model, includeUsage: streamOptions?.include_usage === true });
}

function sendModels(message: IncomingMessage, response: ServerResponse, models: ModelServerOptions['models']): void {
  const ids = models === undefined ? ['scripted'] : models;
  if (ids === null || typeof ids === 'number') {
    response.writeHead(ids ?? 404, { 'content-type': 'application/json' }).end('{"error":{"message":"scripted error"}}');
    return;
  }
  const anthropic = message.headers['anthropic-version'] !== undefined;
  const data = ids.map((id) =>
    anthropic
      ? { type: 'model', id, display_name: id, created_at: '2026-01-01T00:00:00Z', max_input_tokens: 200_000, max_tokens: 64_000 }
      : { object: 'model', id, created: 0, owned_by: 'scripted', max_model_len: 32_768 },
  );
  const body = anthropic ? { data, has_more: false, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null } : { object: 'list', data };
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function readBody(message: IncomingMessage): Promise<Record<string, unknown> | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) return undefined;
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as Record<string, unknown>;
  } catch {
    // Not JSON: the caller answers 400.
    return undefined;
  }
}
