import type { Migration } from './sqlite.ts';

/**
 * Who is there, and what they say to each other. Sessions that hooks were heard of stand in `session_claims`; `hidden` is one that said
 * goodbye without an end, until its next hook. A row of `agent_message_reads` with a `turn_key` was put into an inject that may not have
 * arrived; session '' is the agent as a whole.
 */
export const crossAgentMigration: Migration = {
  name: 'presence of sessions and messages between agents',
  up: `
    ALTER TABLE session_claims ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX session_claims_by_project ON session_claims(project, last_seen_at) WHERE project IS NOT NULL;
    CREATE TABLE announced_sessions (
      key TEXT PRIMARY KEY,
      session_key TEXT,
      agent_id TEXT NOT NULL,
      harness TEXT NOT NULL,
      project TEXT,
      runtime_path TEXT,
      provider TEXT,
      started_at INTEGER NOT NULL,
      last_seen_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX announced_sessions_by_time ON announced_sessions(last_seen_at);

    -- AUTOINCREMENT: a number is the cursor of a stream and must not come back.
    CREATE TABLE agent_messages (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      from_agent_id TEXT NOT NULL,
      from_session_key TEXT,
      to_agent_id TEXT,
      to_session_key TEXT,
      content TEXT NOT NULL,
      type TEXT NOT NULL,
      broadcast INTEGER NOT NULL,
      path TEXT NOT NULL,
      status TEXT NOT NULL,
      error_code TEXT,
      error TEXT,
      receipt TEXT,
      recipients INTEGER NOT NULL,
      -- Anybody has read it, or was shown it.
      heard INTEGER NOT NULL DEFAULT 0,
      created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX agent_messages_by_target ON agent_messages(to_agent_id, seq) WHERE to_agent_id IS NOT NULL;
    CREATE INDEX agent_messages_by_session ON agent_messages(to_session_key, seq) WHERE to_session_key IS NOT NULL;
    CREATE INDEX agent_messages_unheard ON agent_messages(to_agent_id, seq) WHERE heard = 0 AND to_agent_id IS NOT NULL;
    CREATE INDEX agent_messages_by_sender ON agent_messages(from_agent_id, seq);
    CREATE INDEX agent_messages_to_all ON agent_messages(seq) WHERE broadcast = 1;
    CREATE INDEX agent_messages_by_time ON agent_messages(created_at);
    CREATE INDEX agent_messages_unsettled ON agent_messages(seq) WHERE path = 'acp' AND status = 'queued';

    CREATE TABLE agent_message_reads (
      message_seq INTEGER NOT NULL REFERENCES agent_messages(seq) ON DELETE CASCADE,
      agent_id TEXT NOT NULL,
      session_key TEXT NOT NULL,
      turn_key TEXT,
      read_at INTEGER NOT NULL,
      PRIMARY KEY (message_seq, agent_id, session_key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX agent_message_reads_offered ON agent_message_reads(session_key, turn_key) WHERE turn_key IS NOT NULL;
  `,
};
