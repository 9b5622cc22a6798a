import type { DatabaseSync } from 'node:sqlite';
import type { SessionClaim } from '../contract/daemon.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { type ClaimRequest, type ClaimStore, claimOf, type ReleaseOptions, type RuntimePath } from '../core/memory-store.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** A claim lives this long after the last hook of its session; unit: milliseconds. */
export const CLAIM_TTL_MS = 4 * 3_600_000;
/** The path of a session whose hooks name none, such as those of the CLI. */
const PATH_ASSUMED = 'legacy';
/** Sessions in one list; the newest. */
const CLAIMS_LISTED_MAX = 10_000;

/** Claims of sessions on the table `session_claims`; who holds them on `claim_holders`, whose rows go with their claim. */
export function createClaimStore({ db, clock, read, note }: Access): ClaimStore {
  const live = (key: string): SessionClaim[] => {
    const sql = 'SELECT * FROM session_claims WHERE key = ? AND expires_at > ? ORDER BY last_seen_at DESC, agent_id';
    return cachedStatement(db, sql).all(key, clock.now()).map(toClaim);
  };
  return {
    take: (request, options) => note(() => takeClaim(db, live(request.key), request, options?.restart ?? false, clock.now())),
    check: (request) => read(() => refuseOtherPath(db, live(request.key), request)),
    get: (key) => read(() => live(key)[0]),
    under: (key) => read(() => live(key)),
    list: (agentId, project) =>
      read(() => {
        const sql = `SELECT * FROM session_claims WHERE expires_at > ?1 AND (?2 IS NULL OR agent_id = ?2) AND (?3 IS NULL OR project = ?3)
          ORDER BY claimed_at DESC, key LIMIT ${CLAIMS_LISTED_MAX}`;
        return cachedStatement(db, sql)
          .all(clock.now(), agentId ?? null, project ?? null)
          .map(toClaim);
      }),
    release: (key, options = {}) => note(() => releaseClaim(db, key, options)),
    setBypass: (key, enabled, agentId) =>
      note(() => {
        const sql = 'UPDATE session_claims SET bypassed = ?1 WHERE key = ?2 AND expires_at > ?3 AND (?4 IS NULL OR agent_id = ?4)';
        cachedStatement(db, sql).run(enabled ? 1 : 0, key, clock.now(), agentId ?? null);
        return live(key).find((claim) => agentId === undefined || claim.agentId === agentId);
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
        const sql = `DELETE FROM session_claims WHERE (key, agent_id) IN
          (SELECT key, agent_id FROM session_claims WHERE expires_at <= ? ORDER BY expires_at LIMIT ?) RETURNING *`;
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

function takeClaim(db: DatabaseSync, live: readonly SessionClaim[], request: ClaimRequest, restart: boolean, nowMs: number): SessionClaim {
  refuseOtherPath(db, live, request);
  const held = claimOf(live, request.agentId);
  // Before the new row: an expired claim of the same key must not leave its holders to the next one.
  cachedStatement(db, 'DELETE FROM session_claims WHERE key = ? AND expires_at <= ?').run(request.key, nowMs);
  const keep = restart ? undefined : held;
  const agentId = keep?.agentId ?? request.agentId;
  if (held && held.agentId !== agentId)
    cachedStatement(db, 'UPDATE session_claims SET agent_id = ? WHERE key = ? AND agent_id = ?').run(agentId, request.key, held.agentId);
  // Who does not say which of several sessions it is may be the one that is to be left alone.
  const bypassed = held ? held.bypassed : request.agentId === DEFAULT_AGENT && live.some((claim) => claim.bypassed);
  const row = cachedStatement(
    db,
    // Not INSERT OR REPLACE: that deletes the row first, and its holders with it.
    `INSERT INTO session_claims (key, harness, runtime_path, agent_id, project, claimed_at, last_seen_at, expires_at, bypassed,
       parent_key, harness_agent_id, path_assumed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (key, agent_id) DO UPDATE SET harness = excluded.harness, runtime_path = excluded.runtime_path, project = excluded.project, claimed_at = excluded.claimed_at, last_seen_at = excluded.last_seen_at,
       expires_at = excluded.expires_at, bypassed = excluded.bypassed, parent_key = excluded.parent_key,
       harness_agent_id = excluded.harness_agent_id, path_assumed = min(path_assumed, excluded.path_assumed), hidden = 0
     RETURNING *`,
  ).get(
    request.key,
    keep?.harness ?? request.harness,
    request.runtimePath ?? (held ?? live[0])?.runtimePath ?? PATH_ASSUMED,
    agentId,
    keep?.project ?? request.project ?? held?.project ?? null,
    held ? Date.parse(held.claimedAt) : nowMs,
    nowMs,
    nowMs + CLAIM_TTL_MS,
    bypassed ? 1 : 0,
    request.parentKey ?? held?.parentKey ?? null,
    request.harnessAgentId ?? held?.harnessAgentId ?? null,
    request.runtimePath === undefined ? 1 : 0,
  );
  if (request.holder !== undefined) {
    cachedStatement(db, 'INSERT OR IGNORE INTO claim_holders (key, claim_agent, holder) VALUES (?, ?, ?)').run(
      request.key,
      agentId,
      request.holder,
    );
  }
  return toClaim(row!);
}

/** A path that was only assumed gives way to one that is named. */
function refuseOtherPath(
  db: DatabaseSync,
  live: readonly SessionClaim[],
  { key, runtimePath }: Pick<ClaimRequest, 'key' | 'runtimePath'>,
): void {
  const others = live.filter((claim) => runtimePath !== undefined && claim.runtimePath !== runtimePath);
  const sql = 'SELECT 1 FROM session_claims WHERE key = ? AND agent_id = ? AND path_assumed = 0';
  const other = others.find((claim) => cachedStatement(db, sql).get(key, claim.agentId) !== undefined);
  if (other === undefined) return;
  // Clients of this API read exactly this sentence.
  throw new AppError('session_claimed', { detail: `session claimed by ${other.runtimePath} path`, extra: { sessionKey: key } });
}

function releaseClaim(db: DatabaseSync, key: string, options: ReleaseOptions): void {
  const { holder, agentId } = { holder: options.holder ?? null, agentId: options.agentId ?? null };
  const sql = 'DELETE FROM claim_holders WHERE key = ?1 AND holder = ?2 AND (?3 IS NULL OR claim_agent = ?3)';
  if (holder !== null) cachedStatement(db, sql).run(key, holder, agentId);
  const released = `DELETE FROM session_claims WHERE key = ?1 AND (?3 IS NULL OR agent_id = ?3)
    AND (?2 IS NULL OR NOT EXISTS (SELECT 1 FROM claim_holders h WHERE h.key = ?1 AND h.claim_agent = session_claims.agent_id))`;
  cachedStatement(db, released).run(key, holder, agentId);
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
