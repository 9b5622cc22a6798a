import type { DatabaseSync } from 'node:sqlite';
import type { Presence } from '../contract/cross-agent.ts';
import { isoTime } from '../core/clock.ts';
import { ANNOUNCED_MAX, type PeerFilter, PRESENCE_TTL_MS, type PresenceDraft, type PresenceStore } from '../core/cross-agent.ts';
import { AppError } from '../core/errors.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Live sessions at time ?1: those hooks were heard of, then those that only announced themselves since ?2. */
const LIVE = `SELECT c.key, c.key AS session_key, c.agent_id, c.harness, c.project, c.runtime_path, a.provider,
    c.claimed_at AS started_at, c.last_seen_at
  FROM session_claims c LEFT JOIN announced_sessions a ON a.key = c.key WHERE c.expires_at > ?1 AND c.hidden = 0
  UNION ALL
  SELECT key, session_key, agent_id, harness, project, runtime_path, provider, started_at, last_seen_at FROM announced_sessions
  WHERE last_seen_at > ?2 AND key NOT IN (SELECT key FROM session_claims WHERE expires_at > ?1 AND hidden = 0)`;

type Row = Record<string, unknown>;

/** Presence on `session_claims`, which every hook keeps fresh, and `announced_sessions`. */
export function createPresenceStore({ db, clock, read, note }: Access): PresenceStore {
  const find = (key: string): Presence | undefined => {
    const now = clock.now();
    const row = cachedStatement(db, `SELECT * FROM (${LIVE}) WHERE key = ?3`).get(now, now - PRESENCE_TTL_MS, key);
    return row && toPresence(row);
  };
  return {
    list: (filter) => read(() => listPeers(db, filter, clock.now())),
    find: (key) => read(() => find(key)),
    onProject: (project, { except = '', limit }) =>
      read(() => {
        const sql = `SELECT key, key AS session_key, agent_id, harness, project, runtime_path, claimed_at AS started_at, last_seen_at
          FROM session_claims WHERE project = ? AND key <> ? AND expires_at > ? AND hidden = 0 ORDER BY last_seen_at DESC LIMIT ?`;
        return cachedStatement(db, sql).all(project, except, clock.now(), limit).map(toPresence);
      }),
    hasAgent: (agentId) => read(() => countLive(db, { agentId }, clock.now()) > 0),
    announce: (draft) =>
      note(() => {
        refuseTaken(find(draft.key), draft);
        announce(db, draft, clock.now());
        return find(draft.key)!;
      }),
    remove: (key) =>
      note(() => {
        const there = find(key) !== undefined;
        cachedStatement(db, 'DELETE FROM announced_sessions WHERE key = ?').run(key);
        cachedStatement(db, 'UPDATE session_claims SET hidden = 1 WHERE key = ?').run(key);
        return there;
      }),
    purge: (limit) =>
      note(() => {
        const sql = `DELETE FROM announced_sessions WHERE key IN
          (SELECT key FROM announced_sessions WHERE last_seen_at <= ? ORDER BY last_seen_at LIMIT ?)`;
        return Number(cachedStatement(db, sql).run(clock.now() - PRESENCE_TTL_MS, limit).changes);
      }),
  };
}

/** Live sessions of an agent, or of all; one of them may be left out. */
export function countLive(
  db: DatabaseSync,
  { agentId, sessionKey, except, exceptAgent }: { agentId?: string; sessionKey?: string; except?: string; exceptAgent?: string },
  nowMs: number,
): number {
  const sql = `SELECT count(*) AS n FROM (${LIVE})
    WHERE (?3 IS NULL OR agent_id = ?3) AND (?4 IS NULL OR key = ?4) AND (?5 IS NULL OR key <> ?5)
      AND (?6 IS NULL OR agent_id <> ?6)`;
  const values = [agentId ?? null, sessionKey ?? null, except ?? null, exceptAgent ?? null];
  return Number(cachedStatement(db, sql).get(nowMs, nowMs - PRESENCE_TTL_MS, ...values)?.n);
}

function listPeers(db: DatabaseSync, filter: PeerFilter, nowMs: number): Presence[] {
  const { agentId, sessionKey = null, includeSelf, project = null, limit } = filter;
  const sql = `SELECT * FROM (${LIVE}) WHERE (?3 = 1 OR agent_id <> ?4) AND (?5 IS NULL OR key <> ?5) AND (?6 IS NULL OR project = ?6)
    ORDER BY last_seen_at DESC, started_at DESC, key LIMIT ?7`;
  const values = [includeSelf ? 1 : 0, agentId, sessionKey, project, limit];
  return cachedStatement(db, sql)
    .all(nowMs, nowMs - PRESENCE_TTL_MS, ...values)
    .map(toPresence);
}

/** Messages to a session go to whose it is, so it must not change hands while it lives. */
function refuseTaken(held: Presence | undefined, { key, agentId }: PresenceDraft): void {
  if (held === undefined || held.agentId === agentId) return;
  throw new AppError('session_key_taken', {
    detail: `sessionKey: ${JSON.stringify(key)} is a live session of another agent than ${agentId}; use another key, or remove that session first`,
  });
}

function announce(db: DatabaseSync, draft: PresenceDraft, nowMs: number): void {
  const known = cachedStatement(db, 'SELECT last_seen_at FROM announced_sessions WHERE key = ?').get(draft.key);
  if (!known && Number(cachedStatement(db, 'SELECT count(*) AS n FROM announced_sessions').get()?.n) >= ANNOUNCED_MAX)
    throw new AppError('overloaded', {
      detail: `${ANNOUNCED_MAX} sessions have announced themselves; remove those that are gone`,
      retryAfterMs: 60_000,
    });
  const isLive = known !== undefined && Number(known.last_seen_at) > nowMs - PRESENCE_TTL_MS;
  const sql = `INSERT INTO announced_sessions (key, session_key, agent_id, harness, project, runtime_path, provider, started_at, last_seen_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
    ON CONFLICT (key) DO UPDATE SET session_key = excluded.session_key, agent_id = excluded.agent_id, harness = excluded.harness,
      project = excluded.project, runtime_path = excluded.runtime_path, provider = excluded.provider,
      started_at = CASE WHEN ?9 = 1 THEN started_at ELSE excluded.started_at END, last_seen_at = excluded.last_seen_at`;
  const { key, sessionKey = null, agentId, harness, project = null, runtimePath = null, provider = null } = draft;
  cachedStatement(db, sql).run(key, sessionKey, agentId, harness, project, runtimePath, provider, nowMs, isLive ? 1 : 0);
}

function toPresence(row: Row): Presence {
  const optional = (name: string, value: unknown) => (value === null || value === undefined ? {} : { [name]: String(value) });
  return {
    key: String(row.key),
    ...optional('sessionKey', row.session_key),
    agentId: String(row.agent_id),
    harness: String(row.harness),
    ...optional('project', row.project),
    ...optional('runtimePath', row.runtime_path),
    ...optional('provider', row.provider),
    startedAt: isoTime(Number(row.started_at)),
    lastSeenAt: isoTime(Number(row.last_seen_at)),
  };
}
