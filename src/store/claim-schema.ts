import type { Migration } from './sqlite.ts';

/**
 * A key may be used by several agents at a time; each has a claim of its own. `claim_holders` follows its claim, also to another agent, and
 * names it `claim_agent`: what is done to all tables with an `agent_id` is not meant for it.
 */
export const claimsByAgentMigration: Migration = {
  name: 'session claims by key and agent',
  up: `
    CREATE TABLE claims_by_agent (
      key TEXT NOT NULL,
      harness TEXT NOT NULL,
      runtime_path TEXT NOT NULL,
      agent_id TEXT NOT NULL,
      project TEXT,
      claimed_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL,
      expires_at INTEGER NOT NULL,
      bypassed INTEGER NOT NULL DEFAULT 0,
      parent_key TEXT,
      harness_agent_id TEXT,
      hidden INTEGER NOT NULL DEFAULT 0,
      PRIMARY KEY (key, agent_id)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO claims_by_agent SELECT key, harness, runtime_path, agent_id, project, claimed_at, last_seen_at, expires_at, bypassed,
      parent_key, harness_agent_id, hidden FROM session_claims;
    CREATE TABLE holders_by_agent (
      key TEXT NOT NULL,
      claim_agent TEXT NOT NULL,
      holder TEXT NOT NULL,
      PRIMARY KEY (key, claim_agent, holder),
      FOREIGN KEY (key, claim_agent) REFERENCES claims_by_agent(key, agent_id) ON DELETE CASCADE ON UPDATE CASCADE
    ) STRICT, WITHOUT ROWID;
    INSERT INTO holders_by_agent SELECT h.key, c.agent_id, h.holder FROM claim_holders h JOIN session_claims c ON c.key = h.key;
    DROP TABLE claim_holders;
    DROP TABLE session_claims;
    ALTER TABLE claims_by_agent RENAME TO session_claims;
    ALTER TABLE holders_by_agent RENAME TO claim_holders;
    CREATE INDEX session_claims_by_expiry ON session_claims(expires_at);
    CREATE INDEX session_claims_by_project ON session_claims(project, last_seen_at) WHERE project IS NOT NULL;
  `,
};

/** The path of a claim whose session named none gives way to one that is named. */
export const claimPathMigration: Migration = {
  name: 'session claims of no named path',
  up: 'ALTER TABLE session_claims ADD COLUMN path_assumed INTEGER NOT NULL DEFAULT 0',
};
