import type { ErrorCode } from '../contract/errors.ts';
import type { Appended, Checkpoint, Snapshot, StreamHead } from '../core/signal-log.ts';
import type { MarkFinding } from './high-water-mark.ts';

/** What the writer thread is started with. */
export interface WriterData {
  readonly path: string;
  readonly synchronous: 'FULL' | 'NORMAL';
  /** Largest the file may become; unit: bytes. */
  readonly bytesMax?: number;
}

/** One stored row; `body` is the JSON text of the signal, made by the caller's thread at the moment of the append. */
export interface SignalRow {
  readonly name: string;
  readonly kind: string;
  readonly agent: string | null;
  readonly body: string;
}

/** A card's columns and its JSON text, made by the caller's thread too. */
export interface CardRow {
  readonly id: string;
  readonly agent: string;
  readonly state: string;
  readonly open: 0 | 1;
  readonly parent: string | null;
  readonly updatedAt: string;
  readonly search: string;
  readonly body: string;
}

export interface AppendJob {
  readonly do: 'append';
  readonly stream: string;
  readonly epoch: number;
  readonly expected: number;
  readonly rows: readonly SignalRow[];
  readonly card?: CardRow;
  readonly snapshot?: Snapshot;
  /** Takes the place of all signals up to its seq, which are marked for deletion. */
  readonly checkpoint?: Checkpoint;
}

export interface OwnJob {
  readonly do: 'own';
  readonly stream: string;
}

export interface PurgeJob {
  readonly do: 'purge';
  readonly stream: string;
}

/** One step of deleting the signals of a stream that are marked. */
export interface DeleteJob {
  readonly do: 'delete';
  readonly stream: string;
}

export type Job = AppendJob | OwnJob | PurgeJob | DeleteJob;

export interface JobDone {
  readonly ok: Appended | StreamHead | null;
  /** What is left of the job, to be sent once more behind what waits now. */
  readonly again?: Job;
}

/** `code` is null for a bug; the detail is its stack then. */
export interface JobFailed {
  readonly code: ErrorCode | null;
  readonly detail: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

export type JobResult = JobDone | JobFailed;

/** Main thread to writer. */
export type WriterRequest = { readonly batch: readonly Job[] } | 'close';
/** Writer to main thread: `ready` once, with what the mark said, results in the order of the jobs, `closed` last. */
export type WriterReply =
  | { readonly ready: MarkFinding }
  | 'closed'
  | { readonly refused: JobFailed }
  | { readonly results: readonly JobResult[] };
