import type { Migration } from './sqlite.ts';

/**
 * `signals.body` is the JSON text without `gseq`; the other columns are copies for reads and filters.
 * `streams` keeps the head of a purged stream, `log_head` the newest gseq ever given: numbers are never used again.
 * `checkpoints.body` stands for the signals up to `seq`; `deletions.seq` is the newest signal of a stream that is to be deleted, in steps.
 * `cards.body` is the SessionCard as JSON; its columns are the ones listings filter and sort by.
 */
export const SIGNAL_LOG_MIGRATIONS: readonly Migration[] = [
  {
    name: 'signals, streams, snapshots and cards',
    up: `
      CREATE TABLE streams (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        head INTEGER NOT NULL,
        epoch INTEGER NOT NULL
      ) STRICT;
      CREATE TABLE signals (
        gseq INTEGER PRIMARY KEY,
        stream INTEGER NOT NULL REFERENCES streams (id),
        seq INTEGER NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        agent TEXT,
        body TEXT NOT NULL
      ) STRICT;
      CREATE UNIQUE INDEX signals_by_stream ON signals (stream, seq);
      CREATE TABLE log_head (one INTEGER PRIMARY KEY CHECK (one = 1), gseq INTEGER NOT NULL) STRICT;
      INSERT INTO log_head VALUES (1, 0);
      CREATE TABLE snapshots (
        stream INTEGER PRIMARY KEY REFERENCES streams (id),
        seq INTEGER NOT NULL,
        version TEXT NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE cards (
        id TEXT PRIMARY KEY,
        stream INTEGER NOT NULL REFERENCES streams (id),
        agent TEXT NOT NULL,
        state TEXT NOT NULL,
        open INTEGER NOT NULL,
        parent TEXT,
        updated_at TEXT NOT NULL,
        search TEXT NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX cards_by_stream ON cards (stream);
      CREATE INDEX cards_by_time ON cards (updated_at DESC, id);
      CREATE INDEX cards_by_agent ON cards (agent, updated_at DESC, id);
      CREATE INDEX cards_by_state ON cards (state, updated_at DESC, id);
      CREATE INDEX cards_by_parent ON cards (parent, updated_at DESC, id) WHERE parent IS NOT NULL;
      CREATE INDEX cards_open ON cards (updated_at DESC, id) WHERE open = 1;
    `,
  },
  {
    name: 'checkpoints, and signals marked for deletion',
    up: `
      CREATE TABLE checkpoints (
        stream INTEGER PRIMARY KEY REFERENCES streams (id),
        seq INTEGER NOT NULL,
        format INTEGER NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE TABLE deletions (stream INTEGER PRIMARY KEY REFERENCES streams (id), seq INTEGER NOT NULL) STRICT;
    `,
  },
  {
    name: 'several snapshots of a stream',
    // A snapshot is a cache; the sessions of today fold their logs once.
    up: `
      DROP TABLE snapshots;
      CREATE TABLE snapshots (
        stream INTEGER NOT NULL REFERENCES streams (id),
        seq INTEGER NOT NULL,
        version TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (stream, seq)
      ) STRICT;
    `,
  },
  {
    name: 'cards counted by state',
    // Counting them at each look at the health took 36 ms at 100,000.
    up: `
      CREATE TABLE card_counts (state TEXT PRIMARY KEY, cards INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO card_counts SELECT state, count(*) FROM cards GROUP BY state;
      CREATE TRIGGER cards_added AFTER INSERT ON cards BEGIN
        INSERT INTO card_counts VALUES (new.state, 1) ON CONFLICT (state) DO UPDATE SET cards = cards + 1;
      END;
      CREATE TRIGGER cards_removed AFTER DELETE ON cards BEGIN
        UPDATE card_counts SET cards = cards - 1 WHERE state = old.state;
      END;
      CREATE TRIGGER cards_moved AFTER UPDATE OF state ON cards WHEN old.state <> new.state BEGIN
        UPDATE card_counts SET cards = cards - 1 WHERE state = old.state;
        INSERT INTO card_counts VALUES (new.state, 1) ON CONFLICT (state) DO UPDATE SET cards = cards + 1;
      END;
    `,
  },
];
