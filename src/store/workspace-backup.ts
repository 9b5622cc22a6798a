import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { mkdtemp, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { BACKUP_FILES_MAX, BACKUP_FORMAT, BACKUP_VERSION, type BackupAbout } from '../contract/backup-file.ts';
import { VERSION } from '../contract/version.ts';
import { AppError } from '../core/errors.ts';
import { BUSY_TIMEOUT_MS, storageError } from './sqlite.ts';
import { type PackedFile, writeArchive } from './tar-archive.ts';

/** First in an archive: format, version and program. */
export const ABOUT_FILE = 'about.json';
/** Last in an archive: size and SHA-256 of every file. */
export const SUMS_FILE = 'sums.json';
/** Before the path of each file of the workspace. */
export const FILES_PREFIX = 'files/';

const DATA_FOLDER = 'data';
/** The log first: work of its tools that the memories hold already is found there by its call key and not done again. The others follow. */
const FIRST_DATABASES = ['signals.db', 'memory.db'];
/** Of an earlier daemon, not ours: it is read when it can be, else copied as it is. */
const FOREIGN_DATABASE = 'memory/memories.db';
/** Of `.daemon` only these belong to the workspace; the rest is of the process that runs on it. */
const DAEMON_FILES = ['tokens.json', '.gitignore'];
/** Made by a database or its mark, or a write that has not ended. */
const PASSING = /\.(?:mark|part)$|\.db-(?:wal|shm|journal)$/;
/** Read at once, so that a file that grows stays whole; larger ones are streamed; unit: bytes. */
const WHOLE_BYTES_MAX = 16 * 1024 * 1024;
/** Of a database that are copied between two looks at the progress; 16 MB. */
const PAGES_PER_STEP = 4_096;
const SAFE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const META_MODE = 0o600;

export interface BackupProgress {
  readonly path: string;
  /** From 0 to 1. */
  readonly done: number;
}

export interface BackupOptions {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BackupProgress) => void;
}

export interface BackupResult {
  readonly files: number;
  /** Of the archive. */
  readonly bytes: number;
  /** ISO 8601 UTC. */
  readonly createdAt: string;
  /** Links and what is no ordinary file, with why. */
  readonly leftOut: readonly { readonly path: string; readonly reason: string }[];
  /** The key of the secrets is kept by the keyring of this system, so the archive does not hold it. */
  readonly keyInKeyring: boolean;
}

/** What a backup holds of a workspace. @param path  relative, parts divided by `/` */
export function isKept(path: string): boolean {
  const [first, second, ...more] = path.split('/');
  if (first === '.daemon') return more.length === 0 && second !== undefined && DAEMON_FILES.includes(second);
  return !((first === 'data' || first === '.secrets' || first === 'memory') && PASSING.test(path));
}

/**
 * Writes the whole workspace into one archive, also while a daemon runs on it: each database as it was at one moment, every other file as it was
 * when its turn came. The archive appears under its name when it is whole and on the disk; one that was there before is replaced then.
 *
 * @throws AppError `invalid_request` for a folder that is no workspace and an archive within it, `storage_corrupt` for a damaged database, `storage_failed`
 */
export async function backupWorkspace(folder: string, archive: string, options: BackupOptions): Promise<BackupResult> {
  const root = await realpath(folder).catch(() => {
    throw new AppError('invalid_request', { detail: `${folder} is not there: there is nothing to back up` });
  });
  const target = join(await realTarget(archive), basename(archive));
  if (target === root || target.startsWith(root + sep)) {
    throw new AppError('invalid_request', {
      detail: `${archive} lies in the workspace and would be part of the next backup; name a file outside of it`,
    });
  }
  const partial = `${target}.${process.pid}.part`;
  // Beside the archive: there is room for it, and nobody else may look into it.
  const copies = await mkdtemp(`${target}.databases-`).catch((error: unknown) => {
    throw new AppError('storage_failed', { detail: `cannot write beside ${archive} (${(error as Error).message})`, cause: error });
  });
  try {
    const createdAt = new Date().toISOString();
    const databases = await copyDatabases(root, copies, options);
    const pack = new WorkspacePack(root, databases, options);
    await rm(partial, { force: true });
    await writeArchive(partial, pack.entries(createdAt), options.signal);
    await rename(partial, target);
    const { size } = await stat(target);
    return { files: pack.files, bytes: size, createdAt, leftOut: pack.leftOut, keyInKeyring: pack.keyInKeyring };
  } finally {
    await rm(partial, { force: true });
    await rm(copies, { recursive: true, force: true });
  }
}

