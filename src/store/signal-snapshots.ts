import type { DatabaseSync } from 'node:sqlite';
import type { Snapshot } from '../core/signal-log.ts';
import { cachedStatement } from './sqlite.ts';

/** Beside the newest snapshot one of each so many signals is kept: the way to any past state is not longer than that, about 150 ms. */
const KEPT_EVERY_SIGNALS = 4_000;
/** Snapshots of one stream; in a longer one those that are kept stand twice as far apart, and so on. Each holds the whole conversation. */
const KEPT_MAX = 16;

/** The newest snapshot of a stream; of the older ones the last of each stretch stays, for states of the past. */
export function saveSnapshot(db: DatabaseSync, stream: number, { seq, version, body }: Snapshot): void {
  const older = cachedStatement(db, 'SELECT seq FROM snapshots WHERE stream = ? AND seq < ? ORDER BY seq').all(stream, seq);
  const seqs = [...older.map((row) => Number(row.seq)), seq];
  const stretch = stretchSignals(seq);
  for (const [index, before] of seqs.slice(0, -1).entries()) {
    const next = seqs[index + 1]!;
    if (Math.floor(before / stretch) === Math.floor(next / stretch))
      cachedStatement(db, 'DELETE FROM snapshots WHERE stream = ? AND seq = ?').run(stream, before);
  }
  const save = 'INSERT OR REPLACE INTO snapshots (stream, seq, version, body) VALUES (?, ?, ?, ?)';
  cachedStatement(db, save).run(stream, seq, version, body);
}

/** The newest one with `seq` up to `until`. */
export function readSnapshot(db: DatabaseSync, stream: string, until: number): Snapshot | null {
  const sql = `SELECT seq, version, body FROM snapshots
    WHERE stream = (SELECT id FROM streams WHERE name = ?) AND seq <= ? ORDER BY seq DESC LIMIT 1`;
  const row = cachedStatement(db, sql).get(stream, until);
  return row ? { seq: Number(row.seq), version: String(row.version), body: String(row.body) } : null;
}

function stretchSignals(seq: number): number {
  let stretch = KEPT_EVERY_SIGNALS;
  while (seq / stretch > KEPT_MAX) stretch *= 2;
  return stretch;
}
