import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { UnreadAnswers, UnreadHolder } from './unread-answers.ts';

/** A reader that takes nothing for this long is closed; it may resume by its last id; unit: milliseconds. */
export const STALL_TIMEOUT_MS = 60_000;
/** Most bytes held for one reader. A producer that goes on although `frame` said false loses the reader here; unit: bytes. */
export const READER_BYTES_MAX = 1_048_576;
/** What browsers wait before they reconnect; unit: milliseconds. */
export const SSE_RETRY_MS = 1_000;

export interface StreamLimits {
  readonly stallTimeoutMs: number;
  readonly readerBytesMax: number;
}

export const STREAM_LIMITS: StreamLimits = { stallTimeoutMs: STALL_TIMEOUT_MS, readerBytesMax: READER_BYTES_MAX };

export type CloseReason = 'gone' | 'stalled' | 'overrun' | 'ended' | 'closing';

/** One reader of server-sent events. Belongs to the server; ends when its handler returns. */
export interface SseWriter {
  /** Sends status, headers and `retry` now; the first frame does so too. Until then a thrown AppError is answered as a problem. */
  open(): void;
  /**
   * Send one or more complete frames, as `encodeFrame` makes them; a Buffer is shared, not copied. Never throws.
   *
   * @returns false when the reader is slow or gone: stop, await `drained()`, look at `closed`
   */
  frame(frame: string | Buffer): boolean;
  /** Resolves when the reader has taken everything, or is closed (at the latest after the stall limit). Never rejects. */
  drained(): Promise<void>;
  /** Aborts, with a CloseReason as its reason, when nothing can be sent any more. */
  readonly closed: AbortSignal;
  /** The last frame `end {reason}`, then the end of the stream. */
  end(reason?: string): void;
}

export interface Frame {
  /** Left out in control frames, so that they never move the client's cursor. */
  readonly id?: string | number;
  readonly event: string;
  /** A string is sent as it is, anything else as JSON. */
  readonly data: unknown;
}

/** The bytes of one frame; encode once for all readers of the same signal. `id` and `event` must hold no line break. */
export function encodeFrame(frame: Frame): Buffer {
  const text = typeof frame.data === 'string' ? frame.data : JSON.stringify(frame.data);
  const lines = /[\r\n]/.test(text) ? text.split(/\r\n|\r|\n/).join('\ndata: ') : text;
  const id = frame.id === undefined ? '' : `id: ${frame.id}\n`;
  return Buffer.from(`${id}event: ${frame.event}\ndata: ${lines}\n\n`);
}

/** @param headers  asked for when the stream opens, so that those a handler adds before are in */
export function createSseWriter(
  raw: ServerResponse,
  headers: () => OutgoingHttpHeaders,
  limits: StreamLimits = STREAM_LIMITS,
  unread?: UnreadAnswers,
): ServerSse {
  return new ServerSse(raw, headers, limits, unread);
}

export class ServerSse implements SseWriter {
  readonly #raw: ServerResponse;
  readonly #headers: () => OutgoingHttpHeaders;
  readonly #limits: StreamLimits;
  readonly #unread: UnreadAnswers | undefined;
  readonly #holder: UnreadHolder;
  readonly #controller = new AbortController();
  #opened = false;
  #waiting: PromiseWithResolvers<void> | undefined;
  #stallTimer: NodeJS.Timeout | undefined;

  constructor(raw: ServerResponse, headers: () => OutgoingHttpHeaders, limits: StreamLimits, unread: UnreadAnswers | undefined) {
    this.#raw = raw;
    this.#unread = unread;
    this.#holder = { bytes: () => raw.writableLength, socket: raw.socket, drop: () => this.#drop('overrun') };
    this.#headers = headers;
    this.#limits = limits;
    raw.on('drain', () => this.#settle());
    raw.on('error', () => this.#close('gone'));
    raw.on('close', () => this.#close('gone'));
    if (raw.destroyed) this.#close('gone');
  }

  get closed(): AbortSignal {
    return this.#controller.signal;
  }

  get opened(): boolean {
    return this.#opened;
  }

  open(): void {
    if (this.#opened || this.closed.aborted) return;
    this.#opened = true;
    this.#raw.writeHead(200, {
      ...this.#headers(),
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    this.#raw.write(`retry: ${SSE_RETRY_MS}\n\n`);
  }

  frame(frame: string | Buffer): boolean {
    if (this.closed.aborted) return false;
    this.open();
    if (this.#raw.writableLength > this.#limits.readerBytesMax) {
      this.#drop('overrun');
      return false;
    }
    if (this.#raw.write(frame)) return true;
    this.#unread?.hold(this.#holder);
    this.#watchStall(this.#raw.writableLength);
    return false;
  }

  drained(): Promise<void> {
    if (this.closed.aborted || !this.#raw.writableNeedDrain) return Promise.resolve();
    this.#waiting ??= Promise.withResolvers<void>();
    return this.#waiting.promise;
  }

  end(reason = 'ended'): void {
    if (this.closed.aborted) return;
    this.frame(encodeFrame({ event: 'end', data: { reason } }));
    this.#raw.end();
    this.#close(reason === 'closing' ? 'closing' : 'ended');
    // The last bytes of a reader that takes nothing would wait for ever.
    const timer = setTimeout(() => this.#raw.destroy(), this.#limits.stallTimeoutMs);
    this.#raw.once('close', () => clearTimeout(timer));
  }

  /** Fewer bytes waiting than at the last look is progress, however slow. */
  #watchStall(waitingBytes: number): void {
    if (this.#stallTimer) return;
    this.#stallTimer = setTimeout(() => {
      this.#stallTimer = undefined;
      if (this.#raw.writableLength < waitingBytes) this.#watchStall(this.#raw.writableLength);
      else this.#drop('stalled');
    }, this.#limits.stallTimeoutMs);
  }

  #drop(reason: CloseReason): void {
    this.#close(reason);
    this.#raw.destroy();
  }

  #close(reason: CloseReason): void {
    if (!this.closed.aborted) this.#controller.abort(reason);
    this.#settle();
  }

  #settle(): void {
    clearTimeout(this.#stallTimer);
    this.#stallTimer = undefined;
    this.#unread?.release(this.#holder);
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }
}
