import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../core/clock.ts';
import { storageError, transaction } from './sqlite.ts';

/** Runs store code and answers as a promise; faults of SQLite become AppErrors. */
export interface Access {
  readonly db: DatabaseSync;
  readonly clock: Clock;
  read<T>(fn: () => T): Promise<T>;
  /** One transaction, on disk when the promise resolves. */
  write<T>(fn: () => T): Promise<T>;
  /** One transaction that a loss of power (not of the process) may take back: signs of behaviour are not worth 1-5 ms of a prompt. */
  note<T>(fn: () => T): Promise<T>;
}

/** @param path  of the file, for messages */
export function createAccess(db: DatabaseSync, path: string, clock: Clock): Access {
  const run = async <T>(fn: () => T): Promise<T> => {
    try {
      return fn();
    } catch (error) {
      throw storageError(error, path);
    }
  };
  return {
    db,
    clock,
    read: run,
    write: (fn) => run(() => transaction(db, fn)),
    note: (fn) =>
      run(() => {
        db.exec('PRAGMA synchronous = NORMAL');
        try {
          return transaction(db, fn);
        } finally {
          db.exec('PRAGMA synchronous = FULL');
        }
      }),
  };
}
