import type { DatabaseSync } from 'node:sqlite';
import { ownerOf, type Reader } from '../core/memory-store.ts';
import type { Rating } from '../core/recall/feedback.ts';
import { cachedStatement } from './sqlite.ts';

/** Ratings of one recall that are read; the newest ones. */
const RATINGS_MAX = 500;

/** Has the reader's own agent rated any memory? */
export function hasRatings(db: DatabaseSync, reader: Reader): boolean {
  return cachedStatement(db, 'SELECT 1 FROM memory_feedback WHERE agent_id = ? LIMIT 1').get(ownerOf(reader)) !== undefined;
}

/** What the reader's own agent said about these memories; ratings of others never count. */
export function ratingsOf(db: DatabaseSync, reader: Reader, memoryIds: readonly string[]): Rating[] {
  const agentId = ownerOf(reader);
  const sql = `SELECT memory_id, rating, terms, created_at FROM memory_feedback
    WHERE agent_id = ? AND memory_id IN (SELECT value FROM json_each(?)) ORDER BY created_at DESC, memory_id, session_key LIMIT ?`;
  const rows = cachedStatement(db, sql).all(agentId, JSON.stringify(memoryIds), RATINGS_MAX);
  return rows.map((row) => ({
    memoryId: String(row.memory_id),
    rating: Number(row.rating),
    terms: row.terms === null ? undefined : new Set(String(row.terms).split(' ')),
    ratedAtMs: Number(row.created_at),
  }));
}
