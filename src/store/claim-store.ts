import type { DatabaseSync } from 'node:sqlite';
import type { SessionClaim } from '../contract/daemon.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { ClaimRequest, ClaimStore, RuntimePath } from '../core/memory-store.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** A claim lives this long after the last hook of its session; unit: milliseconds. */
export const CLAIM_TTL_MS = 4 * 3_600_000;
/** Sessions in one list; the newest. */
const CLAIMS_LISTED_MAX = 10_000;

/** Claims of sessions on the table `session_claims`; who holds them on `claim_holders`, whose rows go with their claim. */
export function createClaimStore({ db, clock, read, note }: Access): ClaimStore {
  const live = (key: string): SessionClaim | undefined => {
    const row = cachedStatement(db, 'SELECT * FROM session_claims WHERE key = ? AND expires_at > ?').get(key, clock.now());
    return row && toClaim(row);
  };
  return {
    take: (request, options) => note(() => takeClaim(db, live(request.key), request, options?.restart ?? false, clock.now())),
    get: (key) => read(() => live(key)),
    list: (agentId) =>
      read(() => {
        const sql = `SELECT * FROM session_claims WHERE expires_at > ?1 AND (?2 IS NULL OR agent_id = ?2)
          ORDER BY claimed_at DESC, key LIMIT ${CLAIMS_LISTED_MAX}`;
        return cachedStatement(db, sql)
          .all(clock.now(), agentId ?? null)
          .map(toClaim);
      }),
    release: (key, holder) => note(() => releaseClaim(db, key, holder)),
    setBypass: (key, enabled) =>
      note(() => {
        const sql = 'UPDATE session_claims SET bypassed = ? WHERE key = ? AND expires_at > ?';
        cachedStatement(db, sql).run(enabled ? 1 : 0, key, clock.now());
        return live(key);
      }),
    likelyParent: (child) =>
      read(() => {
        const sql = `SELECT * FROM session_claims WHERE expires_at > ?1 AND key <> ?2 AND harness = ?3 AND harness_agent_id IS NULL
          AND (?4 IS NULL OR project IS NULL OR project = ?4) ORDER BY last_seen_at DESC, key LIMIT 1`;
        const row = cachedStatement(db, sql).get(clock.now(), child.key, child.harness, child.project ?? null);
        return row && toClaim(row);
      }),
    expire: (limit) =>
      note(() => {
        const sql = `DELETE FROM session_claims WHERE key IN
          (SELECT key FROM session_claims WHERE expires_at <= ? ORDER BY expires_at LIMIT ?) RETURNING *`;
        const rows = cachedStatement(db, sql).all(clock.now(), limit).map(toClaim);
        return rows.sort((a, b) => a.expiresAt.localeCompare(b.expiresAt));
      }),
    counts: () =>
      read(() => {
        const sql = 'SELECT count(*) AS active, total(bypassed) AS bypassed FROM session_claims WHERE expires_at > ?';
        const row = cachedStatement(db, sql).get(clock.now());
        return { active: Number(row?.active ?? 0), bypassed: Number(row?.bypassed ?? 0) };
      }),
  };
}

function takeClaim(db: DatabaseSync, held: SessionClaim | undefined, request: ClaimRequest, restart: boolean, nowMs: number): SessionClaim {
  if (held && held.runtimePath !== request.runtimePath) {
    // Clients of this API read exactly this sentence.
    throw new AppError('session_claimed', { detail: `session claimed by ${held.runtimePath} path`, extra: { sessionKey: request.key } });
  }
  // Before the new row: an expired claim of the same key must not leave its holders to the next one.
  if (!held) cachedStatement(db, 'DELETE FROM session_claims WHERE key = ?').run(request.key);
  const keep = restart ? undefined : held;
  const row = cachedStatement(
    db,
    // Not INSERT OR REPLACE: that deletes the row first, and its holders with it.
    `INSERT INTO session_claims (key, harness, runtime_path, agent_id, project, claimed_at, last_seen_at, expires_at, bypassed,
       parent_key, harness_agent_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (key) DO UPDATE SET harness = excluded.harness, runtime_path = excluded.runtime_path, agent_id = excluded.agent_id,
       project = excluded.project, claimed_at = excluded.claimed_at, last_seen_at = excluded.last_seen_at,
       expires_at = excluded.expires_at, bypassed = excluded.bypassed, parent_key = excluded.parent_key,
       harness_agent_id = excluded.harness_agent_id, hidden = 0
     RETURNING *`,
  ).get(
    request.key,
    keep?.harness ?? request.harness,
    request.runtimePath,
    keep?.agentId ?? request.agentId,
    keep?.project ?? request.project ?? held?.project ?? null,
    held ? Date.parse(held.claimedAt) : nowMs,
    nowMs,
    nowMs + CLAIM_TTL_MS,
    held?.bypassed ? 1 : 0,
    request.parentKey ?? held?.parentKey ?? null,
    request.harnessAgentId ?? held?.harnessAgentId ?? null,
  );
  if (request.holder !== undefined) {
    cachedStatement(db, 'INSERT OR IGNORE INTO claim_holders (key, holder) VALUES (?, ?)').run(request.key, request.holder);
  }
  return toClaim(row!);
}

function releaseClaim(db: DatabaseSync, key: string, holder: string | undefined): void {
  if (holder !== undefined) {
    cachedStatement(db, 'DELETE FROM claim_holders WHERE key = ? AND holder = ?').run(key, holder);
    if (cachedStatement(db, 'SELECT 1 FROM claim_holders WHERE key = ? LIMIT 1').get(key)) return;
  }
  cachedStatement(db, 'DELETE FROM session_claims WHERE key = ?').run(key);
}

function toClaim(row: Record<string, unknown>): SessionClaim {
  return {
    key: String(row.key),
    harness: String(row.harness),
    runtimePath: row.runtime_path as RuntimePath,
    agentId: String(row.agent_id),
    project: row.project === null ? null : String(row.project),
    parentKey: row.parent_key === null ? null : String(row.parent_key),
    harnessAgentId: row.harness_agent_id === null ? null : String(row.harness_agent_id),
    claimedAt: isoTime(Number(row.claimed_at)),
    lastSeenAt: isoTime(Number(row.last_seen_at)),
    expiresAt: isoTime(Number(row.expires_at)),
    bypassed: row.bypassed === 1,
  };
}
