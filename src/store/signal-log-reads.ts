import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import type { StreamEntry, StreamHead, StreamsQuery } from '../core/signal-log.ts';
import { cachedStatement } from './sqlite.ts';

/**
 * Signals parsed before other work gets its turn: about 1 ms of the main thread. A reader thread would save only the SQLite half of
 * that (parsing happens here anyway) and costs a round trip on every small read, so large reads are taken in pages instead.
 */
export const READ_PAGE_SIGNALS = 200;
/** The same for large payloads; unit: UTF-16 code units. */
const READ_PAGE_CHARS = 256 * 1024;

interface SignalRow {
  readonly gseq: number;
  readonly seq: number;
  readonly name: string;
  readonly kind: string;
  readonly agent: string | null;
  readonly body: string;
}

/** What a page reads: rows behind (or, newest first, before) a position. */
interface Walk {
  readonly sql: string;
  readonly scope: readonly string[];
  readonly position: 'seq' | 'gseq';
}

const COLUMNS = 'SELECT gseq, seq, name, kind, agent, body FROM signals';
const OF_STREAM = `${COLUMNS} WHERE stream = (SELECT id FROM streams WHERE name = ?)`;
const FORWARD = `${OF_STREAM} AND seq > ? ORDER BY seq LIMIT ?`;
const BACKWARD = `${OF_STREAM} AND seq < ? ORDER BY seq DESC LIMIT ?`;
const FEED = `${COLUMNS} WHERE gseq > ? ORDER BY gseq LIMIT ?`;

/** `db` is asked anew for every page and throws once the log is closed. */
export type Reader = () => DatabaseSync;

export function readStream(db: Reader, stream: string, afterSeq: number, limit: number): Promise<Signal[]> {
  return readPages(db, { sql: FORWARD, scope: [stream], position: 'seq' }, afterSeq, limit);
}

export async function readStreamBefore(db: Reader, stream: string, beforeSeq: number, limit: number): Promise<Signal[]> {
  const newestFirst = await readPages(db, { sql: BACKWARD, scope: [stream], position: 'seq' }, beforeSeq, limit);
  return newestFirst.reverse();
}

export function readFeed(db: Reader, after: number, limit: number): Promise<Signal[]> {
  return readPages(db, { sql: FEED, scope: [], position: 'gseq' }, after, limit);
}

export function readHead(db: DatabaseSync, stream: string): StreamHead {
  const row = cachedStatement(db, 'SELECT head, epoch FROM streams WHERE name = ?').get(stream);
  return row ? { head: Number(row.head), epoch: Number(row.epoch) } : { head: 0, epoch: 0 };
}

export function readStreams(db: DatabaseSync, { prefix, limit, before }: StreamsQuery): StreamEntry[] {
  const sql = 'SELECT id, name, head FROM streams WHERE name >= ? AND name < ? AND id < ? ORDER BY id DESC LIMIT ?';
  const rows = cachedStatement(db, sql).all(prefix, `${prefix}\uffff`, before ?? Number.MAX_SAFE_INTEGER, limit);
  return rows.map((row) => ({ name: String(row.name), head: Number(row.head), place: Number(row.id) }));
}

export function readHeadGseq(db: DatabaseSync): number {
  return Number(cachedStatement(db, 'SELECT gseq FROM log_head').get()?.gseq);
}

/** Rows never change and new ones come behind, so pages of one read fit together although each is its own transaction. */
async function readPages(db: Reader, walk: Walk, from: number, limit: number): Promise<Signal[]> {
  const signals: Signal[] = [];
  // A LIMIT of a fraction or beyond 2^53 is refused by SQLite; a position of Infinity means the end.
  let position = Math.min(Math.max(from, 0), Number.MAX_SAFE_INTEGER);
  while (signals.length < limit) {
    const page = readPage(db(), walk, position, Math.min(READ_PAGE_SIGNALS, limit - signals.length));
    signals.push(...page.signals);
    if (!page.last || signals.length >= limit) break;
    position = page.last[walk.position];
    await nextTurn();
  }
  return signals;
}

function readPage(db: DatabaseSync, walk: Walk, position: number, limit: number): { signals: Signal[]; last: SignalRow | undefined } {
  const signals: Signal[] = [];
  let last: SignalRow | undefined;
  let chars = 0;
  const rows = cachedStatement(db, walk.sql).iterate(...walk.scope, position, limit) as Iterable<unknown> as Iterable<SignalRow>;
  for (const row of rows) {
    last = row;
    const signal = parse(row, walk);
    if (signal) signals.push(signal);
    chars += row.body.length;
    if (chars >= READ_PAGE_CHARS) break;
  }
  return { signals, last };
}

/** Null for a row nobody can read when all streams are read together: one damaged session must not hold up the others. */
function parse(row: SignalRow, { position, scope }: Walk): Signal | null {
  const { signal, fault, cause } = contentOf(row);
  if (signal && fault === null) return { ...signal, gseq: row.gseq };
  if (position === 'gseq') return null;
  throw new AppError('log_divergence', {
    detail: `signal ${row.seq} of ${scope[0]} is stored damaged: ${fault}`,
    extra: { seq: row.seq, fault },
    cause,
  });
}

type StoredSignal = Omit<Signal, 'gseq'>;

/** The signal of a row; a fault when there is none, or when it is not the one its place and its columns tell of. */
function contentOf({ body, seq, name, kind, agent }: SignalRow): { signal?: StoredSignal; fault: string | null; cause?: unknown } {
  try {
    const signal = JSON.parse(body) as StoredSignal;
    const { source } = signal;
    if (signal.seq !== seq) return { fault: otherThan('seq', seq, signal.seq) };
    if (signal.name !== name) return { fault: otherThan('name', name, signal.name) };
    if (source.kind !== kind) return { fault: otherThan('kind', kind, source.kind) };
    if ((source.agent ?? null) !== agent) return { fault: otherThan('agent', agent, source.agent) };
    return { signal, fault: null };
  } catch (cause) {
    return { fault: cause instanceof SyntaxError ? 'what is stored is not JSON' : 'what is stored is not a signal', cause };
  }
}

function otherThan(column: string, stored: unknown, member: unknown): string {
  return `its column ${column} has ${JSON.stringify(stored)}, its text ${JSON.stringify(member) ?? 'nothing'}`;
}
