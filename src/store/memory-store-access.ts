import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../core/clock.ts';
import type { MarkFinding } from './high-water-mark.ts';
import { GroupCommit, type WriteOptions } from './memory-store-commit.ts';
import { storageError } from './sqlite.ts';

/** Runs store code and answers as a promise; faults of SQLite become AppErrors. */
export interface Access {
  readonly db: DatabaseSync;
  readonly clock: Clock;
  read<T>(fn: () => T | Promise<T>): Promise<T>;
  /** All or nothing, on disk when the promise resolves; writes of one moment share a commit. */
  write<T>(fn: () => T, options?: WriteOptions): Promise<T>;
  /** One transaction that a loss of power (not of the process) may take back: signs of behaviour are not worth 1-5 ms of a prompt. */
  note<T>(fn: () => T): Promise<T>;
  /** Why the last write was refused by the disk; null when it was not. */
  writeFault(): string | null;
  /** What the start found when it compared the file with its mark. */
  readonly finding: MarkFinding;
  /** What was asked for is written and answered; the caller closes the connection after it, then calls `closeMark`. */
  close(): void;
  closeMark(): void;
}

/**
 * @param db         opened with synchronous NORMAL: the syncs are done here
 * @param path       of the file
 * @param committed  called after each commit
 */
export function createAccess(db: DatabaseSync, path: string, clock: Clock, committed: () => void = () => undefined): Access {
  const commits = new GroupCommit(db, path, committed);
  const run = async <T>(fn: () => T | Promise<T>): Promise<T> => {
    try {
      return await fn();
    } catch (error) {
      throw storageError(error, path);
    }
  };
  return {
    db,
    clock,
    read: run,
    write: (fn, options) => commits.write(fn, options),
    note: (fn) => run(() => commits.note(fn)),
    writeFault: () => commits.writeFault(),
    finding: commits.finding,
    close: () => commits.close(),
    closeMark: () => commits.closeMark(),
  };
}
