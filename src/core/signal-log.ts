import type { SealedSignal, Signal } from '../contract/signal.ts';

/** What listings show of a session without folding its log; a projection written in the same transaction as the signals it comes from. */
export interface SessionCard {
  readonly id: string;
  readonly key: string;
  readonly agent: string;
  readonly state: string;
  /** Something is owed: a turn is open or the session is starting, ending or aborting. */
  readonly open: boolean;
  readonly title: string;
  readonly project: string | null;
  readonly parent: string | null;
  readonly harness: string;
  readonly provider: string | null;
  readonly model: string | null;
  readonly turns: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costUsd: number | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** A cache of the fold at `seq`; may be dropped at any time. `version` names machine and fold; another version is refolded. */
export interface Snapshot {
  readonly seq: number;
  readonly version: string;
  /** JSON text. */
  readonly body: string;
}

/**
 * Stands in the log for all signals up to `seq`, which were dropped: what was folded from them. Unlike a snapshot it is part of the truth,
 * so `format` must be readable for ever.
 */
export interface Checkpoint {
  readonly seq: number;
  readonly format: number;
  /** JSON text. */
  readonly body: string;
}

export interface Append {
  readonly stream: string;
  /** Ownership epoch of the writer; an older one is fenced. */
  readonly epoch: number;
  /** Head of the stream the writer believes in; the first signal has `seq = expected + 1`. */
  readonly expected: number;
  /** Dense, at least one. Frozen from here on: the log keeps what it was given. */
  readonly signals: readonly SealedSignal[];
  readonly card?: SessionCard;
  readonly snapshot?: Snapshot;
}

/** An append that says what was dropped, together with what takes its place. */
export interface Trim extends Pick<Append, 'stream' | 'epoch' | 'expected' | 'signals'> {
  readonly checkpoint: Checkpoint;
}

export interface Appended {
  readonly head: number;
  /** gseq of the first signal of the append; the others follow without a gap. */
  readonly firstGseq: number;
}

export interface StreamHead {
  readonly head: number;
  readonly epoch: number;
}

export interface StreamsQuery {
  /** Names begin with it. */
  readonly prefix: string;
  readonly limit: number;
  /** Rows after the one with this place. */
  readonly before?: number;
}

export interface StreamEntry {
  readonly name: string;
  readonly head: number;
  /** Place in the order of creation. */
  readonly place: number;
}

export interface CardQuery {
  readonly agent?: string;
  readonly state?: string;
  readonly parent?: string;
  readonly project?: string;
  /** Part of id, key, title or project, case-insensitive. */
  readonly search?: string;
  readonly open?: boolean;
  readonly ended?: boolean;
  readonly limit: number;
  /** Newest first; rows after this one. */
  readonly after?: { readonly updatedAt: string; readonly id: string };
}

export interface FeedQuery {
  readonly after: number;
  readonly limit: number;
}

/**
 * The durable log, the truth everything else is folded from.
 * Every method rejects with AppError: `session_fenced` (epoch or expected seq does not fit; `extra` holds head and epoch),
 * `storage_failed` (nothing was written; may be tried again), `storage_corrupt`, `overloaded` (queue full).
 */
export interface SignalLog {
  /** All or nothing; resolves after fsync. */
  append(append: Append): Promise<Appended>;
  /** Stored signals of one stream with `seq > afterSeq`, ascending, at most `limit`. */
  read(stream: string, afterSeq: number, limit: number): Promise<Signal[]>;
  /** Stored signals of one stream with `seq < beforeSeq`, in ascending order, the `limit` newest of them. */
  readBefore(stream: string, beforeSeq: number, limit: number): Promise<Signal[]>;
  /** Stored signals of all streams with `gseq > after`, ascending. */
  feed(query: FeedQuery): Promise<Signal[]>;
  /** Newest log-wide number, 0 when empty. */
  headGseq(): Promise<number>;
  /** `{head: 0, epoch: 0}` for a stream that does not exist. */
  head(stream: string): Promise<StreamHead>;
  /** Streams by name, the newest first. */
  streams(query: StreamsQuery): Promise<StreamEntry[]>;
  /** Claim a stream: raises its epoch by one, fencing every older writer. */
  own(stream: string): Promise<StreamHead>;
  /** The newest one at or before `until`; how many older ones are kept is up to the log. */
  loadSnapshot(stream: string, until?: number): Promise<Snapshot | null>;
  /** Null for a stream that has its signals from the first on. */
  loadCheckpoint(stream: string): Promise<Checkpoint | null>;
  /**
   * Append, and put the checkpoint in the place of all signals up to its seq: one commit. The signals themselves are deleted in steps
   * behind it, at the next start when the process dies; a reader that comes too early still gets some. Resolves when they are gone.
   */
  trim(trim: Trim): Promise<Appended>;
  cards(query: CardQuery): Promise<SessionCard[]>;
  card(id: string): Promise<SessionCard | null>;
  /** Sessions per state. */
  countCards(): Promise<Record<string, number>>;
  /** Forget a stream, its checkpoint, its snapshot and its card. Its numbers are never used again. */
  purge(stream: string): Promise<void>;
  /** Share of the room for waiting writes that is taken, 0 to 1; beyond it appends are refused as `overloaded`. */
  pressure(): number;
  /** Why the last write failed; null since one has succeeded. */
  writeFault(): string | null;
  /** Waits for what was queued, then closes the files. */
  close(): Promise<void>;
}
