import assert from 'node:assert/strict';
import type { DatabaseSync } from 'node:sqlite';
import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import type {
  Append,
  Appended,
  CardQuery,
  Checkpoint,
  FeedQuery,
  SessionCard,
  SignalLog,
  Snapshot,
  StreamEntry,
  StreamHead,
  StreamsQuery,
  Trim,
} from '../core/signal-log.ts';
import type { MarkFinding } from './high-water-mark.ts';
import { countCardStates, findCard, queryCards, toCardRow } from './signal-log-cards.ts';
import type { AppendJob, SignalRow } from './signal-log-protocol.ts';
import { startWriterQueue, type WriterQueue } from './signal-log-queue.ts';
import { readFeed, readHead, readHeadGseq, readStream, readStreamBefore, readStreams } from './signal-log-reads.ts';
import { SIGNAL_LOG_MIGRATIONS } from './signal-log-schema.ts';
import { readSnapshot } from './signal-snapshots.ts';
import { readCheckpoint, streamsWithMarked } from './signal-trim.ts';
import { openDatabase, storageError } from './sqlite.ts';

export interface SignalLogOptions {
  /** The database file; folder and file are made when absent. */
  readonly path: string;
  /** full (default): fsync per commit. normal: fsync per checkpoint, the last signals may be lost with the power. */
  readonly synchronous?: 'full' | 'normal';
  /** Largest the file may become; beyond it appends fail with `storage_failed` until something is purged; unit: bytes. */
  readonly bytesMax?: number;
  /** The writer thread's program; by default the neighbour of this module, source or bundle. */
  readonly workerUrl?: URL;
}

export interface OpenedSignalLog extends SignalLog {
  /** What the start found when it compared the file with its mark. */
  readonly finding: MarkFinding;
}

/**
 * Open the log in one file. A thread of its own writes it, with one commit for all appends of a tick; reads use a read-only connection of
 * this thread, a page at a time. The caller closes it.
 *
 * @throws AppError `storage_corrupt`, `storage_version`, `workspace_unwritable`, `storage_failed`
 */
export async function openSignalLog({ path, synchronous = 'full', bytesMax, workerUrl }: SignalLogOptions): Promise<OpenedSignalLog> {
  const writerMode = synchronous === 'full' ? 'FULL' : 'NORMAL';
  const queue = await startWriterQueue(workerUrl ?? neighbourUrl(), { path, synchronous: writerMode, bytesMax });
  try {
    return new SqliteSignalLog(
      path,
      queue,
      await queue.ready,
      openDatabase(path, { readOnly: true, synchronous: writerMode, migrations: SIGNAL_LOG_MIGRATIONS }),
    );
  } catch (error) {
    await queue.close();
    throw storageError(error, path);
  }
}

function neighbourUrl(): URL {
  return new URL(import.meta.url.endsWith('.ts') ? './signal-writer.ts' : './signal-writer.js', import.meta.url);
}

class SqliteSignalLog implements OpenedSignalLog {
  readonly finding: MarkFinding;
  readonly #path: string;
  readonly #queue: WriterQueue;
  readonly #db: DatabaseSync;

  constructor(path: string, queue: WriterQueue, finding: MarkFinding, db: DatabaseSync) {
    this.finding = finding;
    this.#path = path;
    this.#queue = queue;
    this.#db = db;
    // What fails here is begun again at the next start.
    for (const stream of streamsWithMarked(db)) this.#deleteMarked(stream).catch(() => undefined);
  }

  async append(append: Append): Promise<Appended> {
    const { stream, epoch, expected, snapshot } = append;
    // Serialised now: what the caller does to its objects later does not reach the log.
    const rows = toRows(append);
    const card = append.card && toCardRow(append.card);
    const chars = rows.reduce((sum, row) => sum + row.body.length, (snapshot?.body.length ?? 0) + (card?.body.length ?? 0));
    const job: AppendJob = { do: 'append', stream, epoch, expected, rows, card, snapshot: snapshot && { ...snapshot } };
    return this.#queue.send<Appended>(job, chars);
  }

  async trim({ checkpoint, ...append }: Trim): Promise<Appended> {
    const rows = toRows(append);
    const chars = rows.reduce((sum, row) => sum + row.body.length, checkpoint.body.length);
    const { stream, epoch, expected } = append;
    const appended = await this.#queue.send<Appended>(
      { do: 'append', stream, epoch, expected, rows, checkpoint: { ...checkpoint } },
      chars,
    );
    await this.#deleteMarked(stream);
    return appended;
  }

  async own(stream: string): Promise<StreamHead> {
    return this.#queue.send<StreamHead>({ do: 'own', stream }, 0);
  }

  async purge(stream: string): Promise<void> {
    await this.#queue.send<null>({ do: 'purge', stream }, 0);
  }

  read(stream: string, afterSeq: number, limit: number): Promise<Signal[]> {
    return this.#guard(() => readStream(this.#reader, stream, afterSeq, limit));
  }

  readBefore(stream: string, beforeSeq: number, limit: number): Promise<Signal[]> {
    return this.#guard(() => readStreamBefore(this.#reader, stream, beforeSeq, limit));
  }

  feed({ after, limit }: FeedQuery): Promise<Signal[]> {
    return this.#guard(() => readFeed(this.#reader, after, limit));
  }

  headGseq(): Promise<number> {
    return this.#guard(() => readHeadGseq(this.#reader()));
  }

  head(stream: string): Promise<StreamHead> {
    return this.#guard(() => readHead(this.#reader(), stream));
  }

  streams(query: StreamsQuery): Promise<StreamEntry[]> {
    return this.#guard(() => readStreams(this.#reader(), query));
  }

  loadSnapshot(stream: string, until = Number.MAX_SAFE_INTEGER): Promise<Snapshot | null> {
    return this.#guard(() => readSnapshot(this.#reader(), stream, until));
  }

  loadCheckpoint(stream: string): Promise<Checkpoint | null> {
    return this.#guard(() => readCheckpoint(this.#reader(), stream));
  }

  cards(query: CardQuery): Promise<SessionCard[]> {
    return this.#guard(() => queryCards(this.#reader, query));
  }

  card(id: string): Promise<SessionCard | null> {
    return this.#guard(() => findCard(this.#reader(), id));
  }

  countCards(): Promise<Record<string, number>> {
    return this.#guard(() => countCardStates(this.#reader()));
  }

  pressure(): number {
    return this.#queue.pressure();
  }

  writeFault(): string | null {
    return this.#queue.fault();
  }

  /** The reader goes first: the last connection to close must be the writer's, which empties the WAL. */
  async close(): Promise<void> {
    if (this.#db.isOpen) this.#db.close();
    await this.#queue.close();
  }

  async #deleteMarked(stream: string): Promise<void> {
    await this.#queue.send<null>({ do: 'delete', stream }, 0);
  }

  readonly #reader = (): DatabaseSync => {
    if (!this.#db.isOpen) throw new AppError('storage_failed', { detail: `${this.#path} is closed` });
    return this.#db;
  };

  async #guard<T>(read: () => T | Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      throw storageError(error, this.#path);
    }
  }
}

function toRows({ stream, expected, signals }: Pick<Append, 'stream' | 'expected' | 'signals'>): SignalRow[] {
  assert(signals.length > 0, 'an append holds at least one signal');
  return signals.map((signal, index) => {
    assert(
      signal.stream === stream && signal.seq === expected + index + 1,
      `${signal.id} does not follow signal ${expected + index} of ${stream}`,
    );
    return { name: signal.name, kind: signal.source.kind, agent: signal.source.agent ?? null, body: JSON.stringify(signal) };
  });
}
