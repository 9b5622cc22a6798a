import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, realpathSync, type Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, realpath } from 'node:fs/promises';
import { isAbsolute, join, normalize, sep } from 'node:path';
import { AppError } from '../core/errors.ts';

/** Not blocking: opening a pipe would wait for its other end. */
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK;
const FOLDER_MODE = 0o700;

/**
 * Opens an ordinary file below the workspace. No part of its path may be a symbolic link, so nothing that is planted in the workspace makes
 * the daemon read or write elsewhere. Checked before and, on what was opened, after opening. The caller closes.
 *
 * @param path  relative to the workspace
 * @throws AppError workspace_unwritable for a link, a path that leaves the workspace, and what is no ordinary file; the fault of the system otherwise
 */
export async function openInside(folder: string, path: string, flags: number, mode = 0o600): Promise<FileHandle> {
  const file = pathInside(await realpath(folder), path);
  refuseLinks(file);
  const handle = await open(file.path, flags | SAFE, mode).catch((error: unknown) => {
    throw isLink(error) ? leadsAway(path) : error;
  });
  try {
    const [opened, named] = [await handle.stat(), await lstat(file.path)];
    requireSame(path, opened, named, await realpath(file.path), file.path);
    return handle;
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** The first `bytesMax` bytes of a file, as `openInside` opens it. */
export function readInside(folder: string, path: string, bytesMax: number): string {
  const file = pathInside(realpathSync(folder), path);
  refuseLinks(file);
  const handle = openSync(file.path, constants.O_RDONLY | SAFE);
  try {
    requireSame(path, fstatSync(handle), lstatSync(file.path), realpathSync(file.path), file.path);
    const buffer = Buffer.alloc(bytesMax);
    return buffer.toString('utf8', 0, readSync(handle, buffer, 0, bytesMax, 0));
  } finally {
    closeSync(handle);
  }
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
  const { root, parts } = pathInside(await realpath(folder), path);
  let at = root;
  for (const part of parts) {
    at = join(at, part);
    await mkdir(at, { mode: FOLDER_MODE }).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    if (!(await lstat(at)).isDirectory()) throw leadsAway(path);
  }
  if ((await realpath(at)) !== at) throw leadsAway(path);
  return at;
}

interface Inside {
  readonly root: string;
  readonly parts: readonly string[];
  readonly path: string;
}

function pathInside(root: string, path: string): Inside {
  const parts = normalize(path)
    .split(sep)
    .filter((part) => part !== '' && part !== '.');
  if (isAbsolute(path) || parts.includes('..')) throw leadsAway(path);
  return { root, parts, path: join(root, ...parts) };
}

function refuseLinks({ root, parts }: Inside): void {
  let at = root;
  for (const part of parts) {
    at = join(at, part);
    const stats = lstatSync(at, { throwIfNoEntry: false });
    if (stats === undefined) return;
    if (stats.isSymbolicLink()) throw leadsAway(at);
  }
}

function requireSame(path: string, opened: Stats, named: Stats, real: string, expected: string): void {
  if (opened.isFile() && opened.dev === named.dev && opened.ino === named.ino && real === expected) return;
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
