import { agentArchiveMigration } from './agent-archive.ts';
import { claimPathMigration, claimsByAgentMigration } from './claim-schema.ts';
import { crossAgentMigration } from './cross-agent-schema.ts';
import { documentMigration, documentWorkMigration } from './document-schema.ts';
import { recallMigration } from './memory-index-schema.ts';
import { memoryLifecycle } from './memory-lifecycle-schema.ts';
import type { Migration } from './sqlite.ts';
import { commitCountMigration, jobInterruptionsMigration, TRANSCRIPT_SCHEMA } from './transcript-schema.ts';

/**
 * Steps of memory.db. Times are ms since 1970.
 * `seq` is declared because the full-text index refers to rows by number and VACUUM may renumber undeclared ones.
 */
export const memoryMigrations: readonly Migration[] = [
  {
    name: 'memories with full-text index and history, session claims, session lines',
    up: `
      CREATE TABLE memories (
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        content TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        normalized TEXT NOT NULL,
        type TEXT NOT NULL,
        importance REAL NOT NULL,
        tags TEXT,
        pinned INTEGER NOT NULL,
        who TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        scope TEXT NOT NULL CHECK (scope IN ('global', 'private', 'archived')),
        project TEXT,
        source_type TEXT NOT NULL,
        source_id TEXT,
        session_id TEXT,
        idempotency_key TEXT,
        version INTEGER NOT NULL DEFAULT 1,
        access_count INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        deleted_at INTEGER
      ) STRICT;
      CREATE UNIQUE INDEX memories_by_content ON memories(agent_id, scope, content_hash) WHERE deleted_at IS NULL;
      CREATE UNIQUE INDEX memories_by_key ON memories(agent_id, scope, idempotency_key) WHERE idempotency_key IS NOT NULL AND deleted_at IS NULL;
      CREATE INDEX memories_by_time ON memories(created_at DESC) WHERE deleted_at IS NULL;
      CREATE INDEX memories_by_importance ON memories(importance DESC, created_at DESC) WHERE deleted_at IS NULL;

      CREATE VIRTUAL TABLE memories_fts USING fts5(
        content, content = 'memories', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2');
      CREATE TRIGGER memory_remembered AFTER INSERT ON memories WHEN new.deleted_at IS NULL BEGIN
        INSERT INTO memories_fts(rowid, content) VALUES (new.seq, new.content);
      END;
      CREATE TRIGGER memory_rewritten AFTER UPDATE OF content ON memories WHEN old.content <> new.content AND old.deleted_at IS NULL BEGIN
        INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.seq, old.content);
        INSERT INTO memories_fts(rowid, content) VALUES (new.seq, new.content);
      END;
      CREATE TRIGGER memory_forgotten AFTER UPDATE OF deleted_at ON memories WHEN old.deleted_at IS NULL AND new.deleted_at IS NOT NULL BEGIN
        INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.seq, old.content);
      END;
      CREATE TRIGGER memory_purged AFTER DELETE ON memories WHEN old.deleted_at IS NULL BEGIN
        INSERT INTO memories_fts(memories_fts, rowid, content) VALUES ('delete', old.seq, old.content);
      END;

      -- How many memories of one view hold a term; the empty term counts the memories. A view is 'global' or 'private:<agent>'.
      CREATE TABLE memory_terms (view TEXT NOT NULL, term TEXT NOT NULL, documents INTEGER NOT NULL, PRIMARY KEY (view, term)) STRICT, WITHOUT ROWID;

      CREATE TABLE memory_history (
        seq INTEGER PRIMARY KEY,
        memory_id TEXT NOT NULL,
        event TEXT NOT NULL,
        version INTEGER NOT NULL,
        reason TEXT,
        changed_by TEXT NOT NULL,
        old_content TEXT,
        new_content TEXT,
        created_at INTEGER NOT NULL
      ) STRICT;
      CREATE INDEX memory_history_by_memory ON memory_history(memory_id, seq);

      CREATE TABLE session_claims (
        key TEXT PRIMARY KEY,
        harness TEXT NOT NULL,
        runtime_path TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        project TEXT,
        claimed_at INTEGER NOT NULL,
        last_seen_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        bypassed INTEGER NOT NULL DEFAULT 0
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX session_claims_by_expiry ON session_claims(expires_at);

      CREATE TABLE session_lines (
        agent_id TEXT NOT NULL,
        session_key TEXT NOT NULL,
        harness TEXT,
        project TEXT,
        summary TEXT,
        tail TEXT,
        transcript TEXT,
        transcript_path TEXT,
        reason TEXT,
        ended_at INTEGER,
        updated_at INTEGER NOT NULL,
        turns INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (agent_id, session_key)
      ) STRICT;

      CREATE TABLE session_memories (
        agent_id TEXT NOT NULL,
        session_key TEXT NOT NULL,
        turn INTEGER NOT NULL,
        memory_id TEXT NOT NULL,
        rank INTEGER NOT NULL,
        score REAL NOT NULL,
        injected INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (agent_id, session_key, turn, memory_id)
      ) STRICT, WITHOUT ROWID;
      CREATE INDEX session_memories_by_time ON session_memories(created_at);

      CREATE TABLE memory_feedback (
        agent_id TEXT NOT NULL,
        session_key TEXT NOT NULL,
        memory_id TEXT NOT NULL,
        rating REAL NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (agent_id, session_key, memory_id)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    name: 'holders of session claims',
    up: `
      CREATE TABLE claim_holders (
        key TEXT NOT NULL REFERENCES session_claims(key) ON DELETE CASCADE,
        holder TEXT NOT NULL,
        PRIMARY KEY (key, holder)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  { name: 'transcripts, jobs, temporal graph, continuity and synthesis heads', up: TRANSCRIPT_SCHEMA },
  memoryLifecycle,
  recallMigration,
  crossAgentMigration,
  documentMigration,
  agentArchiveMigration,
  claimsByAgentMigration,
  claimPathMigration,
  documentWorkMigration,
  jobInterruptionsMigration,
  commitCountMigration,
];
