import type { DatabaseSync } from 'node:sqlite';
import { Worker } from 'node:worker_threads';

/** Rows changed between two checkpoints, those of the full-text index included; about 1,200 pages of the write-ahead log. */
const CHANGES_MAX = 3_000;
/** A write-ahead log of so many pages is begun anew, for which no write may come while the last of it is moved; unit: pages of 4 KiB. */
const WAL_PAGES_MAX = 4_000;
/** Where the thread is not enough, or writes pass it by: then a commit moves the log itself. */
const WAL_PAGES_BY_COMMIT = 8_000;

export type CheckpointRequest = 'checkpoint' | 'close';

export interface CheckpointData {
  readonly path: string;
}

export interface CheckpointReply {
  /** Pages of the write-ahead log, those of earlier checkpoints included. */
  readonly pages: number;
}

/**
 * Moves the write-ahead log of memory.db into the file by a thread of its own: the syncs of it take tens of milliseconds, in which nobody would be
 * answered. The thread begins with the first checkpoint. SQLite sees to it that nothing is lost, whoever moves what, and when.
 */
export class BackgroundCheckpoint {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #resume: () => void;
  #worker: Worker | undefined;
  #isRunning = false;
  #isHolding = false;
  #isOver = false;
  #changesBefore = 0;

  /** @param resume  called when commits that were held may go on */
  constructor(db: DatabaseSync, path: string, resume: () => void) {
    this.#db = db;
    this.#path = path;
    this.#resume = resume;
    this.#commitsFrom(WAL_PAGES_BY_COMMIT);
  }

  /** Commits wait: the write-ahead log is about to be empty. */
  get isHolding(): boolean {
    return this.#isHolding;
  }

  /** @param changes  rows changed since the connection was opened */
  committed(changes: number): void {
    if (this.#isRunning || this.#isOver || changes - this.#changesBefore < CHANGES_MAX) return;
    this.#changesBefore = changes;
    this.#ask();
  }

  close(): void {
    this.#isOver = true;
    this.#worker?.postMessage('close' satisfies CheckpointRequest);
  }

  #ask(): void {
    this.#isRunning = true;
    this.#worker ??= this.#start();
    this.#worker.postMessage('checkpoint' satisfies CheckpointRequest);
  }

  #start(): Worker {
    const name = import.meta.url.endsWith('.ts') ? './memory-checkpoint-worker.ts' : './memory-checkpoint-worker.js';
    const workerData: CheckpointData = { path: this.#path };
    const worker = new Worker(new URL(name, import.meta.url), { workerData, execArgv: [], name: 'memory-checkpoint' });
    worker.on('message', (reply: CheckpointReply) => this.#moved(reply));
    worker.on('error', () => this.#giveUp());
    worker.on('exit', () => this.#giveUp());
    worker.unref();
    return worker;
  }

  /** What came while a long log was moved is moved as well, with no commit beside it: only then does SQLite begin the log anew. */
  #moved({ pages }: CheckpointReply): void {
    if (pages >= WAL_PAGES_MAX && !this.#isHolding && !this.#isOver) {
      this.#isHolding = true;
      // Who waits for a held commit may have nothing else that keeps the process.
      this.#worker?.ref();
      this.#ask();
      return;
    }
    this.#settle();
  }

  /** Without the thread commits move the log, as SQLite does by itself. */
  #giveUp(): void {
    if (!this.#isOver) this.#commitsFrom(WAL_PAGES_MAX);
    this.#isOver = true;
    this.#settle();
  }

  #settle(): void {
    this.#isRunning = false;
    if (!this.#isHolding) return;
    this.#isHolding = false;
    this.#worker?.unref();
    this.#resume();
  }

  #commitsFrom(pages: number): void {
    if (this.#db.isOpen) this.#db.exec(`PRAGMA wal_autocheckpoint = ${pages}`);
  }
}
