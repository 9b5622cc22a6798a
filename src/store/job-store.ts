import type { DatabaseSync } from 'node:sqlite';
import type { Job, JobCounts, JobKind, JobState } from '../contract/jobs.ts';
import { isoTime, newId } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import {
  backoffMs,
  JOB_ATTEMPTS_MAX,
  JOB_INTERRUPTIONS_MAX,
  JOB_LEASE_MS,
  JOBS_OPEN_MAX,
  type JobDraft,
  type JobFilter,
  type JobPayload,
  type JobStore,
  type LeasedJob,
  WAITS_FOR_ATTEMPT,
  WAITS_FOR_BUDGET,
  WAITS_FOR_PROVIDER,
} from '../core/job.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** How long ended jobs can be looked at; unit: milliseconds. */
const DONE_KEPT_MS = 14 * 86_400_000;
const DEAD_KEPT_MS = 30 * 86_400_000;
/** Jobs forgotten in one go. */
const PURGED_MAX = 500;
const ERROR_CHARS_MAX = 2_000;

type Row = Record<string, unknown>;

/** The queue on the table `jobs`. Whoever ends a job must still hold its lease: `WHERE … lease_owner = ? AND attempts = ?`. */
export function createJobStore({ db, clock, read, write }: Access): JobStore {
  const held = (set: string, job: LeasedJob, ...values: (string | number | null)[]): boolean => {
    const sql = `UPDATE jobs SET ${set}, updated_at = ? WHERE id = ? AND state = 'running' AND lease_owner = ? AND attempts = ?`;
    return cachedStatement(db, sql).run(...values, clock.now(), job.id, job.owner, job.attempts).changes === 1;
  };
  const end = `lease_owner = NULL, lease_until = NULL`;
  return {
    add: (draft) => write(() => addJob(db, draft, clock.now())),
    addForLine: (draft) => write(() => addForLine(db, draft, clock.now())),
    lease: (owner, kinds, reason = WAITS_FOR_PROVIDER) => write(() => leaseJob(db, owner, kinds, reason, clock.now())),
    reclaim: (owner) =>
      write(() => {
        // The end of a process is no failure of its job: the attempt does not count.
        const sql = `UPDATE jobs SET state = CASE WHEN interruptions + 1 < ?1 THEN 'queued' ELSE 'dead' END, attempts = attempts - 1,
          interruptions = interruptions + 1, error_code = 'interrupted',
          error = 'the process that ran it ended', ${end} WHERE state = 'running' AND lease_owner <> ?2`;
        return Number(cachedStatement(db, sql).run(JOB_INTERRUPTIONS_MAX, owner).changes);
      }),
    keepAnswer: (job, answer) => write(() => held('answer = ?', job, answer)),
    finish: (job, result) =>
      write(() => held(`state = 'done', result = ?, error_code = NULL, error = NULL, ${end}`, job, JSON.stringify(result))),
    advance: (job, payload, result) =>
      write(() => {
        const set = `state = 'queued', attempts = 0, interruptions = 0, answer = NULL, payload = ?, result = ?, due_at = ?, ${end}`;
        return held(set, job, JSON.stringify(payload), JSON.stringify(result), clock.now());
      }),
    fail: (job, error) =>
      write(() => {
        const dead = error.final === true || job.attempts >= JOB_ATTEMPTS_MAX;
        const set = `state = ?, reason = ?, due_at = ?, answer = NULL, error_code = ?, error = ?, ${end}`;
        const due = clock.now() + backoffMs(job.attempts, error.retryAfterMs);
        const reason = dead ? null : WAITS_FOR_ATTEMPT;
        return held(set, job, dead ? 'dead' : 'waiting', reason, due, error.code, error.message.slice(0, ERROR_CHARS_MAX));
      }),
    release: (job) => write(() => held(`state = 'queued', attempts = attempts - 1, ${end}`, job)),
    retry: (id) => write(() => retryJob(db, id, clock.now())),
    list: (filter) => read(() => listJobs(db, filter)),
    counts: (filter = {}) => read(() => countJobs(db, filter)),
    nextDueMs: () =>
      read(() => {
        const sql = `SELECT min(CASE state WHEN 'running' THEN lease_until ELSE due_at END) AS due FROM jobs
          WHERE state IN ('queued', 'waiting', 'running') AND (state <> 'waiting' OR reason NOT IN (?, ?))`;
        const due = cachedStatement(db, sql).get(WAITS_FOR_PROVIDER, WAITS_FOR_BUDGET)?.due;
        return due === null || due === undefined ? undefined : Number(due);
      }),
    purge: () =>
      write(() => {
        const sql = `DELETE FROM jobs WHERE seq IN (SELECT seq FROM jobs WHERE
          (state = 'done' AND updated_at < ?) OR (state = 'dead' AND updated_at < ?) ORDER BY updated_at LIMIT ${PURGED_MAX})`;
        return Number(cachedStatement(db, sql).run(clock.now() - DONE_KEPT_MS, clock.now() - DEAD_KEPT_MS).changes);
      }),
  };
}

