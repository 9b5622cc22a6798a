import type { DatabaseSync } from 'node:sqlite';
import type { Checkpoint, InjectedHit, SessionEnd, SessionLine, SessionStore } from '../core/memory-store.ts';
import type { Access } from './memory-store-access.ts';
import { selectMemories, visibleTo } from './memory-store-scope.ts';
import { byId } from './memory-store-write.ts';
import { cachedStatement } from './sqlite.ts';

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
    noteParent: (line, parent) =>
      note(() => {
        const sql = `INSERT INTO session_lines (agent_id, session_key, parent_key, harness_agent_id, updated_at) VALUES (?, ?, ?, ?, ?)
          ON CONFLICT (agent_id, session_key) DO UPDATE SET parent_key = excluded.parent_key, harness_agent_id = excluded.harness_agent_id`;
        cachedStatement(db, sql).run(line.agentId, line.sessionKey, parent.key ?? null, parent.harnessAgentId ?? null, clock.now());
      }),
    noteProject: (line, project) =>
      note(() => {
        const sql = `INSERT INTO session_lines (agent_id, session_key, project, updated_at) VALUES (?, ?, ?, ?)
          ON CONFLICT (agent_id, session_key) DO UPDATE SET project = excluded.project WHERE project IS NULL`;
        cachedStatement(db, sql).run(line.agentId, line.sessionKey, project, clock.now());
      }),
    projectOf: (line) =>
      read(() => {
        const sql = 'SELECT project FROM session_lines WHERE agent_id = ? AND session_key = ? AND project IS NOT NULL';
        return cachedStatement(db, sql).get(line.agentId, line.sessionKey)?.project as string | undefined;
      }),
    recordHits: (line, hits, stems) => note(() => recordHits(db, line, hits, stems ?? [], clock.now())),
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
  const sql = `INSERT INTO session_lines (agent_id, session_key, harness, project, tail, transcript_path, reason, ended_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?8, ?8)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET harness = excluded.harness, project = coalesce(excluded.project, project),
      tail = coalesce(excluded.tail, tail),
      transcript_path = coalesce(excluded.transcript_path, transcript_path), reason = excluded.reason,
      ended_at = excluded.ended_at, updated_at = excluded.updated_at`;
  cachedStatement(db, sql).run(
    line.agentId,
    line.sessionKey,
    end.harness,
    end.project ?? null,
    end.tail ?? null,
    end.transcriptPath ?? null,
    end.reason ?? null,
    nowMs,
  );
  cachedStatement(db, 'DELETE FROM session_memories WHERE created_at < ?').run(nowMs - HITS_KEPT_MS);
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

function recordHits(db: DatabaseSync, line: SessionLine, hits: readonly InjectedHit[], stems: readonly string[], nowMs: number): number {
  const turnSql = `INSERT INTO session_lines (agent_id, session_key, turns, query_terms, updated_at) VALUES (?, ?, 1, ?, ?)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET turns = turns + 1, query_terms = excluded.query_terms, updated_at = excluded.updated_at
    RETURNING turns`;
  const terms = stems.join(' ') || null;
  const turn = Number(cachedStatement(db, turnSql).get(line.agentId, line.sessionKey, terms, nowMs)?.turns);
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
