import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../core/errors.ts';
import { networkOf } from './auth-limits.ts';
import { descriptorLimit } from './descriptor-limit.ts';
import { isMarkedOwn } from './peer.ts';
import { refuseConnection } from './problem.ts';

/** Connections of all servers of the process together, where the system allows so many. */
export const CONNECTIONS_MAX = 10_000;
/** File descriptors that connections leave free: databases, watches, pipes of commands, connections to model providers. */
const DESCRIPTORS_KEPT_MIN = 128;
/** The same as a share of what the process may open, where that is more. */
const DESCRIPTORS_KEPT_SHARE = 0.25;
/** Even a process that may open next to nothing answers somebody. */
const CONNECTIONS_MIN = 16;
/** Share of the connections that only callers with a valid token may take. */
const RESERVED_SHARE = 0.1;
/** Share of the connections that one address may hold; loopback, where a proxy and all local programs come from, is not limited. */
const ADDRESS_SHARE = 0.25;
/** Connections beyond the limits that are kept until their requests were read: each may bring a token. More are refused without a look. */
const REFUSALS_AT_ONCE = 32;
/** A connection is closed for another one only after this time without a request: its first one may be on the way; unit: milliseconds. */
const UNUSED_MS_MIN = 250;
/** What callers that are refused should wait; unit: milliseconds. */
const RETRY_AFTER_MS = 2_000;

const LOOPBACK = '127.0.0.1';
const LOOPBACK_ADDRESS = /^(?:::ffff:)?127\.|^::1$/;

export interface ConnectionLimits {
  /** Held by all callers together, the reserved ones included. */
  readonly max: number;
  /** Of these, for callers with a valid token alone. */
  readonly reserved: number;
  /** Held by one address that is not loopback. */
  readonly perAddress: number;
}

/** @param descriptors  how many the process may have open */
export function connectionLimits(descriptors: number = descriptorLimit()): ConnectionLimits {
  const kept = Math.max(DESCRIPTORS_KEPT_MIN, Math.ceil(descriptors * DESCRIPTORS_KEPT_SHARE)) + REFUSALS_AT_ONCE;
  // Infinity minus its own share is no number: no limit leaves the constant.
  const free = Number.isFinite(descriptors) ? descriptors - kept : CONNECTIONS_MAX;
  const max = Math.max(CONNECTIONS_MIN, Math.min(CONNECTIONS_MAX, free));
  return { max, reserved: Math.ceil(max * RESERVED_SHARE), perAddress: Math.ceil(max * ADDRESS_SHARE) };
}

/** `silent`: no request yet. `idle`: between two requests. `busy`: a request, a stream or a WebSocket. */
type Phase = 'silent' | 'idle' | 'busy';

interface Connection {
  readonly socket: Socket;
  readonly network: string;
  phase: Phase;
  /** Of `performance.now()`. */
  unusedSince: number;
  requests: number;
  /** `surplus`: beyond the limits, its request is refused unless it brings a token or room was made meanwhile. */
  place: 'regular' | 'reserved' | 'surplus';
}

/** Does the request bring a token that is valid? */
export type HoldsToken = (request: FastifyRequest) => boolean;

/**
 * One limit on connections for all servers of a process. When it is reached, the connection that has been without a request the longest is closed for
 * the new one, those that never sent one first: connections that do nothing cannot lock callers out. When all are busy, a new one is read as far as its
 * request and refused with 503, unless it brings a valid token and a reserved place is free.
 */
export class Connections {
  readonly limits: ConnectionLimits;
  readonly #open = new Map<Socket, Connection>();
  /** Oldest first. */
  readonly #unused: Readonly<Record<'silent' | 'idle', Set<Connection>>> = { silent: new Set(), idle: new Set() };
  readonly #perNetwork = new Map<string, number>();
  readonly #taken = { regular: 0, reserved: 0, surplus: 0 };

  constructor(limits: ConnectionLimits = connectionLimits()) {
    this.limits = limits;
  }