/** One open job of a kind and line is enough: what it is to do is looked up when it runs. */
function addJob(db: DatabaseSync, draft: JobDraft, nowMs: number): { id: string; added: boolean } | undefined {
  const sql = `SELECT id FROM jobs WHERE agent_id = ? AND kind = ? AND session_key IS ? AND state IN ('queued', 'waiting') LIMIT 1`;
  const open = cachedStatement(db, sql).get(draft.agentId, draft.kind, draft.sessionKey ?? null);
  if (open) return { id: String(open.id), added: false };
  if (isFull(db)) return undefined;
  return { id: insertJob(db, draft, draft.payload, nowMs), added: true };
}

function addForLine(db: DatabaseSync, draft: JobDraft & { sessionKey: string }, nowMs: number): { id: string; full: boolean } | undefined {
  const find = 'SELECT turns, queued_to FROM transcript_lines WHERE agent_id = ? AND session_key = ?';
  const line = cachedStatement(db, find).get(draft.agentId, draft.sessionKey);
  const [turns, queuedTo] = [Number(line?.turns ?? 0), Number(line?.queued_to ?? 0)];
  if (turns <= queuedTo) return undefined;
  const open = cachedStatement(
    db,
    `SELECT id, payload FROM jobs WHERE agent_id = ? AND kind = ? AND session_key = ? AND state IN ('queued', 'waiting') AND attempts = 0
     AND answer IS NULL LIMIT 1`,
  ).get(draft.agentId, draft.kind, draft.sessionKey);
  if (!open && isFull(db)) return { id: '', full: true };
  const dueAt = nowMs + (draft.delayMs ?? 0);
  let id: string;
  if (open) {
    id = String(open.id);
    const payload = JSON.stringify({ ...(JSON.parse(String(open.payload)) as JobPayload), to: turns });
    cachedStatement(db, 'UPDATE jobs SET payload = ?, due_at = ?, updated_at = ? WHERE id = ?').run(payload, dueAt, nowMs, id);
  } else {
    id = insertJob(db, draft, { ...draft.payload, from: queuedTo + 1, to: turns }, nowMs);
  }
  const note = 'UPDATE transcript_lines SET queued_to = ? WHERE agent_id = ? AND session_key = ?';
  cachedStatement(db, note).run(turns, draft.agentId, draft.sessionKey);
  return { id, full: false };
}

function isFull(db: DatabaseSync): boolean {
  const sql = `SELECT count(*) AS n FROM jobs WHERE state IN ('queued', 'waiting', 'running')`;
  return Number(cachedStatement(db, sql).get()?.n) >= JOBS_OPEN_MAX;
}

function insertJob(db: DatabaseSync, draft: JobDraft, payload: JobPayload, nowMs: number): string {
  const id = newId('job');
  const sql = `INSERT INTO jobs (id, kind, agent_id, session_key, payload, state, due_at, created_at, updated_at)
    VALUES (?1, ?2, ?3, ?4, ?5, 'queued', ?6, ?7, ?7)`;
  const due = nowMs + (draft.delayMs ?? 0);
  const values = [id, draft.kind, draft.agentId, draft.sessionKey ?? null, JSON.stringify(payload), due] as const;
  cachedStatement(db, sql).run(...values, nowMs);
  return id;
}

