import type { Migration } from './sqlite.ts';

/** Times are ms since 1970. */
export const documentMigration: Migration = {
  name: 'documents and the memories they were cut into',
  up: `
    CREATE TABLE documents (
      id INTEGER PRIMARY KEY,
      agent_id TEXT NOT NULL,
      source TEXT NOT NULL,
      title TEXT,
      scope TEXT NOT NULL,
      hash TEXT,
      created_at INTEGER NOT NULL,
      updated_at INTEGER NOT NULL,
      UNIQUE (agent_id, source)
    ) STRICT;
    CREATE TABLE document_chunks (
      document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
      memory_id TEXT NOT NULL,
      place INTEGER NOT NULL,
      PRIMARY KEY (document_id, memory_id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX document_chunks_by_memory ON document_chunks(memory_id);
  `,
};

/** Leaves out, over `memories m`, the pieces of a document that is being written or was broken off. */
export const NOT_LAID_DOWN = { sql: `m.id NOT IN (SELECT memory_id FROM document_work WHERE task IN ('publish', 'erase'))`, values: [] };

/**
 * A long document is written in pages. `writing`: its pieces are laid down where nobody finds them (as archived memories), and go when it breaks
 * off. `publishing` and `forgetting`: it is decided, and finished whatever happens; `pending` (JSON) says with what.
 */
export const documentWorkMigration: Migration = {
  name: 'documents written in pages',
  up: `
    ALTER TABLE documents ADD COLUMN state TEXT NOT NULL DEFAULT 'whole' CHECK (state IN ('whole', 'writing', 'publishing', 'forgetting'));
    ALTER TABLE documents ADD COLUMN pending TEXT;
    CREATE TABLE document_work (
      document_id INTEGER NOT NULL,
      memory_id TEXT NOT NULL,
      task TEXT NOT NULL CHECK (task IN ('publish', 'keep', 'forget', 'erase')),
      place INTEGER NOT NULL,
      supersedes TEXT,
      PRIMARY KEY (document_id, memory_id)
    ) STRICT, WITHOUT ROWID;
  `,
};
