import { Worker } from 'node:worker_threads';
import { AppError } from '../core/errors.ts';
import type { MarkFinding } from './high-water-mark.ts';
import type { Job, JobFailed, JobResult, WriterData, WriterReply, WriterRequest } from './signal-log-protocol.ts';

/** Jobs that may wait for the writer, about 0.3 s of work. */
export const QUEUE_JOBS_MAX = 20_000;
/** JSON text that may wait for the writer; unit: UTF-16 code units. A single job is always taken by an empty queue. */
export const QUEUE_CHARS_MAX = 64 * 1024 * 1024;
/** Jobs of one commit. Their callers all go on in one tick, so more would hold up the event loop rather than save fsyncs. */
export const BATCH_JOBS_MAX = 500;
/** JSON text of one commit; a larger job makes a batch of its own; unit: UTF-16 code units. */
export const BATCH_CHARS_MAX = 1024 * 1024;
/** Callers that go on in one turn of the event loop, about 1 ms of their work: the writer commits for the first while the others go on. */
const SETTLED_JOBS_PER_TURN = 32;
/** Opening may include the check of an unclean file and the copy before a migration; unit: milliseconds. */
const START_MS_MAX = 300_000;
/** For what is queued, then for the last checkpoint; unit: milliseconds. */
const CLOSE_MS_MAX = 30_000;
/** What an overloaded caller should wait: the writer empties a full queue in about that time; unit: milliseconds. */
const RETRY_AFTER_MS = 500;