function leaseJob(db: DatabaseSync, owner: string, kinds: readonly JobKind[], reason: string, nowMs: number): LeasedJob | undefined {
  const list = JSON.stringify(kinds);
  const isOne = 'kind IN (SELECT value FROM json_each(?))';
  cachedStatement(
    db,
    `UPDATE jobs SET state = 'waiting', reason = ? WHERE NOT ${isOne} AND due_at <= ?
       AND (state = 'queued' OR (state = 'waiting' AND reason <> ?))`,
  ).run(reason, list, nowMs, reason);
  cachedStatement(db, `UPDATE jobs SET state = 'queued', reason = NULL WHERE ${isOne} AND state = 'waiting' AND reason IN (?, ?)`).run(
    list,
    WAITS_FOR_PROVIDER,
    WAITS_FOR_BUDGET,
  );
  const row = cachedStatement(
    db,
    `UPDATE jobs SET state = 'running', reason = NULL, attempts = attempts + 1, lease_owner = ?2, lease_until = ?3, updated_at = ?4
     WHERE seq = (SELECT seq FROM jobs WHERE kind IN (SELECT value FROM json_each(?1)) AND
       ((state IN ('queued', 'waiting') AND due_at <= ?4) OR (state = 'running' AND lease_until <= ?4))
       ORDER BY due_at, seq LIMIT 1) RETURNING *`,
  ).get(list, owner, nowMs + JOB_LEASE_MS, nowMs);
  return row && toLeased(row);
}

function retryJob(db: DatabaseSync, id: string, nowMs: number): Job {
  const row = cachedStatement(db, 'SELECT state FROM jobs WHERE id = ?').get(id);
  if (!row) throw new AppError('job_not_found', { detail: `no job ${id}; jobs that ended long ago are forgotten` });
  if (row.state === 'running' || row.state === 'done') {
    throw new AppError('job_not_retryable', {
      detail: `job ${id} is ${row.state === 'done' ? 'done' : 'running'}; there is nothing to try again`,
    });
  }
  const sql = `UPDATE jobs SET state = 'queued', reason = NULL, attempts = 0, interruptions = 0, due_at = ?2, updated_at = ?2 WHERE id = ?1 RETURNING *`;
  return toJob(cachedStatement(db, sql).get(id, nowMs)!);
}

function listJobs(db: DatabaseSync, filter: JobFilter): Job[] {
  const sql = `SELECT * FROM jobs WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR kind = ?2) AND (?3 IS NULL OR agent_id = ?3)
    AND (?4 IS NULL OR session_key = ?4) AND (?5 IS NULL OR seq < (SELECT seq FROM jobs WHERE id = ?5)) ORDER BY seq DESC LIMIT ?6`;
  const { state = null, kind = null, agentId = null, sessionKey = null, before = null, limit } = filter;
  return cachedStatement(db, sql).all(state, kind, agentId, sessionKey, before, limit).map(toJob);
}

function countJobs(db: DatabaseSync, { agentId, sessionKey }: Pick<JobFilter, 'agentId' | 'sessionKey'>): JobCounts {
  const counts: JobCounts = { queued: 0, waiting: 0, running: 0, done: 0, dead: 0 };
  const sql = `SELECT state, count(*) AS n FROM jobs WHERE (?1 IS NULL OR agent_id = ?1) AND (?2 IS NULL OR session_key = ?2) GROUP BY state`;
  for (const row of cachedStatement(db, sql).all(agentId ?? null, sessionKey ?? null)) {
    counts[row.state as JobState] = Number(row.n);
  }
  return counts;
}

function toLeased(row: Row): LeasedJob {
  return {
    id: String(row.id),
    kind: row.kind as JobKind,
    agentId: String(row.agent_id),
    sessionKey: row.session_key === null ? null : String(row.session_key),
    payload: JSON.parse(String(row.payload)) as JobPayload,
    attempts: Number(row.attempts),
    answer: row.answer === null ? null : String(row.answer),
    result: row.result === null ? null : (JSON.parse(String(row.result)) as JobPayload),
    createdAtMs: Number(row.created_at),
    owner: String(row.lease_owner),
  };
}

function toJob(row: Row): Job {
  const text = (name: string): string | null => (row[name] === null ? null : String(row[name]));
  return {
    id: String(row.id),
    kind: row.kind as JobKind,
    state: row.state as JobState,
    reason: text('reason'),
    agentId: String(row.agent_id),
    sessionKey: text('session_key'),
    payload: JSON.parse(String(row.payload)) as Record<string, unknown>,
    attempts: Number(row.attempts),
    attemptsMax: JOB_ATTEMPTS_MAX,
    dueAt: isoTime(Number(row.due_at)),
    leaseUntil: row.lease_until === null ? null : isoTime(Number(row.lease_until)),
    error: row.error_code === null ? null : { code: String(row.error_code), message: String(row.error) },
    result: row.result === null ? null : (JSON.parse(String(row.result)) as Record<string, unknown>),
    createdAt: isoTime(Number(row.created_at)),
    updatedAt: isoTime(Number(row.updated_at)),
  };
}
