import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { parseTraceparent } from '../core/trace-context.ts';
import type { Authentication } from './auth.ts';

/** Longest `x-signet-actor` that is kept. */
const ACTOR_CHARS_MAX = 128;
const REQUEST_ID = /^[A-Za-z0-9._:-]{1,128}$/;

const idPrefix = `req_${randomBytes(6).toString('hex')}`;
let idCounter = 0;

/** The caller's `x-request-id` when it is harmless, else a name that is unique over restarts. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  if (typeof given === 'string' && REQUEST_ID.test(given)) return given;
  idCounter += 1;
  return `${idPrefix}_${idCounter.toString(36)}`;
}

/** Answer the ids a caller sent, so that both ends find the same request in their logs. */
export function echoIds(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  const traceparent = request.raw.headers.traceparent;
  if (typeof traceparent === 'string' && parseTraceparent(traceparent)) reply.header('traceparent', traceparent);
}

/** The context of one request. Its abort signal is made when first asked for: most handlers never do. */
export class RequestScope implements RequestContext {
  readonly requestId: string;
  readonly client: string;
  readonly reply: RequestContext['reply'];
  readonly caller: RequestContext['caller'];
  readonly admit: RequestContext['admit'];
  readonly charge: RequestContext['charge'];
  readonly #auth: Authentication;
  readonly #request: FastifyRequest;
  readonly #answer: FastifyReply | undefined;
  #signal: AbortSignal | undefined;

  /**
   * @param answer  undefined when it was sent before, as on a WebSocket; status and headers of the handler then go nowhere
   * @param signal  for streams, which know better than the reply when their reader has gone
   */
  constructor(
    request: FastifyRequest,
    answer: FastifyReply | undefined,
    transport: 'http' | 'websocket',
    auth: Authentication,
    signal?: AbortSignal,
  ) {
    this.requestId = request.id;
    this.client = actorOf(request) ?? transport;
    this.caller = auth.callerOf(request);
    this.admit = auth.isLimited(request) ? (operation, input) => auth.admit(operation, request, input) : undefined;
    this.charge = this.caller && ((requests) => auth.charge(request, requests));
    this.#auth = auth;
    this.#request = request;
    this.#answer = answer;
    this.#signal = signal;
    this.reply = {
      status: (code) => void answer?.code(code),
      header: (name, value) => void answer?.header(name, value),
    };
  }

  get signal(): AbortSignal {
    this.#signal ??= this.#watch();
    return this.#signal;
  }

  header(name: string): string | undefined {
    const value = this.#request.raw.headers[name.toLowerCase()];
    return Array.isArray(value) ? value.join(', ') : value;
  }

  #watch(): AbortSignal {
    const controller = new AbortController();
    const raw = this.#answer?.raw;
    if (!raw) return controller.signal;
    const abort = () => {
      if (!raw.writableFinished) controller.abort(new Error('the caller has gone'));
    };
    if (raw.destroyed || raw.socket?.destroyed) abort();
    else {
      raw.once('close', abort);
      // Who waits for long must not outwait its token.
      const revoked = () => controller.abort(new AppError('unauthorized', { detail: 'the token was revoked, or has expired' }));
      raw.once('close', this.#auth.watch(this.#request, revoked));
    }
    return controller.signal;
  }
}

function actorOf(request: FastifyRequest): string | undefined {
  const actor = request.raw.headers['x-signet-actor'];
  return typeof actor === 'string' && actor !== '' ? actor.slice(0, ACTOR_CHARS_MAX) : undefined;
}
