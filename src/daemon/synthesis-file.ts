import { constants, type Dirent } from 'node:fs';
import { readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { makeFolderInside, openInside } from './workspace-file.ts';

const FILE = 'MEMORY.md';
/** Backups kept of one agent's MEMORY.md; the oldest goes first. */
const BACKUPS_MAX = 20;
const FILE_MODE = 0o600;
const { O_CREAT, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

/** '' when there is none. */
export async function readMemoryFile(folder: string, agentId: string): Promise<string> {
  try {
    return await readText(folder, join(agentFolder(agentId), FILE));
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
  const home = agentFolder(agentId);
  const file = join(home, FILE);
  const partial = `${file}.part`;
  let real: string | undefined;
  try {
    await makeFolderInside(folder, join(home, 'memory'));
    real = await makeFolderInside(folder, home);
    const kept = await keepBackup(folder, home, atMs);
    const handle = await openInside(folder, partial, O_WRONLY | O_CREAT | O_TRUNC, FILE_MODE);
    try {
      // Whoever may read the file now may go on.
      if (kept !== null) await handle.chmod(kept.mode);
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // A link of that name is replaced, not followed.
    await rename(join(real, `${FILE}.part`), join(real, FILE));
    return kept?.backup ?? null;
  } catch (error) {
    // What is told is why the file could not be written.
    if (real !== undefined) await rm(join(real, `${FILE}.part`), { force: true }).catch(() => undefined);
    throw unwritable(join(folder, file), error);
  }
}

async function readText(folder: string, path: string): Promise<string> {
  const handle = await openInside(folder, path, O_RDONLY);
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/** Null when there is nothing to keep. */
async function keepBackup(folder: string, home: string, atMs: number): Promise<{ backup: string; mode: number } | null> {
  const stamp = new Date(atMs).toISOString().replace(/[:.]/g, '-');
  const old = await openInside(folder, join(home, FILE), O_RDONLY).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (old === null) return null;
  try {
    const { mode } = await old.stat();
    for (let number = 0; ; number += 1) {
      const backup = join(home, 'memory', `MEMORY.backup-${stamp}${number === 0 ? '' : `-${number}`}.md`);
      try {
        const copy = await openInside(folder, backup, O_WRONLY | O_CREAT | O_EXCL, mode & 0o777);
        await copy.writeFile(await old.readFile()).finally(() => copy.close());
        await dropOldBackups(await makeFolderInside(folder, join(home, 'memory')));
        return { backup, mode };
      } catch (error) {
        const isTaken = error instanceof Error && 'code' in error && error.code === 'EEXIST';
        if (!isTaken || number >= BACKUPS_MAX) throw error;
      }
    }
  } finally {
    await old.close();
  }
}

/** Their names sort by time. */
async function dropOldBackups(folder: string): Promise<void> {
  const isBackup = (entry: Dirent): boolean => entry.isFile() && /^MEMORY\.backup-.*\.md$/.test(entry.name);
  const names = (await readdir(folder, { withFileTypes: true })).filter(isBackup).map((entry) => entry.name);
  for (const name of names.sort().slice(0, -BACKUPS_MAX)) await rm(join(folder, name), { force: true });
}

/** Within the workspace. */
function agentFolder(agentId: string): string {
  return agentId === DEFAULT_AGENT ? '' : join('agents', agentId);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

function unwritable(path: string, cause: unknown): AppError {
  if (isAppError(cause)) return cause;
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new AppError('workspace_unwritable', { detail: `${path}: ${reason}; the old MEMORY.md stands`, cause });
}
