import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, sep } from 'node:path';
import { BACKUP_FILES_MAX, BACKUP_VERSION, BackupAbout, BackupSums } from '../contract/backup-file.ts';
import { VERSION } from '../contract/version.ts';
import { isoTime, systemClock } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import { carryMark } from './high-water-mark.ts';
import { damagedArchive, type PackedFile, readArchive } from './tar-archive.ts';
import { ABOUT_FILE, type BackupProgress, FILES_PREFIX, isKept, SUMS_FILE } from './workspace-backup.ts';
import { lockWorkspace, makeFolder } from './workspace-lock.ts';

/** The list of files and sums is held in memory; unit: bytes. */
const META_BYTES_MAX = 64 * 1024 * 1024;
const FOLDER_MODE = 0o700;
/** The longest a part of a path may be on common file systems; unit: bytes. */
const NAME_BYTES_MAX = 255;

export interface RestoreOptions {
  /** Move a workspace that is not empty aside. */
  readonly force: boolean;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: BackupProgress) => void;
}

export interface RestoreResult {
  readonly files: number;
  /** When the backup was made; ISO 8601 UTC. */
  readonly createdAt: string;
  /** Version of the program that made it. */
  readonly program: string;
  /** Where the workspace is that was there before; null when there was none. */
  readonly movedTo: string | null;
}

/**
 * Puts a backup in the place of a workspace. The archive is read to its end and checked before anything is written; then it is unpacked beside the
 * folder and takes its name in one step.
 *
 * @throws AppError `workspace_locked` while a daemon runs on the folder, `invalid_request` when it is not empty and `force` is false,
 *   `storage_corrupt` and `storage_version` for the archive, `workspace_unwritable`, `storage_failed`; the folder is as it was then
 */
export async function restoreWorkspace(archive: string, folder: string, options: RestoreOptions): Promise<RestoreResult> {
  const lock = existsSync(join(folder, '.daemon', 'lock.db')) ? lockWorkspace(folder, restorer()) : undefined;
  try {
    const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw new AppError('workspace_unwritable', { detail: `${folder} cannot be read (${error.message})`, cause: error });
    });
    const isUsed = names !== null && names.length > 0;
    if (isUsed && !options.force) {
      const detail = `${folder} is not empty and was left alone; restore into another folder, or move what is there aside with --force`;
      throw new AppError('invalid_request', { detail });
    }
    const { about, files } = await readBackup(archive, options, () => Promise.resolve(undefined));
    const isMounted = names !== null && (await stat(folder)).dev !== (await stat(dirname(folder))).dev;
    if (isMounted && isUsed) {
      const detail = `${folder} is a mounted file system, which cannot be moved aside; empty it, or restore into a folder below it`;
      throw new AppError('workspace_unwritable', { detail });
    }
    const staged = isMounted ? join(folder, `.restoring-${process.pid}`) : `${folder}.restoring-${process.pid}`;
    try {
      makeFolder(dirname(staged));
      mkdirSync(staged, { mode: FOLDER_MODE });
      await readBackup(archive, options, (path, file) => unpack(staged, path, file));
      for (const name of isUsed ? ['signals.db', 'memory.db'] : []) {
        if (existsSync(join(staged, 'data', name))) carryMark(join(folder, 'data', name), join(staged, 'data', name));
      }
      const movedTo = isUsed ? `${folder}.before-restore-${isoTime(systemClock.now()).replace(/[-:]|\.\d+/g, '')}` : null;
      await takePlace({ staged, folder, movedTo, isMounted });
      return { files, createdAt: about.createdAt, program: about.program, movedTo };
    } catch (error) {
      throw error instanceof AppError || options.signal.aborted ? error : unwritable(folder, error);
    } finally {
      await rm(staged, { recursive: true, force: true });
    }
  } finally {
    lock?.release();
  }
}

function restorer() {
  return { pid: process.pid, version: VERSION, host: '127.0.0.1', port: null, runtimePort: null, startedAt: isoTime(systemClock.now()) };
}

interface Place {
  readonly staged: string;
  readonly folder: string;
  readonly movedTo: string | null;
  readonly isMounted: boolean;
}

async function takePlace({ staged, folder, movedTo, isMounted }: Place): Promise<void> {
  if (isMounted) {
    for (const name of await readdir(staged)) await rename(join(staged, name), join(folder, name));
    return;
  }
  if (movedTo === null) return rename(staged, folder);
  await rename(folder, movedTo);
  // It names this process, which had the lock.
  rmSync(join(movedTo, '.daemon', 'daemon.json'), { force: true });
  try {
    await rename(staged, folder);
  } catch (error) {
    await rename(movedTo, folder).catch((cause: unknown) => {
      const detail = `${folder} could not be replaced; what was there is in ${movedTo} now`;
      throw new AppError('workspace_unwritable', { detail, cause });
    });
    throw error;
  }
}