async function realTarget(archive: string): Promise<string> {
  return realpath(dirname(archive)).catch((error: Error) => {
    throw new AppError('storage_failed', { detail: `the folder of ${archive} cannot be reached (${error.message})`, cause: error });
  });
}

/** @returns for each database that is there the file with its copy */
async function copyDatabases(root: string, copies: string, options: BackupOptions): Promise<Map<string, string>> {
  const opened: { path: string; db: DatabaseSync }[] = [];
  const done = new Map<string, string>();
  try {
    // All of them are held as they are now before the first is copied, so that they fit together.
    for (const name of await databaseNames(join(root, DATA_FOLDER))) {
      const path = `${DATA_FOLDER}/${name}`;
      opened.push({ path, db: openSnapshot(join(root, path)) });
    }
    const foreign = tryOpenSnapshot(join(root, FOREIGN_DATABASE));
    if (foreign) opened.push({ path: FOREIGN_DATABASE, db: foreign });
    if (opened.length === 0) {
      throw new AppError('invalid_request', { detail: `${root} holds no database of Signet (data/signals.db): it is no workspace` });
    }
    for (const { path, db } of opened) {
      const copy = join(copies, path.replaceAll('/', '-'));
      await copyDatabase(db, path, copy, options).catch((error: unknown) => {
        throw storageError(error, join(root, path));
      });
      requireSound(copy, join(root, path));
      done.set(path, copy);
    }
    return done;
  } finally {
    for (const { db } of opened) db.close();
  }
}

async function databaseNames(folder: string): Promise<string[]> {
  const items = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const names = items.filter((item) => item.isFile() && item.name.endsWith('.db')).map(({ name }) => name);
  const place = (name: string) => (FIRST_DATABASES.includes(name) ? FIRST_DATABASES.indexOf(name) : FIRST_DATABASES.length);
  return names.sort((a, b) => place(a) - place(b));
}

/** A read-only connection that sees the database as it is now until it is closed, whatever is written meanwhile. */
function openSnapshot(file: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
    db.exec('BEGIN');
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
    return db;
  } catch (error) {
    db?.close();
    throw storageError(error, file);
  }
}

function tryOpenSnapshot(file: string): DatabaseSync | undefined {
  try {
    return existsSync(file) ? openSnapshot(file) : undefined;
  } catch {
    return undefined; // Damaged, or no database: it is kept as the file it is.
  }
}

async function copyDatabase(db: DatabaseSync, path: string, copy: string, { signal, onProgress }: BackupOptions): Promise<void> {
  await backup(db, copy, {
    rate: PAGES_PER_STEP,
    progress: ({ totalPages, remainingPages }) => {
      signal.throwIfAborted();
      onProgress({ path, done: totalPages === 0 ? 1 : 1 - remainingPages / totalPages });
    },
  });
  signal.throwIfAborted();
  onProgress({ path, done: 1 });
}

/** A backup of a damaged database would be found out on the day it is needed. */
function requireSound(copy: string, file: string): void {
  const db = new DatabaseSync(copy);
  try {
    const verdict = Object.values(db.prepare('PRAGMA quick_check(1)').get() ?? {})[0];
    if (verdict === 'ok') return;
    throw new AppError('storage_corrupt', { detail: `${file} is damaged (${verdict}), so no backup was made` });
  } catch (error) {
    throw storageError(error, file);
  } finally {
    db.close();
  }
}

