import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { cachedStatement, closeDatabase, type DatabaseOptions, openDatabase, storageError, transaction } from '../../src/store/sqlite.ts';

const notes = { name: 'notes', up: 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT' };
const tags = { name: 'tags', up: (db: DatabaseSync) => db.exec("ALTER TABLE notes ADD COLUMN tag TEXT NOT NULL DEFAULT 'none'") };
const broken = { name: 'broken', up: 'CREATE TABLE half (id INTEGER); INSERT INTO absent VALUES (1)' };

function temporaryPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sqlite-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'data', 'notes.db');
}

function open(path: string, over: Partial<DatabaseOptions> = {}): DatabaseSync {
  const db = openDatabase(path, { synchronous: 'FULL', migrations: [notes], ...over });
  onTestFinished(() => {
    if (db.isOpen) db.close();
  });
  return db;
}

function fill(db: DatabaseSync, count: number): void {
  transaction(db, () => {
    for (let id = 1; id <= count; id += 1) cachedStatement(db, 'INSERT INTO notes (text) VALUES (?)').run(`note ${id} `.repeat(50));
  });
}

const pragma = (db: DatabaseSync, name: string): unknown => Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];

test('a new file is made with its folder, for its owner only, in WAL mode with the safety settings on', () => {
  const path = temporaryPath();
  const db = open(path);

  expect(pragma(db, 'journal_mode')).toBe('wal');
  expect(pragma(db, 'synchronous')).toBe(2);
  expect(pragma(db, 'foreign_keys')).toBe(1);
  expect(pragma(db, 'busy_timeout')).toBe(5_000);
  expect(pragma(db, 'user_version')).toBe(1);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  closeDatabase(db);
  closeDatabase(db);
  expect(existsSync(`${path}-wal`)).toBe(false);
  expect(pragma(open(path, { synchronous: 'NORMAL' }), 'synchronous')).toBe(1);
});

test('an existing file is copied before it is migrated, and only the newest three copies are kept', () => {
  const path = temporaryPath();
  const first = open(path);
  fill(first, 3);
  closeDatabase(first);
  const steps = [notes, tags, ...[3, 4, 5].map((n) => ({ name: `step ${n}`, up: `CREATE TABLE step_${n} (id INTEGER)` }))];
  for (let count = 2; count <= steps.length; count += 1) closeDatabase(open(path, { migrations: steps.slice(0, count) }));

  expect({ ...open(path, { migrations: steps }).prepare('SELECT count(*) AS n, min(tag) AS tag FROM notes').get() }).toEqual({
    n: 3,
    tag: 'none',
  });
  expect(
    readdirSync(join(path, '..'))
      .filter((name) => name.includes('.bak'))
      .sort(),
  ).toEqual(['notes.db.v2.bak', 'notes.db.v3.bak', 'notes.db.v4.bak']);
  expect(new DatabaseSync(`${path}.v2.bak`, { readOnly: true }).prepare('SELECT count(*) AS n FROM notes').get()?.n).toBe(3);
});

