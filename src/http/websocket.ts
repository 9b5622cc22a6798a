import type { Socket } from 'node:net';
import type { WebSocket } from '@fastify/websocket';
import type { Logger } from '../core/logger.ts';
import type { StreamLimits } from './sse.ts';
import type { UnreadAnswers, UnreadHolder } from './unread-answers.ts';

/** Largest message a client may send, unless the operation says otherwise (`bodyBytesMax`); unit: bytes. */
export const SOCKET_MESSAGE_BYTES_MAX = 64 * 1_024;
/** From here on `send` says false; unit: bytes. */
export const SOCKET_HIGH_WATER_BYTES = 256 * 1_024;
/** unit: milliseconds. */
export const SOCKET_PING_INTERVAL_MS = 15_000;
/** Pings in a row without any sign of life before the connection is dropped. */
export const SOCKET_PINGS_MISSED_MAX = 4;
/** Messages whose handler has not finished; one more closes the socket with 4429. */
export const SOCKET_IN_FLIGHT_MAX = 64;
/** How long the other end has to answer a close; unit: milliseconds. */
export const SOCKET_CLOSE_GRACE_MS = 2_000;

export const CLOSE_CODE = {
  badFrame: 4400,
  unauthorized: 4401,
  forbidden: 4403,
  stalled: 4408,
  tooMany: 4429,
  goingAway: 1001,
  bug: 1011,
} as const;

/** One WebSocket connection; belongs to the server. Text messages only. */
export interface SocketWriter {
  /**
   * Send one text message; a Buffer holds UTF-8 and is shared, not copied. Never throws.
   *
   * @returns false when the reader is slow or gone: stop, await `drained()`, look at `closed`
   */
  send(text: string | Buffer): boolean;
  /** Resolves when less than the high water mark is waiting, or the socket is closed. Never rejects. */
  drained(): Promise<void>;
  readonly closed: AbortSignal;
  /** One listener; its promise counts as a command in flight. What it throws is a bug: logged, and the socket closed with 1011. */
  onMessage(listener: (text: string) => void | Promise<void>): void;
  close(code: number, reason: string): void;
}

export interface SocketLimits extends StreamLimits {
  readonly pingIntervalMs: number;
}

export interface SocketOptions {
  readonly limits: SocketLimits;
  readonly log: Logger;
  readonly unread: UnreadAnswers;
  /** Below the WebSocket. */
  readonly connection: Socket;
}

export class ServerSocket implements SocketWriter {
  readonly #ws: WebSocket;
  readonly #limits: SocketLimits;
  readonly #log: Logger;
  readonly #unread: UnreadAnswers;
  readonly #holder: UnreadHolder;
  readonly #controller = new AbortController();
  #early: string[] | undefined = [];
  #listener: ((text: string) => void | Promise<void>) | undefined;
  #inFlight = 0;
  #pingsMissed = 0;
  #waiting: PromiseWithResolvers<void> | undefined;
  #stallTimer: NodeJS.Timeout | undefined;
  readonly #pingTimer: NodeJS.Timeout;

  constructor(ws: WebSocket, { limits, log, unread, connection }: SocketOptions) {
    this.#ws = ws;
    this.#limits = limits;
    this.#log = log;
    this.#unread = unread;
    this.#holder = {
      bytes: () => ws.bufferedAmount,
      socket: connection,
      drop: () => this.close(CLOSE_CODE.stalled, 'more is sent than readers take'),
    };
    ws.on('message', (data, isBinary) => this.#receive(String(data), isBinary));
    ws.on('pong', () => {
      this.#pingsMissed = 0;
    });
    ws.on('error', () => this.#end());
    ws.on('close', () => this.#end());
    this.#pingTimer = setInterval(() => this.#ping(), limits.pingIntervalMs);
    this.#pingTimer.unref();
  }

  get closed(): AbortSignal {
    return this.#controller.signal;
  }

  send(text: string | Buffer): boolean {
    if (this.closed.aborted) return false;
    if (this.#ws.bufferedAmount > this.#limits.readerBytesMax + SOCKET_HIGH_WATER_BYTES) {
      this.close(CLOSE_CODE.stalled, 'more was sent than the reader takes');
      return false;
    }
    this.#ws.send(text, { binary: false }, () => this.#sent());
    if (this.#ws.bufferedAmount <= SOCKET_HIGH_WATER_BYTES) return true;
    this.#unread.hold(this.#holder);
    this.#watchStall(this.#ws.bufferedAmount);
    return false;
  }

  drained(): Promise<void> {
    if (this.closed.aborted || this.#ws.bufferedAmount <= SOCKET_HIGH_WATER_BYTES) return Promise.resolve();
    this.#waiting ??= Promise.withResolvers<void>();
    return this.#waiting.promise;
  }

  onMessage(listener: (text: string) => void | Promise<void>): void {
    this.#listener = listener;
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const text of early) void this.#handle(text, listener);
  }

  close(code: number, reason: string): void {
    if (this.closed.aborted) return;
    this.#ws.close(code, reason);
    this.#end();
    // A peer that reads nothing never sees the close frame.
    const timer = setTimeout(() => this.#ws.terminate(), SOCKET_CLOSE_GRACE_MS);
    this.#ws.once('close', () => clearTimeout(timer));
  }

  #receive(text: string, isBinary: boolean): void {
    if (this.closed.aborted) return;
    this.#pingsMissed = 0;
    if (isBinary) this.close(CLOSE_CODE.badFrame, 'messages are text');
    else if (this.#inFlight + (this.#early?.length ?? 0) >= SOCKET_IN_FLIGHT_MAX)
      this.close(CLOSE_CODE.tooMany, `more than ${SOCKET_IN_FLIGHT_MAX} commands in flight`);
    else if (this.#listener) void this.#handle(text, this.#listener);
    else this.#early?.push(text);
  }

  async #handle(text: string, listener: (text: string) => void | Promise<void>): Promise<void> {
    this.#inFlight += 1;
    try {
      await listener(text);
    } catch (error) {
      this.#log.error({ err: error }, 'a WebSocket command failed by a fault of this server');
      this.close(CLOSE_CODE.bug, 'internal error');
    } finally {
      this.#inFlight -= 1;
    }
  }

  #ping(): void {
    if (this.#pingsMissed >= SOCKET_PINGS_MISSED_MAX) {
      this.#ws.terminate();
      return;
    }
    this.#pingsMissed += 1;
    if (this.#ws.readyState === this.#ws.OPEN) this.#ws.ping();
  }

  #sent(): void {
    if (this.#ws.bufferedAmount <= SOCKET_HIGH_WATER_BYTES) this.#settle();
  }

  #watchStall(waitingBytes: number): void {
    if (this.#stallTimer) return;
    this.#stallTimer = setTimeout(() => {
      this.#stallTimer = undefined;
      if (this.#ws.bufferedAmount < waitingBytes) this.#watchStall(this.#ws.bufferedAmount);
      else this.close(CLOSE_CODE.stalled, 'nothing was taken for too long');
    }, this.#limits.stallTimeoutMs);
  }

  #end(): void {
    clearInterval(this.#pingTimer);
    if (!this.closed.aborted) this.#controller.abort('closed');
    this.#settle();
  }

  #settle(): void {
    clearTimeout(this.#stallTimer);
    this.#stallTimer = undefined;
    this.#unread.release(this.#holder);
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}
