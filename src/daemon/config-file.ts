import { closeSync, constants, fstatSync, openSync, realpathSync, type Stats, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../core/errors.ts';
import { fileFault } from './file-fault.ts';
import { bytesOf, pathWithin } from './workspace-file.ts';

const FILE_MODE = 0o600;
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/**
 * The text of a configuration file of the workspace. It alone may be a link out of the workspace, as people keep theirs in a folder of all
 * their settings: then it must belong to the user of the daemon, to root, or to whom the workspace belongs.
 *
 * @returns its size when that is more than `bytesMax`
 * @throws AppError config_invalid for what is no ordinary file, and for the file of another user; the fault of the system otherwise
 */
export function readConfigFile(folder: string, name: string, bytesMax: number): string | { readonly bytes: number } {
  const path = realpathSync(join(folder, name));
  // What it leads to is opened once, and judged by what was opened.
  const file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    const fault = faultOf(folder, name, stats);
    if (fault !== undefined) throw new AppError('config_invalid', { detail: `${name} ${fault}` });
    return stats.size > bytesMax ? { bytes: stats.size } : bytesOf(file, bytesMax).toString('utf8');
  } finally {
    closeSync(file);
  }
}

function faultOf(folder: string, name: string, stats: Stats): string | undefined {
  if (!stats.isFile()) return 'is no ordinary file; put the configuration itself there';
  if (pathWithin(folder, name) !== undefined || process.getuid === undefined) return undefined;
  const trusted = [process.getuid(), 0, statSync(folder).uid];
  if (trusted.includes(stats.uid)) return undefined;
  return `is a link to a file of another user (uid ${stats.uid}); put the configuration itself there`;
}

/**
 * Puts a text into the place of a configuration file, in one step: a reader sees the old file or the new one. A link to it stays a link.
 *
 * @throws AppError storage_failed, workspace_unwritable; it stands as it was then
 */
export async function replaceConfigFile(folder: string, name: string, text: string): Promise<void> {
  const path = join(folder, name);
  const known = statSync(path, { throwIfNoEntry: false });
  const file = known === undefined ? path : realpathSync(path);
  const partial = `${file}.part`;
  try {
    // What an earlier try left, or a link that was planted, is taken away and never written through.
    await rm(partial, { force: true });
    const handle = await open(partial, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (known?.mode ?? FILE_MODE) & 0o777);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, file);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined); // What is told is why the file could not be written.
    throw fileFault(file, error, 'it stands as it was');
  }
}
