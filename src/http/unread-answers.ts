import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { AppError } from '../core/errors.ts';

/** Bytes of answers, streams and WebSockets that their readers have not taken, over all servers of the process; unit: bytes. */
export const UNREAD_BYTES_MAX = 256 * 1_048_576;
/** A reader that takes nothing of an answer for this long loses its connection; unit: milliseconds. */
export const ANSWER_STALL_TIMEOUT_MS = 30_000;
/** Smaller answers fit the buffers of the system and are not counted; unit: bytes. */
export const COUNTED_ANSWER_BYTES_MIN = 16_384;
/** How often unread answers are looked at, while there are some; unit: milliseconds. */
const LOOK_MS = 1_000;
/** A reader that took something within this is not dropped to make room; unit: milliseconds. */
const RECENT_MS = 2_000;
/** What a caller should wait whose answer does not fit; unit: milliseconds. */
const RETRY_AFTER_MS = 5_000;

/** One reader that has not taken all it was sent. */
export interface UnreadHolder {
  /** Held in memory for it; unit: bytes. */
  bytes(): number;
  /** Its connection, for the part of a write that the system has taken. */
  readonly socket: Socket | null;
  /** Ends its connection. */
  drop(): void;
}

interface Held {
  readonly holder: UnreadHolder;
  /** Undefined for streams, which have a limit of their own. */
  readonly stallTimeoutMs: number | undefined;
  progress: string;
  /** Time this process lived through since something was taken. */
  quietMs: number;
}

export interface UnreadLimits {
  readonly bytesMax: number;
  readonly stallTimeoutMs: number;
  readonly recentMs: number;
  readonly lookMs: number;
}

/**
 * One budget for everything that was sent and not read. A reader that has taken nothing for a while gives up its place first; when all of them
 * read and it is still too much, the new answer is refused.
 */
export class UnreadAnswers {
  readonly #limits: UnreadLimits;
  readonly #held = new Map<UnreadHolder, Held>();
  #timer: NodeJS.Timeout | undefined;
  #lookedAt = 0;

  constructor(limits: Partial<UnreadLimits> = {}) {
    this.#limits = { bytesMax: UNREAD_BYTES_MAX, stallTimeoutMs: ANSWER_STALL_TIMEOUT_MS, recentMs: RECENT_MS, lookMs: LOOK_MS, ...limits };
  }

  /** Unread now; unit: bytes. */
  get bytes(): number {
    let sum = 0;
    for (const { bytes } of this.#held.keys()) sum += bytes();
    return sum;
  }

  /**
   * Count an answer that is about to be sent, until it is read or its connection is gone.
   *
   * @throws AppError `overloaded` when it does not fit the budget
   */
  holdAnswer(response: ServerResponse, bytes: number): void {
    if (bytes >= COUNTED_ANSWER_BYTES_MIN && this.#held.size > 0) this.#makeRoom(bytes);
    this.keepAnswer(response, bytes);
  }

  /** The same for an answer that was sent already. */
  keepAnswer(response: ServerResponse, bytes: number): void {
    if (bytes < COUNTED_ANSWER_BYTES_MIN || response.destroyed) return;
    const { socket } = response;
    const holder: UnreadHolder = {
      bytes: () => (response.writableFinished ? 0 : bytes),
      socket,
      drop: () => socket?.destroy(),
    };
    this.hold(holder, this.#limits.stallTimeoutMs);
    response.once('close', () => this.release(holder));
  }

  /** Count a reader until `release`. Without a limit it may stall as long as its own clock allows. */
  hold(holder: UnreadHolder, stallTimeoutMs?: number): void {
    if (this.#held.has(holder)) return;
    this.#held.set(holder, { holder, stallTimeoutMs, progress: progressOf(holder), quietMs: 0 });
    if (this.#timer) return;
    this.#lookedAt = performance.now();
    this.#timer = setInterval(() => this.#look(), this.#limits.lookMs).unref();
  }

  release(holder: UnreadHolder): void {
    this.#held.delete(holder);
    if (this.#held.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #makeRoom(bytes: number): void {
    if (this.bytes + bytes <= this.#limits.bytesMax) return;
    this.#observe();
    if (this.#shed(bytes)) return;
    const detail = `answers of ${Math.round(this.bytes / 1_048_576)} MiB were sent and are not read yet; read them, then ask again`;
    throw new AppError('overloaded', { detail, retryAfterMs: RETRY_AFTER_MS });
  }

  /** Drops readers that take nothing, the longest quiet first, until `bytes` more fit. False when they do not. */
  #shed(bytes: number): boolean {
    let sum = this.bytes + bytes;
    const byQuiet = [...this.#held.values()]
      .filter(({ quietMs }) => quietMs >= this.#limits.recentMs)
      .sort((a, b) => b.quietMs - a.quietMs);
    for (const { holder } of byQuiet) {
      if (sum <= this.#limits.bytesMax) return true;
      sum -= holder.bytes();
      this.#drop(holder);
    }
    return sum <= this.#limits.bytesMax;
  }

  #look(): void {
    this.#observe();
    for (const { holder, quietMs, stallTimeoutMs } of [...this.#held.values()]) {
      if (stallTimeoutMs !== undefined && quietMs >= stallTimeoutMs) this.#drop(holder);
    }
    this.#shed(0);
  }

  /** A process that was suspended or blocked has not waited for its readers: no look counts for more than two. */
  #observe(): void {
    const now = performance.now();
    const passedMs = Math.min(now - this.#lookedAt, 2 * this.#limits.lookMs);
    this.#lookedAt = now;
    for (const held of this.#held.values()) {
      const progress = progressOf(held.holder);
      held.quietMs = progress === held.progress ? held.quietMs + passedMs : 0;
      held.progress = progress;
    }
  }

  #drop(holder: UnreadHolder): void {
    this.release(holder);
    holder.drop();
  }
}

/** Another text whenever the reader has taken something: a write of many bytes is one to the stream, and shrinks only below it. */
function progressOf({ bytes, socket }: UnreadHolder): string {
  const below = (socket as { _handle?: { writeQueueSize?: number } | null } | null)?._handle?.writeQueueSize ?? 0;
  return `${bytes()}:${socket?.writableLength ?? 0}:${below}`;
}