/** New files and folders alone: what is there already is never opened. */
async function unpack(root: string, path: string, file: PackedFile): Promise<void> {
  const target = join(root, ...path.split('/'));
  await mkdir(dirname(target), { recursive: true, mode: FOLDER_MODE });
  const handle = await open(target, 'wx', file.mode);
  try {
    for await (const chunk of file.content) await handle.writeFile(chunk);
    await handle.utimes(file.mtimeMs / 1_000, file.mtimeMs / 1_000);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

type OnFile = (path: string, file: PackedFile) => Promise<void>;

/** Reads an archive to its end and checks all of it; `onFile` may read the content of each file as it comes. */
async function readBackup(archive: string, { signal, onProgress }: RestoreOptions, onFile: OnFile) {
  const found = new Map<string, { size: number; sha256: string }>();
  let about: BackupAbout | undefined;
  let sums: BackupSums | undefined;
  for await (const file of readArchive(archive)) {
    signal.throwIfAborted();
    if (sums) throw damagedArchive(archive, `something follows after ${SUMS_FILE}`);
    if (!about) about = readAbout(await readMeta(archive, file, ABOUT_FILE), archive);
    else if (file.path === SUMS_FILE) sums = parseMeta(BackupSums, await readMeta(archive, file, SUMS_FILE), archive, SUMS_FILE);
    else {
      const path = requirePath(file.path, archive);
      if (found.has(path)) throw damagedArchive(archive, `it holds ${JSON.stringify(path)} twice`);
      if (found.size >= BACKUP_FILES_MAX) throw damagedArchive(archive, `it holds more than ${BACKUP_FILES_MAX} files`);
      const hash = createHash('sha256');
      let read = 0;
      const content = watched(file.content, (chunk) => {
        signal.throwIfAborted();
        hash.update(chunk);
        read += chunk.length;
        onProgress({ path, done: read / file.size });
      });
      await onFile(path, { ...file, content });
      for await (const _ of content); // What nobody wanted is checked all the same.
      found.set(path, { size: file.size, sha256: hash.digest('hex') });
    }
  }
  if (!about || !sums) throw damagedArchive(archive, 'it is not complete');
  for (const { path, size, sha256 } of sums.files) {
    const file = found.get(path);
    if (file?.size !== size || file.sha256 !== sha256) throw damagedArchive(archive, `the sum of ${JSON.stringify(path)} is wrong`);
  }
  if (sums.files.length !== found.size) throw damagedArchive(archive, `it holds files that ${SUMS_FILE} does not name`);
  return { about, files: found.size };
}

function watched(content: AsyncIterable<Buffer>, look: (chunk: Buffer) => void): AsyncIterable<Buffer> {
  const chunks = content[Symbol.asyncIterator]();
  const next = async (): Promise<IteratorResult<Buffer>> => {
    const result = await chunks.next();
    if (!result.done) look(result.value);
    return result;
  };
  return { [Symbol.asyncIterator]: () => ({ next }) };
}

async function readMeta(archive: string, file: PackedFile, name: string): Promise<string> {
  if (file.path !== name || file.size > META_BYTES_MAX) throw damagedArchive(archive, `it does not begin with ${ABOUT_FILE}`);
  const parts: Buffer[] = [];
  for await (const part of file.content) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

function readAbout(text: string, archive: string): BackupAbout {
  const about = parseMeta(BackupAbout, text, archive, ABOUT_FILE);
  if (about.version > BACKUP_VERSION) {
    const detail = `${archive} has format ${about.version} (made by Signet ${about.program}), this program reads format ${BACKUP_VERSION}; use the program that made it`;
    throw new AppError('storage_version', { detail });
  }
  return about;
}

function parseMeta<T>(schema: { parse(value: unknown): T }, text: string, archive: string, name: string): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw damagedArchive(archive, `${name} in it cannot be read`, error);
  }
}

/** The path below the workspace: relative, without `..`, and one that a backup may hold. */
function requirePath(name: string, archive: string): string {
  const path = name.startsWith(FILES_PREFIX) ? name.slice(FILES_PREFIX.length) : '';
  const isGood = path.split('/').every(isName) && isKept(path);
  if (!isGood) throw damagedArchive(archive, `${JSON.stringify(name)} is no file of a workspace`);
  return path;
}

function isName(part: string): boolean {
  return (
    part !== '' && part !== '.' && part !== '..' && !part.includes('\0') && !part.includes(sep) && Buffer.byteLength(part) <= NAME_BYTES_MAX
  );
}

function unwritable(folder: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('workspace_unwritable', { detail: `${folder} could not be restored (${reason}); it is as it was`, cause });
}
