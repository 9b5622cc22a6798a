import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { AppError } from '../core/errors.ts';
import { makeFolder } from './workspace-lock.ts';

/** Files with keys and hashes of tokens: nobody else on the machine reads them. */
const FILE_MODE = 0o600;

/** Undefined when there is none. @throws AppError `storage_failed` */
export async function readPrivateFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw fileFailed('read', path, error);
  }
}

/**
 * Replace a file in one step: the new text is on the disk before it gets the name, and the name before this answers.
 *
 * @param synced  false for what is of no use after a crash: it need not be on the disk
 * @throws AppError `storage_failed`, `workspace_unwritable`
 */
export async function replacePrivateFile(path: string, text: string, { synced = true }: { readonly synced?: boolean } = {}): Promise<void> {
  const partial = `${path}.part`;
  makeFolder(dirname(path));
  try {
    await rm(partial, { force: true }); // What a crash left keeps its own mode; a new file gets ours.
    await writeNew(partial, text, synced);
    await rename(partial, path);
    if (synced) await syncFolder(dirname(path));
  } catch (error) {
    throw fileFailed('write', path, error);
  }
}

/** A folder that no version control takes in, whatever the rules above it say. */
export async function keepOutOfGit(folder: string): Promise<void> {
  const path = `${folder}/.gitignore`;
  if ((await readPrivateFile(path)) === undefined) await replacePrivateFile(path, '*\n');
}

export function corruptFile(path: string, why: string, cause?: unknown): AppError {
  const detail = `${path} is damaged: ${why}; it is left as it is: put a backup in its place, or move it away`;
  return new AppError('storage_corrupt', { detail, cause });
}

async function writeNew(path: string, text: string, synced: boolean): Promise<void> {
  const file = await open(path, 'wx', FILE_MODE);
  try {
    await file.writeFile(text);
    if (synced) await file.sync();
  } finally {
    await file.close();
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

function fileFailed(verb: string, path: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('storage_failed', { detail: `cannot ${verb} ${path} (${reason})`, cause });
}
