import { readFileSync } from 'node:fs';
import { join } from 'node:path';

// The format of a write-ahead log, https://sqlite.org/fileformat2.html#walformat
const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const PAGE_SIZE_AT = 8;
const SALT_AT = 16;
const SALT_BYTES = 8;
/** In a frame's header: not zero in the last frame of a commit. */
const COMMIT_AT = 4;
const FRAME_SALT_AT = 8;

/** Commits that stand in the write-ahead log of the signal log now. Comparable as long as no checkpoint starts it anew. */
export function countCommits(folder: string): number {
  const wal = readFileSync(join(folder, 'data', 'signals.db-wal'));
  const frameBytes = FRAME_HEADER_BYTES + wal.readUInt32BE(PAGE_SIZE_AT);
  const salt = wal.subarray(SALT_AT, SALT_AT + SALT_BYTES);
  let commits = 0;
  for (let at = HEADER_BYTES; at + frameBytes <= wal.length; at += frameBytes) {
    // Frames of an earlier round are still there behind the newest; their salt differs.
    if (!wal.subarray(at + FRAME_SALT_AT, at + FRAME_SALT_AT + SALT_BYTES).equals(salt)) break;
    if (wal.readUInt32BE(at + COMMIT_AT) !== 0) commits += 1;
  }
  return commits;
}
