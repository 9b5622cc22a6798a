import { createHash, randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { dirname, join } from 'node:path';
import { type NewToken, TOKENS_MAX, TokenInfo, type TokenRole } from '../contract/tokens.ts';
import type { Caller } from '../core/caller.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { TokenBook } from '../core/token.ts';
import { corruptFile, keepOutOfGit, readPrivateFile, replacePrivateFile } from './secret-file.ts';

const FOLDER = '.daemon';
const FILE = 'tokens.json';
const VERSION = 1;
const DAY_MS = 86_400_000;
/** Nobody guesses 256 random bits; unit: bytes. */
const TOKEN_BYTES = 32;
const ID_CHARS = 12;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
/** The beginning lets people and scanners see what it is. */
const TOKEN = /^signet_([a-z0-9]{12})_[A-Za-z0-9_-]{43}$/;
const LOCAL_ID = 'local';

interface Stored {
  readonly info: TokenInfo;
  /** SHA-256. A slow hash is for passwords, which can be guessed; here it would only let callers burn our time. */
  readonly digest: Buffer;
}

/** Compared with when there is no such token, so that both ways take as long. */
const NOBODY = createHash('sha256').update(randomBytes(TOKEN_BYTES)).digest();

export interface TokenStoreOptions {
  readonly workspace: string;
  readonly clock: Clock;
  /** A token of this process alone, for commands of the same user on this machine; admin. */
  readonly local?: string;
}

/**
 * Tokens in `<workspace>/.daemon/tokens.json`, as digests. The caller holds the workspace's lock. A damaged file is refused and never
 * written over.
 */
export function createTokenStore(options: TokenStoreOptions): TokenBook {
  const book = openTokenFile(options);
  const { clock } = options;
  const listeners = new Set<() => void>();
  const localDigest = options.local === undefined ? undefined : digestOf(options.local);
  return {
    load: book.load,
    callerOf: (token) => {
      const digest = digestOf(token);
      if (localDigest && timingSafeEqual(digest, localDigest)) return { id: LOCAL_ID, role: 'admin' };
      const found = book.tokens().get(TOKEN.exec(token)?.[1] ?? '');
      const isRight = timingSafeEqual(digest, found?.digest ?? NOBODY);
      return found && isRight && isAlive(found.info, clock) ? toCaller(found.info) : undefined;
    },
    isValid: (id) => {
      const token = book.tokens().get(id);
      return id === LOCAL_ID || (token !== undefined && isAlive(token.info, clock));
    },
    async list() {
      await book.load();
      return [...book.tokens().values()].map(({ info }) => info).filter((info) => isAlive(info, clock));
    },
    create: (request, notAfterMs) =>
      book.change((now) => {
        if (now.size >= TOKENS_MAX)
          throw new AppError('overloaded', { detail: `there are ${TOKENS_MAX} tokens, which is as many as may be; revoke some` });
        const info = newInfo(request, clock.now(), notAfterMs);
        const token = `signet_${info.id}_${randomBytes(TOKEN_BYTES).toString('base64url')}`;
        now.set(info.id, { info, digest: digestOf(token) });
        return { ...info, token };
      }),
    async revoke(id) {
      await book.load();
      const token = book.tokens().get(id);
      if (!token) return undefined;
      await book.change((now) => now.delete(id));
      for (const listener of listeners) listener();
      return token.info;
    },
    onRevoked(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** What is stored, in memory once it was read, and the one way to change it. */
function openTokenFile({ workspace, clock }: TokenStoreOptions) {
  const path = join(workspace, FOLDER, FILE);
  let tokens: ReadonlyMap<string, Stored> = new Map();
  let loading: Promise<void> | undefined;
  let last: Promise<unknown> = Promise.resolve();
  const load = (): Promise<void> => {
    loading ??= readTokens(path).then((read) => {
      tokens = read;
    });
    return loading;
  };
  /** One change after the other, each on the disk before it counts. Those that have expired go with it. */
  const change = <T>(make: (now: Map<string, Stored>) => T): Promise<T> => {
    const next = last.then(async () => {
      await load();
      const changed = new Map([...tokens].filter(([, token]) => isAlive(token.info, clock)));
      const answer = make(changed);
      await writeTokens(path, changed);
      tokens = changed;
      return answer;
    });
    last = next.catch(() => undefined);
    return next;
  };
  return { load, change, tokens: () => tokens };
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function newInfo({ name, role, agent, project, expiresInDays }: NewToken, nowMs: number, notAfterMs = Number.POSITIVE_INFINITY): TokenInfo {
  const endMs = Math.min(notAfterMs, expiresInDays === null ? Number.POSITIVE_INFINITY : nowMs + expiresInDays * DAY_MS);
  return {
    id: Array.from({ length: ID_CHARS }, () => ALPHABET[randomInt(ALPHABET.length)]).join(''),
    name,
    role,
    agent: agent ?? null,
    project: project ?? null,
    createdAt: isoTime(nowMs),
    expiresAt: Number.isFinite(endMs) ? isoTime(endMs) : null,
  };
}

function isAlive({ expiresAt }: TokenInfo, clock: Clock): boolean {
  return expiresAt === null || clock.now() < Date.parse(expiresAt);
}

function toCaller({ id, role, agent, project, expiresAt }: TokenInfo): Caller {
  return {
    id,
    role: role satisfies TokenRole,
    agent: agent ?? undefined,
    project: project ?? undefined,
    expiresAtMs: expiresAt === null ? undefined : Date.parse(expiresAt),
  };
}

async function writeTokens(path: string, tokens: ReadonlyMap<string, Stored>): Promise<void> {
  const rows = [...tokens.values()].map(({ info, digest }) => ({ ...info, sha256: digest.toString('hex') }));
  await keepOutOfGit(dirname(path));
  await replacePrivateFile(path, `${JSON.stringify({ version: VERSION, tokens: rows }, null, 2)}\n`);
}

async function readTokens(path: string): Promise<Map<string, Stored>> {
  const text = await readPrivateFile(path);
  if (text === undefined) return new Map();
  const { version, tokens } = parse(path, text);
  if (typeof version === 'number' && version > VERSION) {
    const detail = `${path} has version ${version}, this program reads version ${VERSION}; use the program that wrote it`;
    throw new AppError('storage_version', { detail });
  }
  if (version !== VERSION || !Array.isArray(tokens)) throw corruptFile(path, 'it is no list of tokens');
  return new Map(tokens.map((row: unknown, index) => toStored(path, row, index)).map((token) => [token.info.id, token]));
}

function parse(path: string, text: string): { version?: unknown; tokens?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    throw corruptFile(path, 'it is not JSON');
  }
}

function toStored(path: string, row: unknown, index: number): Stored {
  const info = TokenInfo.safeParse(row);
  const { sha256 } = (row ?? {}) as { sha256?: unknown };
  if (!info.success || typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256))
    throw corruptFile(path, `token ${index + 1} is not one`);
  const { expiresAt } = info.data;
  if (expiresAt !== null && Number.isNaN(Date.parse(expiresAt))) throw corruptFile(path, `token ${index + 1} has no readable end`);
  return { info: info.data, digest: Buffer.from(sha256, 'hex') };
}
