import { closeSync, existsSync, mkdirSync, openSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { AppError } from '../core/errors.ts';
import { type Migration, migrate, schemaVersion } from './sqlite-migration.ts';

/** How long a statement waits for another connection's lock before it fails; unit: milliseconds. */
export const BUSY_TIMEOUT_MS = 5_000;
/** Above this size an unclean file gets the cheap checks only, so that a start stays short (about 1 s per GB); unit: bytes. */
export const QUICK_CHECK_BYTES_MAX = 256 * 1024 * 1024;
/** Up to this size a file that was closed well is checked too: a disk can damage what nobody has open; unit: bytes. */
const CLEAN_CHECK_BYTES_MAX = 8 * 1024 * 1024;
/** Prepared statements kept per connection; the oldest is dropped first. */
export const STATEMENTS_CACHED_MAX = 256;

const HEADER_BYTES = 100;
const HEADER_MAGIC = 'SQLite format 3\0';
/** The files hold conversations and memories: nobody else on the machine reads them. */
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

// Primary result codes of SQLite, https://sqlite.org/rescode.html
const SQLITE_PERM = 3;
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;
const SQLITE_NOMEM = 7;
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CANTOPEN = 14;
const SQLITE_NOTADB = 26;

export type { Migration } from './sqlite-migration.ts';

export interface DatabaseOptions {
  /** Default false. A read-only connection never creates, migrates or checks; the file must be there and up to date. */
  readonly readOnly?: boolean;
  /** FULL: every commit is fsynced. NORMAL: commits since the last checkpoint may be lost with the power, never torn. */
  readonly synchronous: 'FULL' | 'NORMAL';
  /** All steps ever made, oldest first; `user_version` counts how many a file has seen. Never reorder or remove one. */
  readonly migrations: readonly Migration[];
}

/**
 * Open (and create, check, migrate) a database file in WAL mode with foreign keys on. The caller closes it with `closeDatabase`.
 *
 * @throws AppError `storage_corrupt` (the file is left as it was), `storage_version` (written by a newer program),
 *   `workspace_unwritable` (folder or file), `storage_failed` (disk full, I/O error, locked)
 */
export function openDatabase(path: string, options: DatabaseOptions): DatabaseSync {
  const readOnly = options.readOnly ?? false;
  if (!readOnly) prepareFile(path);
  let db: DatabaseSync | undefined;
  try {
    if (!readOnly) checkFile(path);
    db = new DatabaseSync(path, { readOnly, timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true });
    if (readOnly) {
      requireVersion(db, path, options.migrations);
    } else {
      db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${options.synchronous}`);
      migrate(db, path, options.migrations);
    }
    return db;
  } catch (error) {
    db?.close();
    throw storageError(error, path);
  }
}

/** Move the WAL into the file and close. Close the read-only connections first, otherwise the WAL stays and the next start checks the file. */
export function closeDatabase(db: DatabaseSync): void {
  if (!db.isOpen) return;
  try {
    db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  } catch {
    /* A full disk or a foreign reader: everything is in the WAL and comes back at the next start. */
  }
  db.close();
}

/** Run `fn` in one write transaction; a throw rolls back and passes. Inside another transaction it is a savepoint. `fn` must be synchronous. */
export function transaction<T>(db: DatabaseSync, fn: () => T): T {
  const nested = db.isTransaction;
  cachedStatement(db, nested ? 'SAVEPOINT nested' : 'BEGIN IMMEDIATE').run();
  try {
    const result = fn();
    cachedStatement(db, nested ? 'RELEASE nested' : 'COMMIT').run();
    return result;
  } catch (error) {
    // SQLite has rolled back by itself after a full disk or an I/O error; a second ROLLBACK would hide the cause.
    if (db.isTransaction) db.exec(nested ? 'ROLLBACK TO nested; RELEASE nested' : 'ROLLBACK');
    throw error;
  }
}

const caches = new WeakMap<DatabaseSync, Map<string, StatementSync>>();

/** The prepared statement of `sql` on this connection, made once. Do not keep an open iterator on it across calls. */
export function cachedStatement(db: DatabaseSync, sql: string): StatementSync {
  let cache = caches.get(db);
  if (!cache) {
    cache = new Map();
    caches.set(db, cache);
  }
  const known = cache.get(sql);
  if (known) return known;
  const oldest = cache.size >= STATEMENTS_CACHED_MAX ? cache.keys().next().value : undefined;
  if (oldest !== undefined) cache.delete(oldest);
  const made = db.prepare(sql);
  cache.set(sql, made);
  return made;
}

/** The AppError for what SQLite or the file system threw; anything that is not a fault of the storage comes back unchanged. */
export function storageError(error: unknown, path: string): unknown {
  if (error instanceof AppError) return error;
  const code = sqliteCode(error);
  const message = error instanceof Error ? error.message : String(error);
  if (code === SQLITE_CORRUPT || code === SQLITE_NOTADB) return corrupt(path, message, error);
  if (code === SQLITE_READONLY || code === SQLITE_CANTOPEN || code === SQLITE_PERM) return unwritable(path, message, error);
  if (code === SQLITE_FULL)
    return new AppError('storage_failed', { detail: `no space left for ${path}; free some and try again`, cause: error });
  if (code === SQLITE_BUSY || code === SQLITE_LOCKED) {
    const detail = `${path} stayed locked by another program for ${BUSY_TIMEOUT_MS} ms; close that program and try again`;
    return new AppError('storage_failed', { detail, cause: error });
  }
  if (code === SQLITE_IOERR || code === SQLITE_NOMEM)
    return new AppError('storage_failed', { detail: `${path}: ${message}`, cause: error });
  return error;
}

function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined;
  return error.errcode & 0xff; // Extended codes carry the primary one in the low byte.
}

function corrupt(path: string, reason: string, cause?: unknown): AppError {
  const detail =
    `${path} is damaged (${reason}); it was kept untouched. Stop the daemon, move the file together with its -wal and -shm neighbours aside, ` +
    'then put a backup in its place, or start without it to begin with an empty one';
  return new AppError('storage_corrupt', { detail, cause });
}

function unwritable(path: string, reason: string, cause: unknown): AppError {
  const detail = `cannot write ${path} (${reason}); check the owner, the permissions and the mount of the folder`;
  return new AppError('workspace_unwritable', { detail, cause });
}

/** Make folder and file with private modes; SQLite gives the -wal and -shm files the mode of the database. */
function prepareFile(path: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: FOLDER_MODE });
    if (existsSync(path)) closeSync(openSync(path, 'a'));
    else makeFile(path);
  } catch (error) {
    const known = storageError(error, path);
    throw known instanceof AppError ? known : unwritable(path, error instanceof Error ? error.message : String(error), error);
  }
}

/** It appears with its header in it, so that one without content is always one that lost it, also when a first start was killed. */
function makeFile(path: string): void {
  if (hasWal(path)) throw corrupt(path, 'it is gone while its -wal neighbour is there');
  const partial = `${path}.part`;
  rmSync(partial, { force: true });
  closeSync(openSync(partial, 'wx', FILE_MODE));
  const db = new DatabaseSync(partial);
  try {
    db.exec('PRAGMA journal_mode = WAL');
  } finally {
    db.close();
  }
  renameSync(partial, path);
}

function hasWal(path: string): boolean {
  return (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** Refuse a damaged file before anything is written to it: the checks run on a read-only connection, which never moves the WAL. */
function checkFile(path: string): void {
  const unclean = hasWal(path);
  checkHeader(path, unclean);
  const db = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    if (statSync(path).size <= (unclean ? QUICK_CHECK_BYTES_MAX : CLEAN_CHECK_BYTES_MAX)) {
      const verdict = Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})[0];
      if (verdict !== 'ok') throw corrupt(path, String(verdict));
    }
  } finally {
    db.close();
  }
}

/** Format, page size and length stand in the first 100 bytes, https://sqlite.org/fileformat2.html#the_database_header */
function checkHeader(path: string, unclean: boolean): void {
  const header = Buffer.alloc(HEADER_BYTES);
  const fd = openSync(path, 'r');
  try {
    const bytes = readSync(fd, header, 0, HEADER_BYTES, 0);
    if (bytes === 0) throw corrupt(path, 'it is empty');
    if (bytes < HEADER_BYTES || header.toString('latin1', 0, 16) !== HEADER_MAGIC) throw corrupt(path, 'it is not a SQLite database');
  } finally {
    closeSync(fd);
  }
  const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  const pages = header.readUInt32BE(28);
  // The page count is only valid when written together with the change counter; with a WAL the file may lawfully be shorter.
  const valid = header.readUInt32BE(24) === header.readUInt32BE(92);
  const { size } = statSync(path);
  if (!unclean && valid && size < pages * pageBytes) throw corrupt(path, `it has ${size} bytes of ${pages * pageBytes}`);
}

function requireVersion(db: DatabaseSync, path: string, migrations: readonly Migration[]): void {
  const version = schemaVersion(db);
  if (version === migrations.length) return;
  const detail = `${path} has schema version ${version}, this program reads version ${migrations.length}; use the program that wrote it`;
  throw new AppError('storage_version', { detail });
}
