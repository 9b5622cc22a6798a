import type { Migration } from './sqlite.ts';

/** Times are ms since 1970. A document whose hash is null is being written, or was when the process ended. */
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
