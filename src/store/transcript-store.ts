import { isoTime } from '../core/clock.ts';
import type { SessionLine, TranscriptTurn } from '../core/memory-store.ts';
import { type KeptTurn, knownTurns, type TranscriptStore, type TurnHit, type TurnQuery, turnFingerprint } from '../core/transcript.ts';
import { sinceArchived } from './agent-archive.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';
import { matchAny } from './transcript-match.ts';

/** Turns written in one transaction; more would hold up whoever else waits for the file. */
const TURNS_PER_COMMIT = 500;
/** Full-text hits that are looked at closely. */
const CANDIDATES_MAX = 50;

type Row = Record<string, unknown>;

/** Raw turns on the tables `transcript_turns` and `transcript_lines`. */
export function createTranscriptStore(access: Access): TranscriptStore {
  const { read, write } = access;
  // One transcript at a time: two of the same line must not number their turns alike.
  let last: Promise<unknown> = Promise.resolve();
  return {
    keep: (line, source, turns) => {
      const kept = last.then(() => keepTurns(access, line, source, turns));
      last = kept.catch(() => undefined); // Each caller is told of its own failure.
      return kept;
    },
    line: (line) =>
      read(() => {
        const row = lineRow(access, line);
        return row && { harness: String(row.harness), project: text(row.project), turns: Number(row.turns) };
      }),
    turns: (line, { after, limit }) =>
      read(() => {
        const sql = 'SELECT * FROM transcript_turns WHERE agent_id = ? AND session_key = ? AND number > ? ORDER BY number LIMIT ?';
        return cachedStatement(access.db, sql).all(line.agentId, line.sessionKey, after, limit).map(toTurn);
      }),
    search: (agentId, query) => read(() => searchTurns(access, agentId, query)),
    sources: (agentId, memoryId) =>
      read(() => {
        const sql = `SELECT session_key, turn_from, turn_to FROM memory_sources WHERE memory_id = ? AND agent_id = ? ORDER BY session_key, turn_from`;
        return cachedStatement(access.db, sql)
          .all(memoryId, agentId)
          .map((row) => ({ sessionKey: String(row.session_key), from: Number(row.turn_from), to: Number(row.turn_to) }));
      }),
    linkMemory: (line, memoryId, from, to, jobId) =>
      write(() => {
        const sql = 'INSERT OR IGNORE INTO memory_sources VALUES (?, ?, ?, ?, ?, ?)';
        cachedStatement(access.db, sql).run(memoryId, line.agentId, line.sessionKey, from, to, jobId);
      }),
  };
}

async function keepTurns(
  access: Access,
  line: SessionLine,
  source: { harness: string; project?: string | null },
  turns: readonly TranscriptTurn[],
): Promise<{ stored: number; total: number }> {
  const prints = turns.map(turnFingerprint);
  const fresh = await access.read(() => {
    const sql = 'SELECT fingerprint FROM transcript_turns WHERE agent_id = ? AND session_key = ? ORDER BY number';
    const kept = cachedStatement(access.db, sql).all(line.agentId, line.sessionKey);
    return knownTurns(
      kept.map((row) => String(row.fingerprint)),
      prints,
    );
  });
  let total = 0;
  for (let from = fresh; from === fresh || from < turns.length; from += TURNS_PER_COMMIT) {
    const part = turns.slice(from, from + TURNS_PER_COMMIT);
    total = await access.write(() => writeTurns(access, line, source, part, prints.slice(from, from + TURNS_PER_COMMIT)));
    // Requests that came in the meantime are served between two commits.
    if (part.length === TURNS_PER_COMMIT) await new Promise((resolve) => setImmediate(resolve));
  }
  return { stored: turns.length - fresh, total };
}

function writeTurns(
  { db, clock }: Access,
  line: SessionLine,
  { harness, project }: { harness: string; project?: string | null },
  turns: readonly TranscriptTurn[],
  prints: readonly string[],
): number {
  const nowMs = clock.now();
  const lineSql = `INSERT INTO transcript_lines (agent_id, session_key, harness, project, turns, updated_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (agent_id, session_key) DO UPDATE SET harness = excluded.harness, project = coalesce(excluded.project, project),
      turns = turns + excluded.turns, updated_at = excluded.updated_at RETURNING turns`;
  const row = cachedStatement(db, lineSql).get(line.agentId, line.sessionKey, harness, project ?? null, turns.length, nowMs);
  const total = Number(row?.turns);
  const insert = cachedStatement(
    db,
    `INSERT INTO transcript_turns (agent_id, session_key, number, role, content, fingerprint, said_at, stored_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  turns.forEach(({ role, content, at }, index) => {
    const saidAt = at === undefined ? Number.NaN : Date.parse(at);
    const number = total - turns.length + index + 1;
    insert.run(line.agentId, line.sessionKey, number, role, content, prints[index]!, Number.isNaN(saidAt) ? null : saidAt, nowMs);
  });
  return total;
}

function searchTurns({ db }: Access, agentId: string, query: TurnQuery): TurnHit[] {
  if (!cachedStatement(db, 'SELECT 1 FROM transcript_lines WHERE agent_id = ? LIMIT 1').get(agentId)) return [];
  const match = matchAny(db, 'transcript_vocabulary', query.text);
  if (match === undefined) return [];
  // CROSS JOIN keeps the order: hits first, then their rows. Texts and lines are read of the best ones alone.
  const inProject = `CROSS JOIN transcript_lines l ON l.agent_id = t.agent_id AND l.session_key = t.session_key AND l.project = ?3`;
  const best = `SELECT t.seq, bm25(transcript_fts) AS rank FROM transcript_fts f CROSS JOIN transcript_turns t ON t.seq = f.rowid
    ${query.project === undefined ? '' : inProject}
    WHERE transcript_fts MATCH ?1 AND t.agent_id = ?2 AND ${sinceArchived('t.agent_id', 't.stored_at')} AND (?4 IS NULL OR t.session_key = ?4)
      AND (?5 IS NULL OR t.session_key <> ?5) AND (?6 IS NULL OR instr(?6, ',' || t.role || ',') > 0)
    ORDER BY rank, t.seq DESC LIMIT ${CANDIDATES_MAX}`;
  const sql = `SELECT t.*, l.project FROM (${best}) best CROSS JOIN transcript_turns t ON t.seq = best.seq
    CROSS JOIN transcript_lines l ON l.agent_id = t.agent_id AND l.session_key = t.session_key ORDER BY best.rank, t.seq DESC`;
  const roles = query.roles === undefined ? null : `,${query.roles.join(',')},`;
  const rows = cachedStatement(db, sql).all(
    match.expression,
    agentId,
    query.project ?? null,
    query.sessionKey ?? null,
    query.notSessionKey ?? null,
    roles,
  );
  const hits = rows.map((row): TurnHit => {
    const turn = toTurn(row);
    return { ...turn, sessionKey: String(row.session_key), project: text(row.project), score: match.coverage(turn.content) };
  });
  // Stable: equal coverage keeps the order of bm25.
  return hits.sort((a, b) => b.score - a.score).slice(0, query.limit);
}

function lineRow({ db }: Access, line: SessionLine): Row | undefined {
  const sql = 'SELECT * FROM transcript_lines WHERE agent_id = ? AND session_key = ?';
  return cachedStatement(db, sql).get(line.agentId, line.sessionKey);
}

function toTurn(row: Row): KeptTurn {
  const at = row.said_at === null ? {} : { at: isoTime(Number(row.said_at)) };
  return { number: Number(row.number), role: String(row.role), content: String(row.content), ...at };
}

function text(value: unknown): string | null {
  return value === null ? null : String(value);
}
