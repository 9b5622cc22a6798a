import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { AppError, isAppError } from '../core/errors.ts';
import { storageError } from './sqlite.ts';

/** How often the holder of the lock looks whether its file is still there; unit: milliseconds. */
const LOOK_MS = 1_000;
/** How long a starting daemon waits for one that is just ending; blocks the thread; unit: milliseconds. */
export const LOCK_WAIT_MS = 250;

const FOLDER = '.daemon';
const DATA_FOLDER = 'data';
const LOCK_FILE = 'lock.db';
const INFO_FILE = 'daemon.json';
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const SQLITE_BUSY = 5;
const ROOT_UID = 0;
/** Sticky, and writable for everybody, as /tmp is. */
const SHARED_MODE = 0o1002;

/** Who runs on a workspace, for its commands and for a second daemon's error message. Ports are null until they are bound. */
export interface DaemonInfo {
  readonly pid: number;
  readonly version: string;
  /** Of the daemon. */
  readonly host: string;
  /** Of the runtime; that of the daemon when an older program wrote it. */
  readonly runtimeHost?: string;
  /** Present when both speak HTTPS: path of the certificate, and the name it is for. */
  readonly tls?: { readonly cert: string; readonly name?: string };
  /** Present when they also answer at the sockets of the workspace. */
  readonly socket?: true;
  readonly port: number | null;
  readonly runtimePort: number | null;
  /** ISO 8601 UTC. */
  readonly startedAt: string;
}

export interface WorkspaceLock {
  /**
   * Write the ports into daemon.json, and look from now on whether the file of the lock is still the one that is held: a file that was deleted does not keep a second daemon out. One that is gone
   * is made and locked anew.
   *
   * @returns  `workspace_locked`, once another file is in its place: then nothing may be written any more
   */
  announce(info: DaemonInfo): Promise<AppError>;
  /** Removes daemon.json and frees the workspace, unless another daemon has it; may be called again. */
  release(): void;
}

/**
 * Make this process the workspace's only daemon until `release` or its end, kill -9 included: the lock belongs to the open file.
 * Take it before ports are bound; then write the ports with `announce`.
 *
 * @throws AppError `workspace_locked` (`extra` holds pid and port of the other, as far as known), `workspace_unwritable`, `storage_failed`
 */
export function lockWorkspace(folder: string, starting: DaemonInfo): WorkspaceLock {
  const path = join(folder, FOLDER, LOCK_FILE);
  if (isFolder(folder)) refusePlanted(folder);
  let held = takeLock(folder, path);
  try {
    for (const name of [FOLDER, DATA_FOLDER]) keepOutOfGit(join(folder, name));
    writeDaemonInfo(folder, starting); // What stands there now is from a daemon that is gone.
  } catch (error) {
    held.db.close();
    throw error;
  }
  let timer: NodeJS.Timeout | undefined;
  return {
    announce(info) {
      writeDaemonInfo(folder, info);
      const lost = Promise.withResolvers<AppError>();
      const look = () => {
        if (isSameFile(path, held.file)) return;
        try {
          held = replaceLock(folder, path, held);
          if (!existsSync(join(folder, FOLDER, INFO_FILE))) writeDaemonInfo(folder, info);
        } catch (error) {
          clearInterval(timer);
          lost.resolve(lostLock(folder, path, error));
        }
      };
      timer = setInterval(look, LOOK_MS).unref();
      return lost.promise;
    },
    release() {
      clearInterval(timer);
      if (!held.db.isOpen) return;
      if (isSameFile(path, held.file)) rmSync(join(folder, FOLDER, INFO_FILE), { force: true });
      held.db.close();
    },
  };
}

interface HeldLock {
  readonly db: DatabaseSync;
  readonly file: { readonly dev: number; readonly ino: number };
}

/** @throws AppError as `lockWorkspace` */
function takeLock(folder: string, path: string): HeldLock {
  prepareFolder(folder, path);
  const { dev, ino } = statSync(path);
  const db = lockFile(folder, path);
  // Replaced in between: the lock would be on one file and the look at another.
  if (isSameFile(path, { dev, ino })) return { db, file: { dev, ino } };
  db.close();
  throw locked(folder, new Error(`${path} was replaced while it was locked`));
}

/** Only where there is no file at all: one that somebody else made belongs to them. */
function replaceLock(folder: string, path: string, held: HeldLock): HeldLock {
  if (existsSync(path)) throw new Error('another file is in its place');
  const next = takeLock(folder, path);
  held.db.close();
  return next;
}

function isSameFile(path: string, { dev, ino }: HeldLock['file']): boolean {
  const now = statSync(path, { throwIfNoEntry: false });
  return now?.dev === dev && now.ino === ino;
}

function lostLock(folder: string, path: string, cause: unknown): AppError {
  const other = readDaemonInfo(folder);
  const who =
    other && other.pid !== process.pid ? `the daemon with pid ${other.pid} has the workspace now` : 'another daemon may have the workspace';
  return new AppError('workspace_locked', {
    detail: `${path} was deleted or replaced while this daemon ran, and ${who}; this one ends and writes nothing more`,
    cause,
  });
}

