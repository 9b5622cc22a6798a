import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { SECRETS_MAX } from '../contract/secrets.ts';
import type { Clock } from '../core/clock.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { SecretDates, SecretVault } from '../core/secret-vault.ts';
import { corruptFile, keepOutOfGit, readPrivateFile, replacePrivateFile } from './secret-file.ts';
import { createKey, findKey, type KeyRef } from './secret-key.ts';
import type { Keyring } from './secret-keyring.ts';

const FOLDER = '.secrets';
const FILE = 'vault.json';
const VERSION = 1;
const CIPHER = 'aes-256-gcm';
/** As GCM wants it; random, which is safe for far more writes than a person makes. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

interface Entry extends SecretDates {
  /** Nonce, ciphertext and tag in base64. */
  readonly box: string;
}

interface Vault {
  readonly key: KeyRef;
  readonly entries: ReadonlyMap<string, Entry>;
}

export interface SecretStoreOptions {
  readonly workspace: string;
  readonly clock: Clock;
  /** Undefined: the key is kept in a file. */
  readonly keyring: Keyring | undefined;
}

/**
 * Secrets in `<workspace>/.secrets/vault.json`, each encrypted for itself and bound to its name. The file is read anew for each call: whoever
 * holds the workspace's lock is its only writer, and nothing stays in memory. A damaged file is refused and never written over.
 */
export function createSecretStore({ workspace, clock, keyring }: SecretStoreOptions): SecretVault {
  const folder = join(workspace, FOLDER);
  const path = join(folder, FILE);
  let last: Promise<unknown> = Promise.resolve();
  /** One change after the other. */
  const inTurn = <T>(change: () => Promise<T>): Promise<T> => {
    const next = last.then(change, change);
    last = next.catch(() => undefined);
    return next;
  };
  const opened = async (): Promise<{ vault: Vault; key: Buffer }> => {
    const vault = await readVault(path);
    if (vault) return { vault, key: await findKey(folder, vault.key, keyring) };
    const { ref, key } = await createKey(folder, `vault-${randomBytes(8).toString('hex')}`, keyring);
    await keepOutOfGit(folder);
    return { vault: { key: ref, entries: new Map() }, key };
  };
  const find = async (name: string) => (await readVault(path))?.entries.get(name);
  return {
    names: async () => [...((await readVault(path))?.entries.keys() ?? [])].sort(),
    find: async (name) => {
      const entry = await find(name);
      return entry && { createdAt: entry.createdAt, updatedAt: entry.updatedAt };
    },
    put: (name, value) =>
      inTurn(async () => {
        const { vault, key } = await opened();
        const now = isoTime(clock.now());
        const before = vault.entries.get(name);
        if (!before && vault.entries.size >= SECRETS_MAX)
          throw new AppError('overloaded', { detail: `${SECRETS_MAX} secrets are stored, which is as many as may be; delete some` });
        const entry = { box: seal(key, name, value), createdAt: before?.createdAt ?? now, updatedAt: now };
        await writeVault(path, { key: vault.key, entries: new Map([...vault.entries, [name, entry]]) });
      }),
    remove: (name) =>
      inTurn(async () => {
        const vault = await readVault(path);
        const entries = new Map(vault?.entries);
        if (!vault || !entries.delete(name)) return false;
        await writeVault(path, { key: vault.key, entries });
        return true;
      }),
    read: async (name) => {
      const vault = await readVault(path);
      const entry = vault?.entries.get(name);
      if (!vault || !entry) return undefined;
      return unseal(await findKey(folder, vault.key, keyring), name, entry.box, path);
    },
  };
}

function seal(key: Buffer, name: string, value: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(aboutName(name));
  return Buffer.concat([nonce, cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64');
}

function unseal(key: Buffer, name: string, box: string, path: string): string {
  const bytes = Buffer.from(box, 'base64');
  try {
    const decipher = createDecipheriv(CIPHER, key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(aboutName(name)).setAuthTag(bytes.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
  } catch (error) {
    throw corruptFile(path, `the value of ${name} was changed after it was stored`, error);
  }
}

/** So that nobody can give one secret the value of another by moving it in the file. */
function aboutName(name: string): Buffer {
  return Buffer.from(`signet secret ${VERSION} ${name}`);
}

async function writeVault(path: string, { key, entries }: Vault): Promise<void> {
  await replacePrivateFile(path, `${JSON.stringify({ version: VERSION, key, secrets: Object.fromEntries(entries) }, null, 2)}\n`);
}

/** Undefined when there is no file. */
async function readVault(path: string): Promise<Vault | undefined> {
  const text = await readPrivateFile(path);
  if (text === undefined) return undefined;
  const { version, key, secrets } = parse(path, text);
  if (typeof version === 'number' && version > VERSION) {
    const detail = `${path} has version ${version}, this program reads version ${VERSION}; use the program that wrote it`;
    throw new AppError('storage_version', { detail });
  }
  if (version !== VERSION || !isKeyRef(key)) throw corruptFile(path, 'it does not say what it is encrypted with');
  if (typeof secrets !== 'object' || secrets === null || Array.isArray(secrets)) throw corruptFile(path, 'it holds no list of secrets');
  const entries = new Map<string, Entry>();
  for (const [name, entry] of Object.entries(secrets)) {
    if (!isEntry(entry)) throw corruptFile(path, `${JSON.stringify(name.slice(0, 128))} is no secret`);
    entries.set(name, entry);
  }
  return { key, entries };
}

function parse(path: string, text: string): { version?: unknown; key?: unknown; secrets?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    // Without the parser's words: they quote the file.
    throw corruptFile(path, 'it is not JSON');
  }
}

function isKeyRef(value: unknown): value is KeyRef {
  const { vault, place, check } = (value ?? {}) as Record<string, unknown>;
  return (
    typeof vault === 'string' && /^[a-z0-9-]{1,64}$/.test(vault) && (place === 'keyring' || place === 'file') && typeof check === 'string'
  );
}

function isEntry(value: unknown): value is Entry {
  const { box, createdAt, updatedAt } = (value ?? {}) as Record<string, unknown>;
  return [box, createdAt, updatedAt].every((field) => typeof field === 'string');
}
