import type { DatabaseSync } from 'node:sqlite';
import type { Checkpoint, SessionLine } from '../core/memory-store.ts';
import { type ContinuityStore, PROMPTS_PER_CHECKPOINT } from '../core/transcript-continuity.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Continuity on the tables `session_prompts`, `session_scores` and `session_relevance`. */
export function createContinuityStore({ db, clock, read, write, note }: Access): ContinuityStore {
  return {
    prompted: (line, prompt) => note(() => notePrompt(db, line, prompt, clock.now())),
    checkpoint: (line) =>
      read(() => {
        const sql =
          'SELECT checkpoint, checkpoint_at FROM session_prompts WHERE agent_id = ? AND session_key = ? AND checkpoint IS NOT NULL';
        const row = cachedStatement(db, sql).get(line.agentId, line.sessionKey);
        return row && { text: String(row.checkpoint), atMs: Number(row.checkpoint_at) };
      }),
    lastWords: (line) => read(() => lastWordsOf(db, line)),
    conclude: (line) => note(() => concludePrompts(db, line, clock.now())),
    settled: (line) =>
      note(() => {
        const sql = 'DELETE FROM session_prompts WHERE agent_id = ? AND session_key = ?';
        cachedStatement(db, sql).run(line.agentId, line.sessionKey);
      }),
    shownMemories: (line, limit) =>
      read(() => {
        const sql = `SELECT memory_id FROM session_memories WHERE agent_id = ? AND session_key = ? AND injected = 1
          GROUP BY memory_id ORDER BY max(created_at) DESC, memory_id LIMIT ?`;
        const rows = cachedStatement(db, sql).all(line.agentId, line.sessionKey, limit);
        return rows.map((row) => String(row.memory_id));
      }),
    rate: (line, jobId, { score, confidence, reasoning, memoriesUsed }, relevance) =>
      write(() => {
        const nowMs = clock.now();
        const own = [line.agentId, line.sessionKey] as const;
        const insert = 'INSERT OR REPLACE INTO session_scores VALUES (?, ?, ?, ?, ?, ?, ?, ?)';
        cachedStatement(db, insert).run(jobId, ...own, score, confidence, reasoning, memoriesUsed, nowMs);
        const one = cachedStatement(db, 'INSERT OR REPLACE INTO session_relevance VALUES (?, ?, ?, ?, ?)');
        for (const [memoryId, value] of relevance) one.run(...own, memoryId, value, nowMs);
      }),
    scores: (line, limit) =>
      read(() => {
        const sql = 'SELECT * FROM session_scores WHERE agent_id = ? AND session_key = ? ORDER BY created_at DESC, job_id LIMIT ?';
        const rows = cachedStatement(db, sql).all(line.agentId, line.sessionKey, limit);
        return rows.map((row) => ({
          score: Number(row.score),
          confidence: Number(row.confidence),
          reasoning: String(row.reasoning),
          memoriesUsed: Number(row.memories_used),
          atMs: Number(row.created_at),
        }));
      }),
    relevance: (line, limit) =>
      read(() => {
        const sql = `SELECT * FROM session_relevance WHERE agent_id = ? AND session_key = ? ORDER BY relevance DESC, memory_id LIMIT ?`;
        const rows = cachedStatement(db, sql).all(line.agentId, line.sessionKey, limit);
        return rows.map((row) => ({ memoryId: String(row.memory_id), relevance: Number(row.relevance), atMs: Number(row.created_at) }));
      }),
  };
}

function lastWordsOf(db: DatabaseSync, line: SessionLine): (Checkpoint & { atMs: number }) | undefined {
  const sql = `SELECT summary, tail, coalesce(ended_at, updated_at) AS at FROM session_lines WHERE agent_id = ? AND session_key = ?`;
  const row = cachedStatement(db, sql).get(line.agentId, line.sessionKey);
  const { summary = null, tail = null } = row ?? {};
  if (!row || (summary === null && tail === null)) return undefined;
  const words = { ...(summary === null ? {} : { summary: String(summary) }), ...(tail === null ? {} : { tail: String(tail) }) };
  return { ...words, atMs: Number(row.at) };
}

function concludePrompts(db: DatabaseSync, line: SessionLine, nowMs: number): void {
  const sql = `UPDATE session_prompts SET checkpoint = (SELECT group_concat(value, char(10)) FROM json_each(recent)), checkpoint_at = ?
    WHERE agent_id = ? AND session_key = ?`;
  cachedStatement(db, sql).run(nowMs, line.agentId, line.sessionKey);
}

function notePrompt(db: DatabaseSync, line: SessionLine, prompt: string, nowMs: number): boolean {
  const own = [line.agentId, line.sessionKey] as const;
  const find = 'SELECT prompts, recent FROM session_prompts WHERE agent_id = ? AND session_key = ?';
  const row = cachedStatement(db, find).get(...own);
  const prompts = Number(row?.prompts ?? 0) + 1;
  const recent = [...(JSON.parse(String(row?.recent ?? '[]')) as string[]), prompt].slice(-PROMPTS_PER_CHECKPOINT);
  const due = prompts % PROMPTS_PER_CHECKPOINT === 0;
  const sql = `INSERT INTO session_prompts (agent_id, session_key, prompts, recent, updated_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET prompts = excluded.prompts, recent = excluded.recent, updated_at = excluded.updated_at`;
  cachedStatement(db, sql).run(...own, prompts, JSON.stringify(recent), nowMs);
  if (due) concludePrompts(db, line, nowMs);
  return due;
}
