import type { DatabaseSync } from 'node:sqlite';
import type { Checkpoint } from '../core/signal-log.ts';
import { cachedStatement } from './sqlite.ts';

/** Signals one step deletes before appends get their turn, about 20 ms. */
const DELETE_SIGNALS_MAX = 5_000;

/** The checkpoint takes the place of the signals up to its seq: they are marked, and a snapshot from among them goes. */
export function putCheckpoint(db: DatabaseSync, stream: number, { seq, format, body }: Checkpoint): void {
  cachedStatement(db, 'INSERT OR REPLACE INTO checkpoints (stream, seq, format, body) VALUES (?, ?, ?, ?)').run(stream, seq, format, body);
  cachedStatement(db, 'DELETE FROM snapshots WHERE stream = ? AND seq < ?').run(stream, seq);
  markDeleted(db, stream, seq);
}

/** All that was made of a stream's signals goes at once, and the signals are marked. */
export function forgetProjections(db: DatabaseSync, stream: number, head: number): void {
  cachedStatement(db, 'DELETE FROM cards WHERE stream = ?').run(stream);
  cachedStatement(db, 'DELETE FROM snapshots WHERE stream = ?').run(stream);
  cachedStatement(db, 'DELETE FROM checkpoints WHERE stream = ?').run(stream);
  markDeleted(db, stream, head);
}

/** One step, the oldest first. True when more is left. */
export function deleteMarked(db: DatabaseSync, stream: number): boolean {
  const marked = cachedStatement(db, 'SELECT seq FROM deletions WHERE stream = ?').get(stream);
  if (!marked) return false;
  const oldest = 'SELECT gseq FROM signals WHERE stream = ? AND seq <= ? ORDER BY seq LIMIT ?';
  const { changes } = cachedStatement(db, `DELETE FROM signals WHERE gseq IN (${oldest})`).run(
    stream,
    Number(marked.seq),
    DELETE_SIGNALS_MAX,
  );
  if (Number(changes) === DELETE_SIGNALS_MAX) return true;
  cachedStatement(db, 'DELETE FROM deletions WHERE stream = ?').run(stream);
  return false;
}

/** Streams whose deletion was begun and not finished: the process died between two steps. */
export function streamsWithMarked(db: DatabaseSync): string[] {
  const rows = cachedStatement(db, 'SELECT name FROM deletions JOIN streams ON streams.id = deletions.stream').all();
  return rows.map((row) => String(row.name));
}

export function readCheckpoint(db: DatabaseSync, stream: string): Checkpoint | null {
  const sql = 'SELECT seq, format, body FROM checkpoints WHERE stream = (SELECT id FROM streams WHERE name = ?)';
  const row = cachedStatement(db, sql).get(stream);
  return row ? { seq: Number(row.seq), format: Number(row.format), body: String(row.body) } : null;
}

/** Durable, so that a deletion in steps survives the end of the process. */
function markDeleted(db: DatabaseSync, stream: number, seq: number): void {
  const sql = 'INSERT INTO deletions (stream, seq) VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET seq = max(seq, excluded.seq)';
  cachedStatement(db, sql).run(stream, seq);
}
