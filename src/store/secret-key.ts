import { createHmac, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { AppError } from '../core/errors.ts';
import { corruptFile, readPrivateFile, replacePrivateFile } from './secret-file.ts';
import type { Keyring } from './secret-keyring.ts';

const KEY_BYTES = 32;
const KEY_FILE = 'key';
const KEY_HEX = /^[0-9a-f]{64}$/;

/** Where the key is kept; said in the file of the secrets, so that nothing is guessed later. */
export type KeyPlace = 'keyring' | 'file';

export interface KeyRef {
  /** Name of the vault: the account in the keyring. It travels with the file, so a workspace may move. */
  readonly vault: string;
  readonly place: KeyPlace;
  /** What the right key makes of a known text. */
  readonly check: string;
}

/**
 * A new key, in the keyring when it takes and gives it back, else in a file of the folder. The key is stored safely when this answers.
 * A key file that is there already is used: it may belong to a vault somebody is about to bring back.
 */
export async function createKey(folder: string, vault: string, keyring: Keyring | undefined): Promise<{ ref: KeyRef; key: Buffer }> {
  const key = randomBytes(KEY_BYTES);
  const hex = key.toString('hex');
  if (keyring && (await keyring.write(vault, hex)) && (await keyring.read(vault)) === hex) {
    return { key, ref: { vault, place: 'keyring', check: keyCheck(key) } };
  }
  const there = await readKeyFile(folder);
  if (!there) await replacePrivateFile(join(folder, KEY_FILE), `${hex}\n`);
  const kept = there ?? key;
  return { key: kept, ref: { vault, place: 'file', check: keyCheck(kept) } };
}

/** @throws AppError `secrets_locked` when the key is not where it was put, or is another one */
export async function findKey(folder: string, ref: KeyRef, keyring: Keyring | undefined): Promise<Buffer> {
  const key = ref.place === 'keyring' ? await readKeyring(ref, keyring) : await readKeyFile(folder);
  const path = join(folder, KEY_FILE);
  if (!key) throw locked(`the key of the secrets should be in ${path}, and is not; put it back from a backup`);
  if (keyCheck(key) === ref.check) return key;
  throw locked(`the key in ${ref.place === 'file' ? path : 'the keyring'} is not the one these secrets were stored with`);
}

async function readKeyring({ vault }: KeyRef, keyring: Keyring | undefined): Promise<Buffer> {
  const hex = await keyring?.read(vault);
  if (hex !== undefined && KEY_HEX.test(hex)) return Buffer.from(hex, 'hex');
  throw locked(
    `the key of the secrets is in the keyring of the system (service signet, account ${vault}), and it did not give it out; unlock it`,
  );
}

async function readKeyFile(folder: string): Promise<Buffer | undefined> {
  const path = join(folder, KEY_FILE);
  const text = (await readPrivateFile(path))?.trim();
  if (text === undefined) return undefined;
  if (!KEY_HEX.test(text)) throw corruptFile(path, 'it is no key');
  return Buffer.from(text, 'hex');
}

function keyCheck(key: Buffer): string {
  return createHmac('sha256', key).update('signet key check').digest('hex').slice(0, 32);
}

function locked(detail: string): AppError {
  return new AppError('secrets_locked', { detail });
}
