import type { Access } from './memory-store-access.ts';
import { BUSY_TIMEOUT_MS, cachedStatement } from './sqlite.ts';

/** Full-text indexes over what can be purged. */
const INDEXES = ['memories_fts', 'transcript_fts', 'temporal_fts'] as const;
/** Merged in one transaction, which others wait for; unit: pages of an index. */
const MERGE_PAGES = 250;
/** More would be a fault of the index; at 4 KiB a page, an index of about 10 GB; unit: transactions. */
const MERGES_MAX = 10_000;
/** A merge that changes fewer rows than this had nothing to do. @see https://sqlite.org/fts5.html#the_merge_command */
const CHANGES_MIN = 2;

/**
 * Take the words of deleted rows off the disk. A full-text index notes which rows are gone and keeps their words until all its parts are
 * merged; the write-ahead log holds pages as they were. Pages themselves are overwritten by `secure_delete`.
 */
export async function dropPurgedWords(access: Access): Promise<void> {
  for (const index of INDEXES) {
    // Negative: parts of all sizes are merged, not only where many of one size have gathered.
    let isMore = await access.write(() => merge(access, index, -MERGE_PAGES));
    for (let merges = 1; isMore && merges < MERGES_MAX; merges += 1) isMore = await access.write(() => merge(access, index, MERGE_PAGES));
  }
  await access.read(() => {
    // Who reads just now keeps the log; it goes with the next time, or when the daemon stops. Not worth a wait.
    access.db.exec(`PRAGMA busy_timeout = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  });
}

function merge({ db }: Access, index: string, pages: number): boolean {
  const changes = (): number => Number(cachedStatement(db, 'SELECT total_changes() AS n').get()?.n);
  const before = changes();
  cachedStatement(db, `INSERT INTO ${index}(${index}, rank) VALUES ('merge', ?)`).run(pages);
  return changes() - before >= CHANGES_MIN;
}