/** Walks over a workspace and yields what goes into the archive. */
class WorkspacePack {
  readonly leftOut: { path: string; reason: string }[] = [];
  keyInKeyring = false;
  readonly #root: string;
  readonly #databases: ReadonlyMap<string, string>;
  readonly #options: BackupOptions;
  readonly #sums: { path: string; size: number; sha256: string }[] = [];

  constructor(root: string, databases: ReadonlyMap<string, string>, options: BackupOptions) {
    this.#root = root;
    this.#databases = databases;
    this.#options = options;
  }

  get files(): number {
    return this.#sums.length;
  }

  async *entries(createdAt: string): AsyncGenerator<PackedFile> {
    const about: BackupAbout = { format: BACKUP_FORMAT, version: BACKUP_VERSION, program: VERSION, createdAt };
    yield textEntry(ABOUT_FILE, `${JSON.stringify(about, null, 2)}\n`);
    for (const [path, copy] of this.#databases) {
      const entry = await this.#open(path, copy);
      if (entry) yield entry;
    }
    for await (const path of this.#walk('')) {
      if (this.#sums.length >= BACKUP_FILES_MAX) {
        throw new AppError('invalid_request', { detail: `${this.#root} holds more than ${BACKUP_FILES_MAX} files, which is too many` });
      }
      const entry = await this.#open(path, join(this.#root, path));
      if (entry) yield entry;
    }
    yield textEntry(SUMS_FILE, `${JSON.stringify({ files: this.#sums })}\n`);
  }

  async *#walk(folder: string): AsyncGenerator<string> {
    const found = await readdir(join(this.#root, folder), { withFileTypes: true });
    found.sort((a, b) => (a.name < b.name ? -1 : 1));
    // A key is there before the first vault: read after it, it cannot be missing.
    if (folder === '.secrets') found.reverse();
    for (const item of found) {
      const path = folder === '' ? item.name : `${folder}/${item.name}`;
      if (item.isDirectory()) yield* this.#walk(path);
      else if (!isKept(path) || this.#databases.has(path)) continue;
      else if (item.isFile()) yield path;
      else this.leftOut.push({ path, reason: item.isSymbolicLink() ? 'it is a link' : 'it is no ordinary file' });
    }
  }

  async #open(path: string, source: string): Promise<PackedFile | undefined> {
    const file = await open(source, SAFE).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT' && error.code !== 'ELOOP')
        throw new AppError('storage_failed', { detail: `cannot read ${source} (${error.message})`, cause: error });
      this.leftOut.push({ path, reason: 'it went away while the backup was written' });
    });
    if (!file) return undefined;
    const { size, mode, mtimeMs } = await file.stat();
    if (size > WHOLE_BYTES_MAX) {
      const content = this.#noted(path, size, file.createReadStream({ end: size - 1 }));
      return { path: FILES_PREFIX + path, mode, mtimeMs, size, content };
    }
    const bytes = await file.readFile().finally(() => file.close());
    if (path === '.secrets/vault.json') this.keyInKeyring = isKeyElsewhere(bytes.toString());
    return { path: FILES_PREFIX + path, mode, mtimeMs, size: bytes.length, content: this.#noted(path, bytes.length, [bytes]) };
  }

  async *#noted(path: string, total: number, chunks: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
    const hash = createHash('sha256');
    let size = 0;
    for await (const chunk of chunks) {
      hash.update(chunk);
      size += chunk.length;
      this.#options.onProgress({ path, done: size / total });
      yield chunk;
    }
    this.#sums.push({ path, size, sha256: hash.digest('hex') });
  }
}

function isKeyElsewhere(vault: string): boolean {
  try {
    return (JSON.parse(vault) as { key?: { place?: unknown } }).key?.place === 'keyring';
  } catch {
    return false; // A damaged vault is kept as it is.
  }
}

function textEntry(path: string, text: string): PackedFile {
  const bytes = Buffer.from(text);
  const content = (async function* () {
    yield bytes;
  })();
  return { path, mode: META_MODE, mtimeMs: Date.now(), size: bytes.length, content };
}
