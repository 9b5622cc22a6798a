import type { Migration } from './sqlite.ts';

/**
 * What a memory goes through after it was written. `superseded_by` is kept on the older memory as long as the newer one lives, so that
 * readers need no join; it never names a memory that somebody who sees the older one may not see.
 */
export const memoryLifecycle: Migration = {
  name: 'superseded memories, who changed them and for which session, imports of other databases',
  up: `
    ALTER TABLE memories ADD COLUMN supersedes TEXT;
    ALTER TABLE memories ADD COLUMN superseded_by TEXT;
    CREATE INDEX memories_by_superseded ON memories(supersedes) WHERE supersedes IS NOT NULL;
    CREATE INDEX memories_by_deletion ON memories(deleted_at) WHERE deleted_at IS NOT NULL;
    CREATE TRIGGER memory_recovered AFTER UPDATE OF deleted_at ON memories WHEN old.deleted_at IS NOT NULL AND new.deleted_at IS NULL BEGIN
      INSERT INTO memories_fts(rowid, content) VALUES (new.seq, new.content);
    END;

    ALTER TABLE memory_history ADD COLUMN changed_fields TEXT;
    ALTER TABLE memory_history ADD COLUMN actor_type TEXT;
    ALTER TABLE memory_history ADD COLUMN session_id TEXT;
    ALTER TABLE memory_history ADD COLUMN request_id TEXT;
    CREATE INDEX memory_history_by_time ON memory_history(created_at);

    ALTER TABLE session_claims ADD COLUMN parent_key TEXT;
    ALTER TABLE session_claims ADD COLUMN harness_agent_id TEXT;
    ALTER TABLE session_lines ADD COLUMN parent_key TEXT;
    ALTER TABLE session_lines ADD COLUMN harness_agent_id TEXT;

    -- Databases of other daemons that were taken over: once and never again.
    CREATE TABLE adopted_databases (
      path TEXT PRIMARY KEY,
      memories INTEGER NOT NULL,
      skipped INTEGER NOT NULL,
      adopted_at INTEGER NOT NULL
    ) STRICT;
  `,
};
