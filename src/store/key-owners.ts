import type { DatabaseSync } from 'node:sqlite';
import type { Owner } from '../core/caller-scope.ts';
import { PRESENCE_TTL_MS } from '../core/cross-agent.ts';
import type { Access } from './memory-store-access.ts';
import { cachedStatement } from './sqlite.ts';

/** Tables that keep something of a session beyond its end; `session_prompts` does not say of which project. */
const LINES = { session_lines: 'project', transcript_lines: 'project', session_prompts: 'NULL' } as const;

/** Agents are few and lead the primary key of these tables: looked up one by one they cost no scan. */
const KEPT = Object.entries(LINES)
  .map(
    ([table, project]) => `SELECT agent_id, ${project} AS project FROM ${table} WHERE session_key = ?1 AND agent_id IN (
      WITH RECURSIVE agents (id) AS (SELECT min(agent_id) FROM ${table}
        UNION ALL SELECT (SELECT min(agent_id) FROM ${table} WHERE agent_id > id) FROM agents WHERE id IS NOT NULL)
      SELECT id FROM agents WHERE id IS NOT NULL)`,
  )
  .join(' UNION ');
const LIVE = `SELECT agent_id, project FROM session_claims WHERE key = ?1 AND expires_at > ?2
  UNION SELECT agent_id, project FROM announced_sessions WHERE key = ?1 AND last_seen_at > ?3`;

/**
 * Looks up whose a session key is: all live sessions under it, and all that ended ones left there. A line that does not say its project
 * takes it from what else is known of its agent under the key.
 */
export function createKeyOwners({ db, clock, read }: Access): (key: string) => Promise<Owner[]> {
  return (key) => read(() => ownersOf(db, key, clock.now()));
}

function ownersOf(db: DatabaseSync, key: string, nowMs: number): Owner[] {
  const live = cachedStatement(db, LIVE)
    .all(key, nowMs, nowMs - PRESENCE_TTL_MS)
    .map((row) => toOwner(row, true));
  const kept = cachedStatement(db, KEPT)
    .all(key)
    .map((row) => toOwner(row, false));
  const said = [...live, ...kept].filter(({ project }) => project !== null);
  const isSaid = ({ agent }: Owner): boolean => said.some((other) => other.agent === agent);
  return [...live, ...kept.filter((owner) => owner.project !== null || !isSaid(owner))];
}

function toOwner({ agent_id: agent, project }: Record<string, unknown>, isLive: boolean): Owner {
  return { agent: String(agent), project: project === null ? null : String(project), isLive };
}
