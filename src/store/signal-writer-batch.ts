import type { DatabaseSync } from 'node:sqlite';
import { AppError } from '../core/errors.ts';
import type { Appended, StreamHead } from '../core/signal-log.ts';
import type { AppendJob, CardRow, Job, JobFailed, JobResult } from './signal-log-protocol.ts';
import { saveSnapshot } from './signal-snapshots.ts';
import { deleteMarked, forgetProjections, putCheckpoint } from './signal-trim.ts';
import { cachedStatement, storageError, transaction } from './sqlite.ts';

/** Streams whose head is kept in memory, so that a check costs no read; the whole cache is dropped beyond it. */
const STREAMS_CACHED_MAX = 50_000;

const SAVE_CARD = `
  INSERT INTO cards (id, stream, agent, state, open, parent, updated_at, search, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET stream = excluded.stream, agent = excluded.agent, state = excluded.state, open = excluded.open,
    parent = excluded.parent, updated_at = excluded.updated_at, search = excluded.search, body = excluded.body`;

interface StreamState {
  readonly id: number;
  head: number;
  epoch: number;
}

/** Writes that are the same for all jobs of a batch, made once before the commit. */
interface Pending {
  readonly heads: Set<StreamState>;
  readonly cards: Map<string, { readonly card: CardRow; readonly stream: number }>;
}

/** Applies jobs to the log; `db` is the one connection that writes it. */
export class BatchWriter {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #streams = new Map<string, StreamState>();
  #gseq: number;

  constructor(db: DatabaseSync, path: string) {
    this.#db = db;
    this.#path = path;
    this.#gseq = Number(db.prepare('SELECT gseq FROM log_head').get()?.gseq);
  }

  /** The newest number given, committed. */
  get head(): number {
    return this.#gseq;
  }

  /** One commit for all jobs. Each has its own result; a fenced one does not touch its neighbours. Never throws. */
  run(jobs: readonly Job[]): JobResult[] {
    // Only between batches: within one, a stream must have exactly one state object.
    if (this.#streams.size > STREAMS_CACHED_MAX) this.#streams.clear();
    try {
      return this.#attempt(jobs);
    } catch (error) {
      const failure = failureOf(error, this.#path);
      // A full disk or a broken file is everybody's; any other fault belongs to one job, so each gets a transaction of its own.
      if (failure.code !== null || jobs.length === 1) return jobs.map(() => failure);
      return jobs.flatMap((job) => this.run([job]));
    }
  }

  #attempt(jobs: readonly Job[]): JobResult[] {
    const before = this.#gseq;
    try {
      return transaction(this.#db, () => {
        const pending: Pending = { heads: new Set(), cards: new Map() };
        const results = jobs.map((job) => this.#runJob(job, pending));
        this.#flush(pending, before);
        return results;
      });
    } catch (error) {
      this.#gseq = before;
      this.#streams.clear(); // What was counted in memory did not happen.
      throw error;
    }
  }

  #runJob(job: Job, pending: Pending): JobResult {
    if (job.do === 'own') return { ok: this.#own(job.stream, pending) };
    if (job.do === 'purge') return this.#purge(job.stream, pending);
    if (job.do === 'delete') return this.#delete(job.stream);
    const stream = this.#findStream(job.stream);
    const { head, epoch } = stream ?? { head: 0, epoch: 0 };
    if (job.epoch !== epoch || job.expected !== head) return fenced(job, { head, epoch });
    return { ok: this.#append(stream ?? this.#addStream(job.stream), job, pending) };
  }

  #append(stream: StreamState, job: AppendJob, pending: Pending): Appended {
    const insert = cachedStatement(
      this.#db,
      'INSERT INTO signals (gseq, stream, seq, name, kind, agent, body) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    const firstGseq = this.#gseq + 1;
    for (const row of job.rows) {
      this.#gseq += 1;
      stream.head += 1;
      insert.run(this.#gseq, stream.id, stream.head, row.name, row.kind, row.agent, row.body);
    }
    pending.heads.add(stream);
    if (job.card) pending.cards.set(job.card.id, { card: job.card, stream: stream.id });
    if (job.snapshot) saveSnapshot(this.#db, stream.id, job.snapshot);
    if (job.checkpoint) putCheckpoint(this.#db, stream.id, job.checkpoint);
    return { head: stream.head, firstGseq };
  }

  #own(name: string, pending: Pending): StreamHead {
    const stream = this.#findStream(name) ?? this.#addStream(name);
    stream.epoch += 1;
    pending.heads.add(stream);
    return { head: stream.head, epoch: stream.epoch };
  }

  /** Fence whoever wrote the stream, drop what was made of its signals, and begin to delete them. */
  #purge(name: string, pending: Pending): JobResult {
    const stream = this.#findStream(name);
    if (!stream) return { ok: null };
    this.#own(name, pending);
    for (const [id, entry] of pending.cards) if (entry.stream === stream.id) pending.cards.delete(id);
    forgetProjections(this.#db, stream.id, stream.head);
    return this.#delete(name);
  }

  #delete(name: string): JobResult {
    const stream = this.#findStream(name);
    const more = stream !== undefined && deleteMarked(this.#db, stream.id);
    return more ? { ok: null, again: { do: 'delete', stream: name } } : { ok: null };
  }

  #findStream(name: string): StreamState | undefined {
    const known = this.#streams.get(name);
    if (known) return known;
    const row = cachedStatement(this.#db, 'SELECT id, head, epoch FROM streams WHERE name = ?').get(name);
    return row && this.#remember(name, { id: Number(row.id), head: Number(row.head), epoch: Number(row.epoch) });
  }

  #addStream(name: string): StreamState {
    const added = cachedStatement(this.#db, 'INSERT INTO streams (name, head, epoch) VALUES (?, 0, 0)').run(name);
    return this.#remember(name, { id: Number(added.lastInsertRowid), head: 0, epoch: 0 });
  }

  #remember(name: string, stream: StreamState): StreamState {
    this.#streams.set(name, stream);
    return stream;
  }

  #flush(pending: Pending, gseqBefore: number): void {
    const setHead = cachedStatement(this.#db, 'UPDATE streams SET head = ?, epoch = ? WHERE id = ?');
    for (const stream of pending.heads) setHead.run(stream.head, stream.epoch, stream.id);
    for (const { card, stream } of pending.cards.values()) saveCard(this.#db, card, stream);
    if (this.#gseq !== gseqBefore) cachedStatement(this.#db, 'UPDATE log_head SET gseq = ?').run(this.#gseq);
  }
}

/** The wire form of a thrown value; `code` is null for a bug. */
export function failureOf(error: unknown, path: string): JobFailed {
  const known = storageError(error, path);
  if (known instanceof AppError) return { code: known.code, detail: known.detail };
  return { code: null, detail: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

function fenced(job: AppendJob, { head, epoch }: StreamHead): JobResult {
  const detail =
    job.epoch === epoch
      ? `${job.stream} is at signal ${head}, this writer believed ${job.expected}; read it again from there`
      : `${job.stream} has owner epoch ${epoch}, this writer has ${job.epoch}; another owner took over`;
  return { code: 'session_fenced', detail, extra: { head, epoch } };
}

function saveCard(db: DatabaseSync, card: CardRow, stream: number): void {
  const { id, agent, state, open, parent, updatedAt, search, body } = card;
  cachedStatement(db, SAVE_CARD).run(id, stream, agent, state, open, parent, updatedAt, search, body);
}