/** Replace `.daemon/daemon.json` in one step: a reader sees the old text or the new one. Only the holder of the lock may call it. */
export function writeDaemonInfo(folder: string, info: DaemonInfo): void {
  const path = join(folder, FOLDER, INFO_FILE);
  const partial = `${path}.part`;
  try {
    writeFileSync(partial, `${JSON.stringify(info, null, 2)}\n`, { mode: FILE_MODE });
    renameSync(partial, path);
  } catch (error) {
    throw unwritable(path, error);
  }
}

/**
 * Make a folder of the workspace, private to its owner, and those above it that are missing; one that exists is left as it is.
 * Not `recursive` of Node: where a file system says "no such file" to a new name in a folder that exists, as /proc does, that tries for ever.
 *
 * @throws AppError `workspace_unwritable`
 */
export function makeFolder(path: string): void {
  try {
    makeFolders(path);
  } catch (error) {
    throw unwritable(path, error);
  }
}

/** Whatever the rules above it say; a file that is there already is its owner's choice. Secrets do the same for their folder. */
function keepOutOfGit(folder: string): void {
  const path = join(folder, '.gitignore');
  makeFolder(folder);
  try {
    writeFileSync(path, '*\n', { flag: 'wx', mode: FILE_MODE });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw unwritable(path, error);
  }
}

function makeFolders(path: string): void {
  const parent = dirname(path);
  if (isFolder(path)) return;
  if (parent !== path) makeFolders(parent);
  try {
    mkdirSync(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (!isFolder(path)) throw error; // Another process may have made it just now.
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Null when no daemon wrote it, or it is not readable as one. A killed daemon leaves it behind: the pid may be gone. */
export function readDaemonInfo(folder: string): DaemonInfo | null {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(join(folder, FOLDER, INFO_FILE), 'utf8'));
  } catch {
    return null; // Absent or not JSON: the same to every reader.
  }
  return isDaemonInfo(value) ? value : null;
}

function isDaemonInfo(value: unknown): value is DaemonInfo {
  if (typeof value !== 'object' || value === null) return false;
  const info = value as Record<string, unknown>;
  const isPort = (port: unknown): boolean => port === null || Number.isInteger(port);
  const isText = (text: unknown): boolean => typeof text === 'string';
  return (
    Number.isInteger(info.pid) &&
    isText(info.version) &&
    isText(info.host) &&
    isText(info.startedAt) &&
    isPort(info.port) &&
    isPort(info.runtimePort)
  );
}

/**
 * A workspace decides which programs run (MCP servers, callbacks). In a shared folder such as /tmp any user can leave one for us to find.
 * Elsewhere a folder of another user is taken: a container's volume often belongs to a user of the host.
 *
 * @throws AppError `workspace_unwritable`
 */
function refusePlanted(folder: string): void {
  const uid = process.geteuid?.();
  if (uid === undefined) return;
  for (let path = realpathSync(folder), isShared = false; !isShared; path = dirname(path)) {
    const parent = statSync(dirname(path));
    isShared = (parent.mode & SHARED_MODE) === SHARED_MODE;
    const { uid: owner } = statSync(path);
    if (isShared && owner !== uid && owner !== ROOT_UID) {
      const detail = `${path} belongs to another user (uid ${owner}) and lies in a shared folder: its agent.yaml could run programs as you; use a folder of your own`;
      throw new AppError('workspace_unwritable', { detail });
    }
    if (dirname(path) === path) return;
  }
}

function prepareFolder(folder: string, path: string): void {
  try {
    makeFolder(join(folder, FOLDER));
    closeSync(openSync(path, 'a', FILE_MODE));
  } catch (error) {
    throw isAppError(error) ? error : unwritable(path, error);
  }
}

/** An exclusive transaction that stays open. Nothing is ever written, so no journal file is needed. */
function lockFile(folder: string, path: string): DatabaseSync {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: LOCK_WAIT_MS });
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return db;
  } catch (error) {
    db?.close();
    if (isBusy(error)) throw locked(folder, error);
    const known = storageError(error, path);
    // Nothing is kept in this file, so a damaged one may simply go.
    if (isAppError(known, 'storage_corrupt')) {
      throw new AppError('storage_corrupt', { detail: `${path} is damaged; it holds no data: delete it and start again`, cause: error });
    }
    throw known;
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' && (error.errcode & 0xff) === SQLITE_BUSY;
}

function locked(folder: string, cause: unknown): AppError {
  const info = readDaemonInfo(folder);
  const port = info?.port ?? info?.runtimePort;
  const who = info ? `pid ${info.pid}, ${port ? `port ${port}` : 'still starting'}` : 'it has not said who it is yet';
  return new AppError('workspace_locked', {
    detail: `another daemon runs on ${folder} (${who}); stop it first, or use another workspace folder`,
    extra: info ? { pid: info.pid, port: info.port } : {},
    cause,
  });
}

function unwritable(path: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('workspace_unwritable', {
    detail: `cannot write ${path} (${reason}); check owner and permissions of the folder`,
    cause,
  });
}