  /** Takes part in everything that reaches `server`; call before it listens. */
  follow(server: Server): void {
    // Before the HTTP parser is put on it.
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
    server.prependListener('request', (request, response: ServerResponse) => {
      const connection = this.#begin(request.socket);
      if (connection) response.once('close', () => this.#end(connection));
    });
    server.prependListener('upgrade', (request) => void this.#begin(request.socket));
  }

  /** @throws AppError `overloaded` for a request of a connection beyond the limits; its connection ends with the answer */
  admit(request: FastifyRequest, reply: FastifyReply, holdsToken: HoldsToken): void {
    const connection = this.#open.get(request.raw.socket);
    if (connection?.place !== 'surplus') return;
    const place = this.#placeFor(connection, () => holdsToken(request));
    if (!place) {
      reply.header('connection', 'close');
      throw this.#refusal();
    }
    this.#taken[connection.place] -= 1;
    this.#taken[place] += 1;
    connection.place = place;
  }

  #placeFor({ network }: Connection, holdsToken: () => boolean): 'regular' | 'reserved' | undefined {
    if (this.#hasRoom(network, 1) || this.#evict(network)) return 'regular';
    return this.#taken.reserved < this.limits.reserved && holdsToken() ? 'reserved' : undefined;
  }

  #refusal(): AppError {
    const { max } = this.limits;
    const detail = `this server holds as many connections as it may (${max}); close some, or raise the limit of open files (ulimit -n)`;
    return new AppError('overloaded', { detail, retryAfterMs: RETRY_AFTER_MS });
  }

  #add(socket: Socket): void {
    // Over a Unix domain socket of our own user there is no address.
    const network = isMarkedOwn(socket) ? LOOPBACK : networkOf(socket.remoteAddress ?? '');
    const fits = this.#hasRoom(network, 0) || this.#evict(network);
    if (!fits && this.#taken.surplus >= REFUSALS_AT_ONCE) {
      refuseConnection(socket, this.#refusal());
      return;
    }
    const connection: Connection = {
      socket,
      network,
      phase: 'silent',
      unusedSince: performance.now(),
      requests: 0,
      place: fits ? 'regular' : 'surplus',
    };
    this.#open.set(socket, connection);
    this.#unused.silent.add(connection);
    this.#perNetwork.set(network, this.#countOf(network) + 1);
    this.#taken[connection.place] += 1;
    socket.once('close', () => this.#remove(connection));
  }

  /** @param counted  of this network already, for the connection that is asked for */
  #hasRoom(network: string, counted: number): boolean {
    const { max, reserved, perAddress } = this.limits;
    if (this.#taken.regular >= max - reserved) return false;
    return LOOPBACK_ADDRESS.test(network) || this.#countOf(network) - counted < perAddress;
  }

  /** Close a connection without a request so that one of `network` fits. False when there is none. */
  #evict(network: string): boolean {
    const ownOnly = !LOOPBACK_ADDRESS.test(network) && this.#countOf(network) >= this.limits.perAddress;
    const before = performance.now() - UNUSED_MS_MIN;
    for (const phase of ['silent', 'idle'] as const) {
      for (const connection of this.#unused[phase]) {
        // Oldest first: those behind it are younger still.
        if (connection.unusedSince > before) break;
        if (connection.place !== 'regular' || (ownOnly && connection.network !== network)) continue;
        this.#remove(connection);
        connection.socket.destroy();
        return true;
      }
    }
    return false;
  }

  #begin(socket: Socket): Connection | undefined {
    const connection = this.#open.get(socket);
    if (!connection) return undefined;
    if (connection.phase !== 'busy') this.#unused[connection.phase].delete(connection);
    connection.phase = 'busy';
    connection.requests += 1;
    return connection;
  }

  #end(connection: Connection): void {
    connection.requests -= 1;
    if (connection.requests > 0 || !this.#open.has(connection.socket)) return;
    connection.phase = 'idle';
    connection.unusedSince = performance.now();
    this.#unused.idle.add(connection);
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    this.#unused.silent.delete(connection);
    this.#unused.idle.delete(connection);
    this.#taken[connection.place] -= 1;
    const left = this.#countOf(connection.network) - 1;
    if (left > 0) this.#perNetwork.set(connection.network, left);
    else this.#perNetwork.delete(connection.network);
  }

  #countOf(network: string): number {
    return this.#perNetwork.get(network) ?? 0;
  }
}