test('a migration that fails leaves the file at the version before', () => {
  const path = temporaryPath();
  closeDatabase(open(path));
  expect(() => open(path, { migrations: [notes, tags, broken] })).toThrow('absent');

  const db = open(path, { migrations: [notes, tags] });
  expect(pragma(db, 'user_version')).toBe(2);
  expect(db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'half'").get()?.n).toBe(0);
});

test('a file of a newer program is refused and not changed', () => {
  const path = temporaryPath();
  closeDatabase(open(path, { migrations: [notes, tags] }));
  const before = readFileSync(path);

  expect(() => open(path)).toThrow(expect.objectContaining({ code: 'storage_version', detail: expect.stringContaining('version 2') }));
  expect(() => open(path, { readOnly: true })).toThrow(expect.objectContaining({ code: 'storage_version' }));
  expect(readFileSync(path)).toEqual(before);
});

test('a read-only connection sees commits, cannot write, and refuses a file that is not there', () => {
  const path = temporaryPath();
  const writer = open(path);
  const reader = open(path, { readOnly: true });
  fill(writer, 2);

  expect(reader.prepare('SELECT count(*) AS n FROM notes').get()?.n).toBe(2);
  expect(() => reader.exec('DELETE FROM notes')).toThrow('readonly');
  expect(() => open(`${path}.absent`, { readOnly: true })).toThrow(expect.objectContaining({ code: 'workspace_unwritable' }));
});

test.each([
  ['text instead of a database', (path: string) => writeFileSync(path, 'no database at all\n'.repeat(100))],
  ['a file that lost all its content', (path: string) => truncateSync(path, 0)],
  ['a file of a few bytes', (path: string) => writeFileSync(path, 'SQLite')],
  ['a file cut off at the end', (path: string) => truncateSync(path, statSync(path).size - 4_096)],
  ['a broken schema page', (path: string) => overwrite(path, 100, 900)],
])('%s is refused by name and kept byte for byte', (_what, damage) => {
  const path = temporaryPath();
  const db = open(path);
  fill(db, 500);
  closeDatabase(db);
  damage(path);
  const before = readFileSync(path);

  expect(() => open(path)).toThrow(
    expect.objectContaining({ code: 'storage_corrupt', detail: expect.stringMatching(/notes\.db is damaged .* kept untouched.* backup/) }),
  );
  expect(readFileSync(path)).toEqual(before);
});

test('a database whose file is gone beside its log of writes is not begun anew, and the log is kept', () => {
  const path = temporaryPath();
  mkdirSync(dirname(path));
  writeFileSync(`${path}-wal`, 'writes');
  expect(() => open(path)).toThrow(
    expect.objectContaining({ code: 'storage_corrupt', detail: expect.stringContaining('is gone while its -wal') }),
  );
  expect(readFileSync(`${path}-wal`, 'utf8')).toBe('writes');
});

test('what a first start that was killed left behind is no hindrance', () => {
  const path = temporaryPath();
  mkdirSync(dirname(path));
  writeFileSync(`${path}.part`, '');
  const db = open(path);
  fill(db, 2);
  expect([existsSync(`${path}.part`), statSync(path).mode & 0o777]).toEqual([false, 0o600]);
});

test('after an unclean end a damaged inner page is found, and file and WAL are kept', () => {
  const path = temporaryPath();
  const db = open(path);
  fill(db, 500);
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.exec("INSERT INTO notes (text) VALUES ('in the WAL')");
  const crashed = `${path}.crashed`;
  copyFileSync(path, crashed);
  copyFileSync(`${path}-wal`, `${crashed}-wal`);
  overwrite(crashed, 3 * 4_096, 4_096);
  const before = [readFileSync(crashed), readFileSync(`${crashed}-wal`)];

  expect(() => open(crashed)).toThrow(expect.objectContaining({ code: 'storage_corrupt' }));
  expect([readFileSync(crashed), readFileSync(`${crashed}-wal`)]).toEqual(before);
});

test('a damaged inner page of a small file that was closed well is found, and the file is kept', () => {
  const path = temporaryPath();
  const db = open(path);
  fill(db, 500);
  closeDatabase(db);
  overwrite(path, 3 * 4_096, 4_096);
  const before = readFileSync(path);

  expect(() => open(path)).toThrow(expect.objectContaining({ code: 'storage_corrupt' }));
  expect(readFileSync(path)).toEqual(before);
});

test('what a killed process had committed is there', async () => {
  const path = temporaryPath();
  const code = `
    import { openDatabase } from ${JSON.stringify(new URL('../../src/store/sqlite.ts', import.meta.url).href)};
    const db = openDatabase(process.argv[1], { synchronous: 'FULL', migrations: [${JSON.stringify(notes)}] });
    db.exec("INSERT INTO notes (text) VALUES ('kept')");
    process.kill(process.pid, 'SIGKILL');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code, path], { stdio: ['ignore', 'inherit', 'inherit'] });
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);

  expect(open(path).prepare('SELECT text FROM notes').get()?.text).toBe('kept');
});

test('a transaction commits or leaves nothing, also inside another one', () => {
  const db = open(temporaryPath());
  const insert = (text: string): unknown => cachedStatement(db, 'INSERT INTO notes (text) VALUES (?)').run(text);
  const fail = (): never => {
    throw new Error('no');
  };
  expect(() => transaction(db, () => [insert('lost'), fail()])).toThrow('no');
  transaction(db, () => {
    insert('kept');
    expect(() => transaction(db, () => [insert('lost too'), fail()])).toThrow('no');
    expect(transaction(db, () => insert('kept too'))).toMatchObject({ changes: 1 });
  });

  expect(db.isTransaction).toBe(false);
  expect(
    db
      .prepare('SELECT text FROM notes')
      .all()
      .map((row) => row.text),
  ).toEqual(['kept', 'kept too']);
});

test('a statement is prepared once per connection, and the cache stays bounded', () => {
  const db = open(temporaryPath());
  const first = cachedStatement(db, 'SELECT 0');
  expect(cachedStatement(db, 'SELECT 0')).toBe(first);
  for (let n = 1; n <= 256; n += 1) cachedStatement(db, `SELECT ${n}`);
  expect(cachedStatement(db, 'SELECT 0')).not.toBe(first);
});

test('a full file is storage_failed, a folder in the place of the file workspace_unwritable, a bug stays itself', () => {
  const path = temporaryPath();
  const db = open(path);
  db.exec('PRAGMA max_page_count = 5');
  const full = thrownBy(() => fill(db, 500));
  expect(storageError(full, path)).toMatchObject({ code: 'storage_failed', detail: expect.stringContaining(path) });
  expect(db.isTransaction).toBe(false);

  const bug = thrownBy(() => db.exec('INSERT INTO notes (text) VALUES (NULL)'));
  expect(storageError(bug, path)).toBe(bug);

  mkdirSync(`${path}.folder`);
  expect(() => open(`${path}.folder`)).toThrow(expect.objectContaining({ code: 'workspace_unwritable' }));
});

function overwrite(path: string, from: number, bytes: number): void {
  const content = readFileSync(path);
  content.fill(0xa5, from, from + bytes);
  writeFileSync(path, content);
}

function thrownBy(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
