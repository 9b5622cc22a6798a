import type { IncomingMessage } from 'node:http';
import { AppError } from '../core/errors.ts';
import { type SseEvent, SseParser } from '../core/sse-parser.ts';
import { cutError, type FaultContext, stallError } from './errors.ts';

/** Largest streamed answer in bytes; protects the memory against a server that never ends. */
const ANSWER_BYTES_MAX = 67_108_864;

interface AnswerInput {
  readonly message: IncomingMessage;
  readonly head: { readonly status: number; readonly statusText: string; readonly headers: Headers };
  readonly context: FaultContext;
  readonly signal: AbortSignal | undefined;
  /** Called once, when the answer needs its signal no more. */
  readonly unlink: () => void;
}

/** Time that was spent waiting since the last event of use; the time of a slow reader is not in it. Unit: milliseconds. */
interface Silence {
  ms: number;
}

/** The answers behind the responses that SDKs were given. A class that extended Response would load all of undici with this file. */
const answers = new WeakMap<Response, StreamedAnswer>();

/** A success whose body comes in pieces: to an SDK a Response without a body, to the reader its bytes as they arrive. One reader only. */
export class StreamedAnswer {
  readonly #message: IncomingMessage;
  readonly #input: AnswerInput;
  #bytes = 0;
  #ended = false;
  #failure: unknown = null;
  #wake: (() => void) | null = null;

  constructor(input: AnswerInput) {
    this.#input = input;
    this.#message = input.message;
    const wake = () => this.#wake?.();
    this.#message.on('readable', wake);
    this.#message.once('end', () => {
      this.#ended = true;
      input.unlink();
      wake();
    });
    this.#message.on('error', (error) => this.#fail(error));
    this.#message.once('close', () => this.#fail(null));
  }

  /** What an SDK is given in its place; its events are read by an EventReader. */
  toResponse(): Response {
    const response = new Response(null, this.#input.head);
    answers.set(response, this);
    return response;
  }

  /**
   * The bytes that came since the last call, at least one; null at the end of the answer.
   *
   * @param silence  for how long nothing of use has come; the wait for the next byte is added to it
   * @throws AppError `provider_timeout`, `provider_stream_cut`, `provider_malformed`; the signal's reason after an abort
   */
  async read(silence: Silence): Promise<Buffer | null> {
    for (;;) {
      const chunk = this.#message.read() as Buffer | null;
      if (chunk) return this.#count(chunk);
      if (this.#ended) return null;
      if (this.#failure) throw this.#failure;
      await this.#more(silence);
    }
  }

  /** Breaks the connection unless the answer was read to its end. */
  destroy(): void {
    if (!this.#ended) this.#message.destroy();
  }

  #more(silence: Silence): Promise<void> {
    return new Promise((resolve) => {
      const { context } = this.#input;
      const began = performance.now();
      const timer = setTimeout(() => this.#message.destroy(stallError(context)), Math.max(0, context.stallTimeoutMs - silence.ms));
      this.#wake = () => {
        clearTimeout(timer);
        silence.ms += performance.now() - began;
        this.#wake = null;
        resolve();
      };
    });
  }

  #count(chunk: Buffer): Buffer {
    this.#bytes += chunk.length;
    if (this.#bytes <= ANSWER_BYTES_MAX) return chunk;
    this.destroy();
    throw new AppError('provider_malformed', { detail: `${this.#input.context.id}: the answer passed ${ANSWER_BYTES_MAX} bytes` });
  }

  /** The first reason counts. */
  #fail(cause: unknown): void {
    if (this.#ended) return;
    const { context, signal, unlink } = this.#input;
    unlink();
    const cut = cutError(context, 'the connection broke in the middle of the answer');
    const broken = cause instanceof AppError ? cause : new AppError(cut.code, { detail: cut.detail, cause });
    this.#failure ??= signal?.aborted ? signal.reason : broken;
    this.#wake?.();
  }
}

/**
 * The events of a streamed answer. `parse` makes what is handed on of each, undefined for what is none; what it throws is thrown after the
 * events before it. Ends with the answer; `return()` breaks the connection at once.
 */
export class EventReader<T> implements AsyncIterableIterator<T> {
  readonly #answer: StreamedAnswer;
  readonly #parse: (event: SseEvent) => T | undefined;
  readonly #isContent: (value: T) => boolean;
  readonly #parser = new SseParser();
  /** Pings, comments and the pieces of an event that does not end leave it running: a server can send them for ever. */
  readonly #silence: Silence = { ms: 0 };
  #ready: T[] = [];
  #next = 0;
  #fault: { readonly error: unknown } | null = null;

  /** @param isContent  false for an event that shows no more than that the connection lives */
  constructor(response: Response, parse: (event: SseEvent) => T | undefined, isContent: (value: T) => boolean) {
    const answer = answers.get(response);
    if (!answer) throw new TypeError('only an answer of the watched fetch can be read');
    this.#answer = answer;
    this.#parse = parse;
    this.#isContent = isContent;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<T>> {
    while (this.#next === this.#ready.length) {
      if (this.#fault) throw this.#fault.error;
      const chunk = await this.#answer.read(this.#silence);
      if (!chunk) return { done: true, value: undefined };
      this.#take(chunk);
    }
    const value = this.#ready[this.#next]!;
    this.#next += 1;
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<T>> {
    this.#answer.destroy();
    return { done: true, value: undefined };
  }

  #take(chunk: Buffer): void {
    this.#ready = [];
    this.#next = 0;
    try {
      for (const event of this.#parser.push(chunk)) {
        const value = this.#parse(event);
        if (value === undefined) continue;
        this.#ready.push(value);
        if (this.#isContent(value)) this.#silence.ms = 0;
      }
    } catch (error) {
      this.#fault = { error };
      this.#answer.destroy();
    }
  }
}