interface Waiting {
  readonly job: Job;
  readonly chars: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The main thread's end of the writer: jobs in, results in the same order out. */
export interface WriterQueue {
  /**
   * Resolves after the commit with what the writer answered (the protocol names the type per job).
   * Rejects with AppError `overloaded`, `session_fenced`, `storage_failed`, `storage_corrupt`.
   */
  send<T>(job: Job, chars: number): Promise<T>;
  /** Share of the limits that is taken, 0 to 1. */
  pressure(): number;
  /** What the start found. */
  readonly ready: Promise<MarkFinding>;
  /** Why the last job failed that the store itself did not take; null since one has succeeded. */
  fault(): string | null;
  /** Waits for what was sent, then ends the thread; further jobs are refused. */
  close(): Promise<void>;
}

/** Start the writer thread and wait until it has the file open. Rejects with what openDatabase throws. */
export async function startWriterQueue(workerUrl: URL, data: WriterData): Promise<WriterQueue> {
  // Flags of the main thread (a test runner's loaders, --watch) have no business in the writer.
  const worker = new Worker(workerUrl, { workerData: data, execArgv: [], name: 'signal-writer' });
  const queue = new Queue(worker, data.path);
  await deadline(queue.ready, START_MS_MAX, `${data.path} was not opened in ${START_MS_MAX} ms`).catch(async (error: unknown) => {
    await worker.terminate();
    throw error;
  });
  return queue;
}

class Queue implements WriterQueue {
  readonly ready: Promise<MarkFinding>;
  readonly #worker: Worker;
  readonly #path: string;
  readonly #exited: Promise<void>;
  #waiting: Waiting[] = [];
  #flying: Waiting[] = [];
  /** Answered, their callers not told yet. */
  #answered: { readonly entry: Waiting; readonly result: JobResult }[] = [];
  #chars = 0;
  #scheduled = false;
  /** Set once nothing can be written any more. */
  #refusal: AppError | undefined;
  #fault: string | null = null;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(worker: Worker, path: string) {
    this.#worker = worker;
    this.#path = path;
    const opened = Promise.withResolvers<MarkFinding>();
    const exited = Promise.withResolvers<void>();
    this.ready = opened.promise;
    this.#exited = exited.promise;
    worker.on('message', (reply: WriterReply) => {
      if (reply === 'closed') this.#refuse('the signal log is closed');
      else if ('ready' in reply) opened.resolve(reply.ready);
      else if ('refused' in reply) opened.reject(toError(reply.refused));
      else this.#settle(reply.results);
    });
    worker.on('error', (error) => this.#refuse('the writer of the signal log crashed; restart the daemon', error));
    worker.on('exit', () => {
      this.#refuse('the writer of the signal log ended; restart the daemon');
      opened.reject(this.#refusal);
      exited.resolve();
    });
  }

  send<T>(job: Job, chars: number): Promise<T> {
    if (this.#closing) return Promise.reject(new AppError('storage_failed', { detail: `${this.#path} is closed` }));
    if (this.#refusal) return Promise.reject(this.#refusal);
    const jobs = this.#waiting.length + this.#flying.length;
    if (jobs >= QUEUE_JOBS_MAX || (jobs > 0 && this.#chars + chars > QUEUE_CHARS_MAX)) {
      const detail = `${jobs} writes with ${this.#chars} characters wait for ${this.#path}; slow down and try again`;
      return Promise.reject(new AppError('overloaded', { detail, retryAfterMs: RETRY_AFTER_MS }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#push({ job, chars, resolve, reject });
    return promise as Promise<T>;
  }

  pressure(): number {
    const jobs = this.#waiting.length + this.#flying.length;
    return Math.min(1, Math.max(jobs / QUEUE_JOBS_MAX, this.#chars / QUEUE_CHARS_MAX));
  }

  fault(): string | null {
    return this.#refusal?.detail ?? this.#fault;
  }

  close(): Promise<void> {
    this.#closing ??= this.#drain();
    return this.#closing;
  }

  async #drain(): Promise<void> {
    try {
      await deadline(this.#emptied(), CLOSE_MS_MAX, `${this.#path} still had writes waiting after ${CLOSE_MS_MAX} ms`);
      if (!this.#refusal) this.#post('close');
      await deadline(this.#exited, CLOSE_MS_MAX, `${this.#path} was not closed in ${CLOSE_MS_MAX} ms`);
    } finally {
      await this.#worker.terminate();
    }
  }

  #emptied(): Promise<void> {
    if (this.#isEmpty) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }

  #push(entry: Waiting): void {
    this.#waiting.push(entry);
    this.#chars += entry.chars;
    this.#schedule();
  }

  /** At the end of the tick, so that everything a tick appends shares one message and one commit. */
  #schedule(): void {
    if (this.#scheduled || this.#flying.length > 0 || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (!this.#refusal) this.#sendBatch();
    });
  }

  #sendBatch(): void {
    let count = 0;
    let chars = 0;
    for (const entry of this.#waiting) {
      if (count === BATCH_JOBS_MAX || (count > 0 && chars + entry.chars > BATCH_CHARS_MAX)) break;
      count += 1;
      chars += entry.chars;
    }
    this.#flying = this.#waiting.splice(0, count);
    this.#post({ batch: this.#flying.map((entry) => entry.job) });
  }

  #post(request: WriterRequest): void {
    this.#worker.postMessage(request);
  }

  #settle(results: readonly JobResult[]): void {
    const flown = this.#flying;
    this.#flying = [];
    const isTelling = this.#answered.length > 0;
    for (const [index, entry] of flown.entries()) this.#answered.push({ entry, result: results[index]! });
    if (!isTelling) this.#tell();
  }

  /** In the order of the jobs, a part in each turn: hundreds of callers at once would hold up everything else. */
  #tell(): void {
    for (const { entry, result } of this.#answered.splice(0, SETTLED_JOBS_PER_TURN)) {
      this.#chars -= entry.chars;
      if ('code' in result) {
        if (result.code === 'storage_failed' || result.code === 'storage_corrupt') this.#fault = result.detail;
        entry.reject(toError(result));
        continue;
      }
      this.#fault = null;
      if (result.again) this.#push({ ...entry, job: result.again });
      else entry.resolve(result.ok);
    }
    this.#schedule();
    if (this.#answered.length > 0) setImmediate(() => this.#tell());
    else if (this.#isEmpty) this.#onEmpty?.();
  }

  get #isEmpty(): boolean {
    return this.#answered.length === 0 && (this.#refusal !== undefined || this.#waiting.length + this.#flying.length === 0);
  }

  /** The first reason counts; later ones only follow from it. */
  #refuse(reason: string, cause?: unknown): void {
    const because = cause instanceof Error ? ` (${cause.message})` : '';
    this.#refusal ??= new AppError('storage_failed', { detail: `${this.#path}: ${reason}${because}`, cause });
    const lost = [...this.#flying, ...this.#waiting];
    this.#flying = [];
    this.#waiting = [];
    this.#chars = this.#answered.reduce((sum, { entry }) => sum + entry.chars, 0);
    for (const entry of lost) entry.reject(this.#refusal);
    if (this.#isEmpty) this.#onEmpty?.();
  }
}

function toError({ code, detail, extra }: JobFailed): Error {
  return code === null ? new Error(`signal writer: ${detail}`) : new AppError(code, { detail, extra });
}

/** Rejects with `storage_failed` when the promise takes longer; the timer does not keep the process alive. */
async function deadline<T>(promise: Promise<T>, ms: number, detail: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new AppError('storage_failed', { detail })), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
