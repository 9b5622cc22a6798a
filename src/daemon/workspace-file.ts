import { closeSync, constants, existsSync, fstatSync, lstatSync, mkdirSync, openSync, readSync, realpathSync, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isAbsolute, join, normalize, relative, sep } from 'node:path';
import { AppError } from '../core/errors.ts';

/** Not blocking: opening a pipe would wait for its other end. */
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK;
const FOLDER_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FOLDER_MODE = 0o700;
/** Names open files of this process, so that a path can begin at an open folder. Linux alone. */
const OPEN_FILES = '/proc/self/fd';
const CAN_WALK = existsSync(OPEN_FILES);

/**
 * Opens an ordinary file below the workspace. No part of its path may be a symbolic link, so nothing that is planted in the workspace makes
 * the daemon read or write elsewhere. On Linux each folder is opened in the one before, so a folder that is swapped for a link meanwhile is
 * not followed either; elsewhere it is noticed after opening, before anything is read, cut or written. The caller closes.
 *
 * @param path  relative to the workspace
 * @throws AppError workspace_unwritable for a link, a path that leaves the workspace, and what is no ordinary file; the fault of the system otherwise
 */
export async function openInside(folder: string, path: string, flags: number, mode = 0o600): Promise<FileHandle> {
  const inside = pathInside(realpathSync(folder), path);
  const parent = walk(inside, 'find');
  let handle: FileHandle | undefined;
  try {
    // Cut only when it is known what was opened.
    handle = await open(join(parent.path, inside.name), (flags & ~constants.O_TRUNC) | SAFE, mode);
    requireSame(inside, await handle.stat());
    if (flags & constants.O_TRUNC) await handle.truncate();
    return handle;
  } catch (error) {
    await handle?.close();
    throw isLink(error) ? leadsAway(path) : error;
  } finally {
    parent.close();
  }
}

/**
 * Looks at a file, opened for reading as `openInside` does.
 *
 * @param use  gets the open file and what it is; it is closed when this returns
 */
export function useInside<T>(folder: string, path: string, use: (file: number, stats: Stats) => T): T {
  const inside = pathInside(realpathSync(folder), path);
  const parent = walk(inside, 'find');
  let file: number | undefined;
  try {
    file = openSync(join(parent.path, inside.name), constants.O_RDONLY | SAFE);
    const stats = fstatSync(file);
    requireSame(inside, stats);
    return use(file, stats);
  } catch (error) {
    throw isLink(error) ? leadsAway(path) : error;
  } finally {
    if (file !== undefined) closeSync(file);
    parent.close();
  }
}

/** The first `bytesMax` bytes of a file, as `openInside` opens it. */
export function readInside(folder: string, path: string, bytesMax: number): string {
  return useInside(folder, path, (file) => bytesOf(file, bytesMax).toString('utf8'));
}

/** The first `bytesMax` bytes of an open file. */
export function bytesOf(file: number, bytesMax: number): Buffer {
  const buffer = Buffer.alloc(Math.min(bytesMax, fstatSync(file).size));
  return buffer.subarray(0, readSync(file, buffer, 0, buffer.length, 0));
}

/** Where a path of the workspace leads by links that stay within it, relative to it; undefined when it leads out of it. @throws Error when nothing is there */
export function pathWithin(folder: string, path: string): string | undefined {
  const real = relative(realpathSync(folder), realpathSync(join(folder, path)));
  return real === '' || real === '..' || real.startsWith(`..${sep}`) || isAbsolute(real) ? undefined : real;
}

/** Stats of an ordinary file that is reached without a link; undefined for anything else. */
export function statInside(folder: string, path: string): Stats | undefined {
  try {
    const file = pathInside(realpathSync(folder), path);
    refuseLinks(file);
    const stats = lstatSync(file.path);
    return stats.isFile() ? stats : undefined;
  } catch {
    return undefined; // Not there, not readable, or a link.
  }
}

/** Creates a folder and those above it, none of them by way of a link. @returns its real path. @throws AppError workspace_unwritable */
export async function makeFolderInside(folder: string, path: string): Promise<string> {
  const inside = pathInside(realpathSync(folder), join(path, 'any'));
  walk(inside, 'make').close();
  const real = join(inside.root, ...inside.folders);
  if (realpathSync(real) !== real) throw leadsAway(path);
  return real;
}

interface Inside {
  readonly root: string;
  /** Names of the folders on the way, from the root. */
  readonly folders: readonly string[];
  readonly name: string;
  readonly path: string;
}

function pathInside(root: string, path: string): Inside {
  const parts = normalize(path)
    .split(sep)
    .filter((part) => part !== '' && part !== '.');
  const name = parts.at(-1);
  if (isAbsolute(path) || parts.includes('..') || name === undefined) throw leadsAway(path);
  return { root, folders: parts.slice(0, -1), name, path: join(root, ...parts) };
}

interface Folder {
  /** Good until it is closed. */
  readonly path: string;
  close(): void;
}

/** Goes down the folders of a path, each opened in the one before it. @throws AppError workspace_unwritable for one that is a link, or no folder */
function walk(inside: Inside, missing: 'find' | 'make'): Folder {
  if (!CAN_WALK) return lookDown(inside, missing);
  let at = openSync(inside.root, FOLDER_FLAGS);
  const pathOf = (file: number) => `${OPEN_FILES}/${file}`;
  try {
    for (const folder of inside.folders) {
      const next = join(pathOf(at), folder);
      if (missing === 'make') make(next);
      const opened = openSync(next, FOLDER_FLAGS);
      closeSync(at);
      at = opened;
    }
  } catch (error) {
    closeSync(at);
    throw isLink(error) || codeOf(error) === 'ENOTDIR' ? leadsAway(inside.path) : error;
  }
  return { path: pathOf(at), close: () => closeSync(at) };
}

/** By name, where no open folder can be named. */
function lookDown(inside: Inside, missing: 'find' | 'make'): Folder {
  let at = inside.root;
  for (const folder of inside.folders) {
    at = join(at, folder);
    if (missing === 'make') make(at);
    if (!lstatSync(at).isDirectory()) throw leadsAway(inside.path);
  }
  return { path: at, close: () => undefined };
}

function make(path: string): void {
  try {
    mkdirSync(path, { mode: FOLDER_MODE });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
  }
}

function refuseLinks({ root, folders, name }: Inside): void {
  let at = root;
  for (const part of [...folders, name]) {
    at = join(at, part);
    const stats = lstatSync(at, { throwIfNoEntry: false });
    if (stats === undefined) return;
    if (stats.isSymbolicLink()) throw leadsAway(at);
  }
}

/** What was opened is what stands there, and stands there without a link. */
function requireSame({ path }: Inside, opened: Stats): void {
  const named = lstatSync(path);
  if (opened.isFile() && opened.dev === named.dev && opened.ino === named.ino && realpathSync(path) === path) return;
  throw leadsAway(path);
}

function leadsAway(path: string): AppError {
  return new AppError('workspace_unwritable', {
    detail: `${path} leads out of the workspace by a link, or is no ordinary file; put the file itself in its place`,
  });
}

function isLink(error: unknown): boolean {
  return codeOf(error) === 'ELOOP' || codeOf(error) === 'EMLINK';
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
