import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { keepOutOfGit, replacePrivateFile } from './secret-file.ts';

const FILE = join('.daemon', 'local-token');
/** Nobody guesses 256 random bits; unit: bytes. */
const TOKEN_BYTES = 32;

export interface LocalToken {
  readonly token: string;
  /** Compares digests, so that time tells nothing about the token. */
  isSame(other: string): boolean;
  remove(): void;
}

/** A token for the commands of whoever owns the workspace, in a file only that user can read. It ends with the daemon. */
export async function writeLocalToken(workspace: string): Promise<LocalToken> {
  const token = `signet_local_${randomBytes(TOKEN_BYTES).toString('base64url')}`;
  const path = join(workspace, FILE);
  await keepOutOfGit(dirname(path));
  await replacePrivateFile(path, `${token}\n`, { synced: false });
  const digest = digestOf(token);
  return { token, isSame: (other) => timingSafeEqual(digestOf(other), digest), remove: () => rmSync(path, { force: true }) };
}

/** Undefined when the daemon of this workspace needs none, or belongs to another user. */
export function readLocalToken(workspace: string): string | undefined {
  try {
    return readFileSync(join(workspace, FILE), 'utf8').trim() || undefined;
  } catch {
    return undefined; // Absent or not ours: then the daemon says what it wants.
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
