import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test, vi } from 'vitest';
import { BackgroundCheckpoint } from '../../src/store/memory-checkpoint.ts';
import { closeDatabase, openDatabase } from '../../src/store/sqlite.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';

/** Together more changes and pages than a checkpoint waits for, and fewer pages than a commit moves by itself. */
const ROWS = 3_200;
const ROW_BYTES = 6_000;

function openTable(path: string): DatabaseSync {
  const db = openDatabase(path, { synchronous: 'NORMAL', migrations: [{ name: 'one table', up: 'CREATE TABLE t (bytes BLOB)' }] });
  onTestFinished(() => closeDatabase(db));
  return db;
}

function fill(db: DatabaseSync): void {
  const insert = db.prepare('INSERT INTO t VALUES (zeroblob(?))');
  db.exec('BEGIN');
  for (let row = 0; row < ROWS; row += 1) insert.run(ROW_BYTES);
  db.exec('COMMIT');
}

const logPages = (db: DatabaseSync): number => Number(db.prepare('PRAGMA wal_checkpoint(PASSIVE)').get()?.log);

test('the thread moves a long log: commits are held for its end alone, and the next one begins it anew', async () => {
  const path = join(tempFolder(), 'memory.db');
  const db = openTable(path);
  const resumed = Promise.withResolvers<void>();
  const checkpoint = new BackgroundCheckpoint(db, path, resumed.resolve);
  onTestFinished(() => checkpoint.close());
  fill(db);
  checkpoint.committed(ROWS);
  expect(checkpoint.isHolding).toBe(false);
  await resumed.promise;
  expect(checkpoint.isHolding).toBe(false);
  db.prepare('INSERT INTO t VALUES (zeroblob(1))').run();
  expect(logPages(db)).toBeLessThan(ROWS);
  expect(db.prepare('SELECT count(*) AS rows FROM t').get()).toEqual({ rows: ROWS + 1 });
});

test('without the thread commits move the log, and are not held', async () => {
  const db = openTable(join(tempFolder(), 'memory.db'));
  const checkpoint = new BackgroundCheckpoint(db, join(tempFolder(), 'nowhere', 'memory.db'), () => undefined);
  const limit = () => Number(db.prepare('PRAGMA wal_autocheckpoint').get()?.wal_autocheckpoint);
  const before = limit();
  checkpoint.committed(ROWS);
  await vi.waitFor(() => expect(limit()).toBeLessThan(before), { timeout: 20_000 });
  expect(checkpoint.isHolding).toBe(false);
});
