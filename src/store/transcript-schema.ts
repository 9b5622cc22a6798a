import type { Migration } from './sqlite.ts';

/** Raw turns, the queue of background jobs, the temporal graph, continuity and the head of MEMORY.md. Times are ms since 1970. */
export const TRANSCRIPT_SCHEMA = `
  -- Turns as they were said, numbered from 1 within a line; never rewritten.
  CREATE TABLE transcript_turns (
    seq INTEGER PRIMARY KEY,
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    number INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    said_at INTEGER,
    stored_at INTEGER NOT NULL,
    UNIQUE (agent_id, session_key, number)
  ) STRICT;
  CREATE VIRTUAL TABLE transcript_fts USING fts5(
    content, content = 'transcript_turns', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2');
  CREATE VIRTUAL TABLE transcript_vocabulary USING fts5vocab(transcript_fts, 'row');
  CREATE TRIGGER transcript_kept AFTER INSERT ON transcript_turns BEGIN
    INSERT INTO transcript_fts(rowid, content) VALUES (new.seq, new.content);
  END;
  CREATE TRIGGER transcript_dropped AFTER DELETE ON transcript_turns BEGIN
    INSERT INTO transcript_fts(transcript_fts, rowid, content) VALUES ('delete', old.seq, old.content);
  END;

  -- One row a line: where it belongs, and up to which turn jobs have been queued.
  CREATE TABLE transcript_lines (
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    harness TEXT NOT NULL,
    project TEXT,
    turns INTEGER NOT NULL,
    queued_to INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, session_key)
  ) STRICT, WITHOUT ROWID;

  -- Transcripts that were kept in one piece. Without fingerprints a transcript that is sent again is kept again.
  INSERT INTO transcript_lines (agent_id, session_key, harness, project, turns, updated_at)
    SELECT agent_id, session_key, coalesce(harness, 'unknown'), project, json_array_length(transcript), updated_at
    FROM session_lines WHERE transcript IS NOT NULL;
  INSERT INTO transcript_turns (agent_id, session_key, number, role, content, fingerprint, said_at, stored_at)
    SELECT l.agent_id, l.session_key, t.key + 1, t.value ->> 'role', t.value ->> 'content', '',
      unixepoch(t.value ->> 'at') * 1000, l.updated_at
    FROM session_lines l, json_each(l.transcript) t WHERE l.transcript IS NOT NULL;
  ALTER TABLE session_lines DROP COLUMN transcript;

  -- Which turns a memory was taken from.
  CREATE TABLE memory_sources (
    memory_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    turn_from INTEGER NOT NULL,
    turn_to INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    PRIMARY KEY (memory_id, agent_id, session_key, turn_from, turn_to)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    session_key TEXT,
    payload TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'waiting', 'running', 'done', 'dead')),
    reason TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until INTEGER,
    answer TEXT,
    error_code TEXT,
    error TEXT,
    result TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX jobs_open ON jobs(due_at, seq) WHERE state IN ('queued', 'waiting', 'running');
  CREATE INDEX jobs_ended ON jobs(updated_at) WHERE state IN ('done', 'dead');
  CREATE INDEX jobs_by_line ON jobs(agent_id, kind, session_key, state);

  CREATE TABLE temporal_nodes (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent_id TEXT NOT NULL,
    project TEXT,
    session_key TEXT,
    harness TEXT,
    kind TEXT NOT NULL CHECK (kind IN ('session', 'compaction', 'arc', 'epoch')),
    depth INTEGER NOT NULL,
    content TEXT NOT NULL,
    memory_id TEXT,
    source TEXT UNIQUE,
    parent_id TEXT,
    earliest_at INTEGER NOT NULL,
    latest_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX temporal_heads ON temporal_nodes(agent_id, depth, latest_at) WHERE parent_id IS NULL;
  CREATE INDEX temporal_threads ON temporal_nodes(agent_id, session_key, project, depth, seq) WHERE parent_id IS NULL;
  CREATE INDEX temporal_children ON temporal_nodes(parent_id) WHERE parent_id IS NOT NULL;
  CREATE VIRTUAL TABLE temporal_fts USING fts5(
    content, content = 'temporal_nodes', content_rowid = 'seq', tokenize = 'porter unicode61 remove_diacritics 2');
  CREATE VIRTUAL TABLE temporal_vocabulary USING fts5vocab(temporal_fts, 'row');
  CREATE TRIGGER temporal_kept AFTER INSERT ON temporal_nodes BEGIN
    INSERT INTO temporal_fts(rowid, content) VALUES (new.seq, new.content);
  END;
  CREATE TRIGGER temporal_dropped AFTER DELETE ON temporal_nodes BEGIN
    INSERT INTO temporal_fts(temporal_fts, rowid, content) VALUES ('delete', old.seq, old.content);
  END;

  -- The prompts of a running line since its last checkpoint, and the checkpoint itself.
  CREATE TABLE session_prompts (
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    prompts INTEGER NOT NULL,
    recent TEXT NOT NULL,
    checkpoint TEXT,
    checkpoint_at INTEGER,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, session_key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE session_scores (
    job_id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    score REAL NOT NULL,
    confidence REAL NOT NULL,
    reasoning TEXT NOT NULL,
    memories_used INTEGER NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX session_scores_by_line ON session_scores(agent_id, session_key, created_at);
  CREATE TABLE session_relevance (
    agent_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    memory_id TEXT NOT NULL,
    relevance REAL NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent_id, session_key, memory_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE synthesis_heads (
    agent_id TEXT PRIMARY KEY,
    generation INTEGER NOT NULL DEFAULT 0,
    written_at INTEGER,
    lease_owner TEXT,
    lease_until INTEGER
  ) STRICT, WITHOUT ROWID;
`;

/** Ends of the process while a job ran, which are no attempts. */
export const jobInterruptionsMigration: Migration = {
  name: 'interruptions of jobs',
  up: 'ALTER TABLE jobs ADD COLUMN interruptions INTEGER NOT NULL DEFAULT 0',
};

/** Counts the commits that are acknowledged, to be compared with the mark beside the file. */
export const commitCountMigration: Migration = {
  name: 'count of commits',
  up: `
    CREATE TABLE commit_count (one INTEGER PRIMARY KEY CHECK (one = 1), n INTEGER NOT NULL) STRICT;
    INSERT INTO commit_count VALUES (1, 0);
  `,
};
