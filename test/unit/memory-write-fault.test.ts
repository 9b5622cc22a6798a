import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createAccess } from '../../src/store/memory-store-access.ts';
import { cachedStatement, closeDatabase, openDatabase } from '../../src/store/sqlite.ts';
import { commitCountMigration } from '../../src/store/transcript-schema.ts';
import { tempFolder } from '../helpers/daemon-fixture.ts';
import { serveDaemon } from '../helpers/daemon-server.ts';

const PAGES_MAX = 400;
const PAGES_OF_A_FULL_FILE = 8;
const TEXT = 'x'.repeat(100_000);

function openNotes() {
  const path = join(tempFolder(), 'notes.db');
  const migrations = [{ name: 'notes', up: 'CREATE TABLE notes (text TEXT NOT NULL) STRICT' }, commitCountMigration];
  const db = openDatabase(path, { synchronous: 'NORMAL', migrations });
  const access = createAccess(db, path, systemClock);
  onTestFinished(() => {
    access.close();
    closeDatabase(db);
  });
  const add = (text: string) => () => cachedStatement(db, 'INSERT INTO notes (text) VALUES (?)').run(text);
  return { db, path, access, add };
}

test.each([{ isRepeatable: true }, { isRepeatable: false }])('a write the disk refused is told until one succeeds, %o', async (options) => {
  const { db, path, access, add } = openNotes();
  expect(access.writeFault()).toBeNull();
  db.exec(`PRAGMA max_page_count = ${PAGES_OF_A_FULL_FILE}`);
  await expect(access.write(add(TEXT), options)).rejects.toMatchObject({ code: 'storage_failed' });
  expect(access.writeFault()).toContain(path);
  // One that writes nothing proves nothing.
  await access.write(() => cachedStatement(db, 'DELETE FROM notes WHERE 0').run(), options);
  expect(access.writeFault()).toContain(path);
  db.exec(`PRAGMA max_page_count = ${PAGES_MAX}`);
  await access.write(add(TEXT), options);
  expect(access.writeFault()).toBeNull();
});

test('so is a note that was refused, and a mistake in the program is none of the disk', async () => {
  const { db, path, access, add } = openNotes();
  db.exec(`PRAGMA max_page_count = ${PAGES_OF_A_FULL_FILE}`);
  await expect(access.note(add(TEXT))).rejects.toMatchObject({ code: 'storage_failed' });
  await expect(access.note(() => db.exec('INSERT INTO notes (text) VALUES (NULL)'))).rejects.toThrow('NOT NULL');
  expect(access.writeFault()).toContain(path);
  await access.note(add('small'));
  expect(access.writeFault()).toBeNull();
  await expect(access.note(() => db.exec('INSERT INTO notes (text) VALUES (NULL)'))).rejects.toThrow('NOT NULL');
  expect(access.writeFault()).toBeNull();
});

test('GET /health is degraded, with the reason, while the memories take no writes', { timeout: 60_000 }, async () => {
  const daemon = await serveDaemon();
  const { body } = await daemon.post('/api/memory/remember', { content: 'The tide turns at six.' });
  expect((await daemon.get('/health')).body).toMatchObject({ status: 'healthy', db: true, reasons: [] });
  const other = new DatabaseSync(join(daemon.folder, 'data', 'memory.db'));
  other.exec('BEGIN IMMEDIATE');
  const forget = () => daemon.post('/api/memory/forget', { id: body.id, reason: 'test' });
  expect((await forget()).body).toMatchObject({ code: 'storage_failed' });
  expect((await daemon.get('/health')).body).toMatchObject({
    status: 'degraded',
    db: false,
    reasons: [expect.stringContaining('stayed locked by another program')],
  });
  other.exec('ROLLBACK');
  other.close();
  expect((await forget()).status).toBe(200);
  expect((await daemon.get('/health')).body).toMatchObject({ status: 'healthy', db: true, reasons: [] });
});
