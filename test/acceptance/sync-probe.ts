/**
 * Loaded into a daemon by `node --import`: says with which level of fsync the connection works that writes the log. SQLite keeps it per
 * connection, so it can be asked from inside only: 2 is FULL, 1 is NORMAL.
 */
import { writeSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { isMainThread } from 'node:worker_threads';

const WRITTEN_BY_LOG = 'signals.db';
const STDOUT = 1;

if (!isMainThread) {
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string) {
    if (/^\s*COMMIT/i.test(sql) && this.location()?.endsWith(WRITTEN_BY_LOG)) {
      const level = Object.values(prepare.call(this, 'PRAGMA synchronous').get() ?? {})[0];
      writeSync(STDOUT, `the log is written with synchronous ${level}\n`);
    }
    return prepare.call(this, sql);
  };
}
