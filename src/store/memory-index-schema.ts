import type { DatabaseSync } from 'node:sqlite';
import { canonicalText, contentHash } from '../core/memory-hash.ts';
import type { Migration } from './sqlite.ts';

/** What recall keeps beside the memories themselves. Times are ms since 1970. */
export const recallMigration: Migration = {
  name: 'queries behind ratings, vectors, duplicates told by their words',
  up: (db) => {
    db.exec(TABLES);
    rehash(db);
  },
};

const TABLES = `
  -- How many memories hold a term is known by the index.
  DROP TABLE memory_terms;

  CREATE INDEX memories_archived ON memories(agent_id) WHERE deleted_at IS NULL AND scope = 'archived';

  -- Stems of the last query of a line, separated by spaces.
  ALTER TABLE session_lines ADD COLUMN query_terms TEXT;
  -- Those of the query a memory was rated for.
  ALTER TABLE memory_feedback ADD COLUMN terms TEXT;
  CREATE INDEX memory_feedback_by_memory ON memory_feedback(agent_id, memory_id);
  CREATE TRIGGER rating_keeps_query AFTER INSERT ON memory_feedback WHEN new.rating > 0 BEGIN
    UPDATE memory_feedback SET terms = (
        SELECT line.query_terms FROM session_lines line JOIN session_memories hit
          ON hit.agent_id = line.agent_id AND hit.session_key = line.session_key AND hit.turn = line.turns AND hit.memory_id = new.memory_id
        WHERE line.agent_id = new.agent_id AND line.session_key = new.session_key)
      WHERE agent_id = new.agent_id AND session_key = new.session_key AND memory_id = new.memory_id;
  END;

  -- One vector a memory, of one model; int8, scaled to length 127.
  CREATE TABLE memory_vectors (
    seq INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    dimensions INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
  CREATE TRIGGER vector_of_purged AFTER DELETE ON memories BEGIN
    DELETE FROM memory_vectors WHERE seq = old.seq;
  END;
`;

/** What was told apart before may be the same now; the older of two such memories keeps the hash, both are kept. */
function rehash(db: DatabaseSync): void {
  const update = db.prepare('UPDATE OR IGNORE memories SET content_hash = ?, normalized = ? WHERE seq = ?');
  const rows = db.prepare('SELECT seq, content FROM memories ORDER BY seq').all();
  for (const { seq, content } of rows) update.run(contentHash(String(content)), canonicalText(String(content)), Number(seq));
}
