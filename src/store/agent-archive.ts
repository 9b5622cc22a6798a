import type { Migration } from './sqlite.ts';

/**
 * When an agent was archived last, ms since 1970. What its sessions left behind until then is kept and not told any more; an agent that is set
 * up again under the name starts anew. One row an agent, so that archiving rewrites no turns; a purge deletes it like all rows of the agent.
 */
export const agentArchiveMigration: Migration = {
  name: 'when agents were archived',
  up: `
    CREATE TABLE agent_archives (agent_id TEXT PRIMARY KEY, archived_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    -- Agents that were archived before this was kept: their memories tell when.
    INSERT INTO agent_archives SELECT m.agent_id, max(h.created_at) FROM memory_history h JOIN memories m ON m.id = h.memory_id
      WHERE m.scope = 'archived' AND h.changed_fields = 'scope' GROUP BY m.agent_id;
  `,
};

/** Takes the agent and when the archive is made. */
export const NOTE_ARCHIVE = `INSERT INTO agent_archives (agent_id, archived_at) VALUES (?, ?)
  ON CONFLICT (agent_id) DO UPDATE SET archived_at = excluded.archived_at`;

/** A condition on rows of an agent: written after it was archived last, or never archived. The arguments are columns. */
export function sinceArchived(agentColumn: string, timeColumn: string): string {
  return `NOT EXISTS (SELECT 1 FROM agent_archives gone WHERE gone.agent_id = ${agentColumn} AND gone.archived_at >= ${timeColumn})`;
}
