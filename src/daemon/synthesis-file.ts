import { constants, type Dirent } from 'node:fs';
import { copyFile, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { AppError } from '../core/errors.ts';

const FILE = 'MEMORY.md';
/** Backups kept of one agent's MEMORY.md; the oldest goes first. */
const BACKUPS_MAX = 20;
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** '' when there is none. */
export async function readMemoryFile(folder: string, agentId: string): Promise<string> {
  try {
    return await readFile(join(agentFolder(folder, agentId), FILE), 'utf8');
  } catch (error) {
    if (isMissing(error)) return '';
    throw unwritable(folder, error);
  }
}

/**
 * Put a new MEMORY.md in the place of the old one, in one step: a reader sees either. The old one is kept beside it first.
 *
 * @returns path of the backup within the workspace, null when there was nothing to keep
 * @throws AppError workspace_unwritable; the old file stands then
 */
export async function writeMemoryFile(folder: string, agentId: string, text: string, atMs: number): Promise<string | null> {
  const home = agentFolder(folder, agentId);
  const file = join(home, FILE);
  const partial = `${file}.part`;
  try {
    await mkdir(join(home, 'memory'), { recursive: true, mode: FOLDER_MODE });
    const backup = await keepBackup(home, file, atMs);
    const handle = await open(partial, 'w', FILE_MODE);
    try {
      // Whoever may read the file now may go on.
      if (backup !== null) await handle.chmod((await stat(file)).mode);
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, file);
    return backup === null ? null : relative(folder, backup);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined); // What is told is why the file could not be written.
    throw unwritable(file, error);
  }
}

async function keepBackup(home: string, file: string, atMs: number): Promise<string | null> {
  const stamp = new Date(atMs).toISOString().replace(/[:.]/g, '-');
  for (let number = 0; ; number += 1) {
    const backup = join(home, 'memory', `MEMORY.backup-${stamp}${number === 0 ? '' : `-${number}`}.md`);
    try {
      await copyFile(file, backup, constants.COPYFILE_EXCL);
      await dropOldBackups(join(home, 'memory'));
      return backup;
    } catch (error) {
      if (isMissing(error)) return null;
      const isTaken = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!isTaken || number >= BACKUPS_MAX) throw error;
    }
  }
}

/** Their names sort by time. */
async function dropOldBackups(folder: string): Promise<void> {
  const isBackup = (entry: Dirent): boolean => entry.isFile() && /^MEMORY\.backup-.*\.md$/.test(entry.name);
  const names = (await readdir(folder, { withFileTypes: true })).filter(isBackup).map((entry) => entry.name);
  for (const name of names.sort().slice(0, -BACKUPS_MAX)) await rm(join(folder, name), { force: true });
}

function agentFolder(folder: string, agentId: string): string {
  return agentId === DEFAULT_AGENT ? folder : join(folder, 'agents', agentId);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function unwritable(path: string, cause: unknown): AppError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('workspace_unwritable', { detail: `${path}: ${reason}; the old MEMORY.md stands`, cause });
}
