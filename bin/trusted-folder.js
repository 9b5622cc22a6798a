// Plain JavaScript that old Nodes can read, as signet.js is.
import { lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';

const ROOT_UID = 0;
/** Permission bits of a file's mode. */
const STICKY = 0o1000;
const OTHERS_WRITE = 0o022;
const ANY_OTHER = 0o077;

/**
 * The folder for compiled code: `signet/compile-cache` below the user's cache folder, mode 0700, made when it is missing.
 * Compiled code runs as if it were ours, so the folder and all folders above it must be out of reach of other users.
 *
 * @param env   `XDG_CACHE_HOME`, on Windows `LOCALAPPDATA`
 * @param home  the user's home folder
 * @returns     its real path, without symbolic links; undefined where no folder can be trusted: then nothing is cached
 */
export function compileCacheFolder(env, home) {
  const given = process.platform === 'win32' ? env.LOCALAPPDATA : env.XDG_CACHE_HOME;
  const folder = join(given && isAbsolute(given) ? given : join(home, '.cache'), 'signet', 'compile-cache');
  try {
    for (const part of [dirname(dirname(folder)), dirname(folder), folder]) makeFolder(part);
    // Windows has no owner bits; there the home folder belongs to its user alone.
    if (!process.geteuid) return folder;
    const stats = lstatSync(folder);
    const { uid, mode } = stats;
    if (!stats.isDirectory() || uid !== process.geteuid() || (mode & ANY_OTHER) !== 0) return undefined;
    const real = realpathSync(folder);
    return isOutOfReach(real) ? real : undefined;
  } catch {
    return undefined; // A home that cannot be written: the program starts without a cache.
  }
}

function makeFolder(path) {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
  }
}

/**
 * Tells whether only this user and root can replace a path: each part belongs to one of them, and is not writable for others, unless
 * it is sticky, as /tmp is: there nobody can replace what belongs to another user.
 *
 * @param path  real path, without symbolic links
 */
function isOutOfReach(path) {
  for (let part = path; ; part = dirname(part)) {
    const { uid, mode } = lstatSync(part);
    if (uid !== ROOT_UID && uid !== process.geteuid()) return false;
    if ((mode & OTHERS_WRITE) !== 0 && (mode & STICKY) === 0) return false;
    if (dirname(part) === part) return true;
  }
}

/**
 * Tells whether a program is to be trusted as far as our own code: it belongs to the same user, to root or to us, and not everybody may write it.
 * Node looks for packages in every folder above ours, and one of these may be shared, such as /tmp.
 *
 * @throws Error when there is no such file
 */
export function isTrustedAs(path, ownCode) {
  if (!process.geteuid) return true;
  const trusted = [ROOT_UID, process.geteuid(), statSync(ownCode).uid];
  return [path, dirname(path)].every((part) => {
    const { uid, mode } = statSync(part);
    return trusted.includes(uid) && (mode & 0o002) === 0;
  });
}
