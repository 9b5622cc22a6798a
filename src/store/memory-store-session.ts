import type { DatabaseSync } from 'node:sqlite';
import type { Checkpoint, InjectedHit, SessionEnd, SessionLine, SessionStore, TranscriptTurn } from '../core/memory-store.ts';
import type { Access } from './memory-store-access.ts';
import { selectMemories, visibleTo } from './memory-store-scope.ts';
import { byId } from './memory-store-write.ts';
import { cachedStatement } from './sqlite.ts';

/** A longer transcript keeps its end: that is what a resumed session needs; unit: characters of JSON. */
const TRANSCRIPT_CHARS_MAX = 8 * 1_048_576;
/** Which memories a session was shown is of use for learning for this long; unit: milliseconds. */
const HITS_KEPT_MS = 30 * 86_400_000;

/** Session lines on the tables `session_lines`, `session_memories` and `memory_feedback`. */
export function createSessionStore({ db, clock, read, write, note }: Access): SessionStore {
  return {
    end: (line, end) => write(() => endLine(db, line, end, clock.now())),
    compacted: (line, summary) =>
      write(() => {
        const sql = `INSERT INTO session_lines (agent_id, session_key, summary, updated_at) VALUES (?, ?, ?, ?)
          ON CONFLICT (agent_id, session_key) DO UPDATE SET summary = excluded.summary, tail = NULL, updated_at = excluded.updated_at`;
        cachedStatement(db, sql).run(line.agentId, line.sessionKey, summary, clock.now());
      }),
    resume: (line, resume) => note(() => resumeLine(db, line, resume)),
    transcript: (line) => read(() => readTranscript(db, line)),
    recordHits: (line, hits) => note(() => recordHits(db, line, hits, clock.now())),
    recentlyInjected: (line, turns) => read(() => recentlyInjected(db, line, turns)),
    feedback: (reader, line, ratings) =>
      note(() => {
        const seen = Object.entries(ratings).filter(
          ([id]) => selectMemories(db, { scope: visibleTo(reader), where: [byId(id)], limit: 1 }).length > 0,
        );
        const sql = 'INSERT OR REPLACE INTO memory_feedback (agent_id, session_key, memory_id, rating, created_at) VALUES (?, ?, ?, ?, ?)';
        for (const [id, rating] of seen) cachedStatement(db, sql).run(line.agentId, line.sessionKey, id, rating, clock.now());
        return seen.length;
      }),
  };
}

function endLine(db: DatabaseSync, line: SessionLine, end: SessionEnd, nowMs: number): void {
  // A second end, or one without turns, must not wipe what the first one brought.
  const sql = `INSERT INTO session_lines (agent_id, session_key, harness, project, tail, transcript, transcript_path, reason, ended_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?9, ?9)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET harness = excluded.harness, project = coalesce(excluded.project, project),
      tail = coalesce(excluded.tail, tail), transcript = coalesce(excluded.transcript, transcript),
      transcript_path = coalesce(excluded.transcript_path, transcript_path), reason = excluded.reason,
      ended_at = excluded.ended_at, updated_at = excluded.updated_at`;
  const transcript = end.turns.length === 0 ? null : transcriptJson(end.turns);
  cachedStatement(db, sql).run(
    line.agentId,
    line.sessionKey,
    end.harness,
    end.project ?? null,
    end.tail ?? null,
    transcript,
    end.transcriptPath ?? null,
    end.reason ?? null,
    nowMs,
  );
  cachedStatement(db, 'DELETE FROM session_memories WHERE created_at < ?').run(nowMs - HITS_KEPT_MS);
}

function transcriptJson(turns: readonly TranscriptTurn[]): string {
  const kept: string[] = [];
  let chars = 2;
  for (let index = turns.length - 1; index >= 0; index -= 1) {
    const text = JSON.stringify(turns[index]);
    chars += text.length + 1;
    if (chars > TRANSCRIPT_CHARS_MAX) break;
    kept.push(text);
  }
  return `[${kept.reverse().join(',')}]`;
}

function resumeLine(db: DatabaseSync, line: SessionLine, resume: boolean): Checkpoint | undefined {
  const find = 'SELECT summary, tail, ended_at FROM session_lines WHERE agent_id = ? AND session_key = ?';
  const row = cachedStatement(db, find).get(line.agentId, line.sessionKey);
  if (!row) return undefined;
  const { summary, tail, ended_at: endedAt } = row;
  const run = 'UPDATE session_lines SET ended_at = NULL WHERE agent_id = ? AND session_key = ?';
  if (endedAt !== null) cachedStatement(db, run).run(line.agentId, line.sessionKey);
  if ((endedAt === null && !resume) || (summary === null && tail === null)) return undefined;
  return { ...(summary === null ? {} : { summary: String(summary) }), ...(tail === null ? {} : { tail: String(tail) }) };
}

function readTranscript(db: DatabaseSync, line: SessionLine): { project: string | null; turns: TranscriptTurn[] } | undefined {
  const sql = 'SELECT project, transcript FROM session_lines WHERE agent_id = ? AND session_key = ?';
  const row = cachedStatement(db, sql).get(line.agentId, line.sessionKey);
  if (!row) return undefined;
  const turns = row.transcript === null ? [] : (JSON.parse(String(row.transcript)) as TranscriptTurn[]);
  return { project: row.project === null ? null : String(row.project), turns };
}

function recordHits(db: DatabaseSync, line: SessionLine, hits: readonly InjectedHit[], nowMs: number): number {
  const turnSql = `INSERT INTO session_lines (agent_id, session_key, turns, updated_at) VALUES (?, ?, 1, ?)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET turns = turns + 1, updated_at = excluded.updated_at RETURNING turns`;
  const turn = Number(cachedStatement(db, turnSql).get(line.agentId, line.sessionKey, nowMs)?.turns);
  const insert = cachedStatement(db, 'INSERT OR REPLACE INTO session_memories VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
  const touch = cachedStatement(db, 'UPDATE memories SET access_count = access_count + 1 WHERE id = ?');
  hits.forEach((hit, rank) => {
    insert.run(line.agentId, line.sessionKey, turn, hit.memoryId, rank + 1, hit.score, hit.injected ? 1 : 0, nowMs);
    if (hit.injected) touch.run(hit.memoryId);
  });
  return turn;
}

function recentlyInjected(db: DatabaseSync, line: SessionLine, turns: number): Set<string> {
  const sql = `SELECT memory_id FROM session_memories WHERE agent_id = ?1 AND session_key = ?2 AND injected = 1
    AND turn > (SELECT turns FROM session_lines WHERE agent_id = ?1 AND session_key = ?2) - ?3`;
  return new Set(
    cachedStatement(db, sql)
      .all(line.agentId, line.sessionKey, turns)
      .map((row) => String(row.memory_id)),
  );
}
