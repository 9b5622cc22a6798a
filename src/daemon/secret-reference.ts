import { spawn } from 'node:child_process';
import { SECRET_CHARS_MAX, SECRET_CHARS_MIN } from '../contract/secrets.ts';
import { AppError } from '../core/errors.ts';
import type { SecretVault } from '../core/secret-vault.ts';
import { plainEnvironment } from './secret-exec.ts';

/** 1Password may ask for a fingerprint that nobody gives; unit: milliseconds. */
const OP_TIMEOUT_MS = 10_000;
/** What it says when it refuses; unit: characters. */
const OP_MESSAGE_CHARS_MAX = 300;

export interface ReferenceDeps {
  readonly vault: SecretVault;
  readonly env: NodeJS.ProcessEnv;
}

/**
 * The value behind the name of a stored secret or an `op://` reference.
 *
 * @throws AppError `secret_not_found`, `secret_reference_failed`, `secrets_locked`, `invalid_request` when the value is too short to be kept
 *         out of an output
 */
export async function resolveSecret({ vault, env }: ReferenceDeps, reference: string, signal: AbortSignal): Promise<string> {
  const value = reference.startsWith('op://') ? await readOnePassword(reference, env, signal) : await vault.read(reference);
  if (value === undefined) throw secretNotFound(reference);
  if (value.trim().length >= SECRET_CHARS_MIN && !value.includes('\0')) return value;
  throw new AppError('invalid_request', {
    detail: `the value of ${reference} has fewer than ${SECRET_CHARS_MIN} characters, or a zero byte; it cannot be given to a command`,
  });
}

/** Clients of this API read the beginning of this sentence. */
export function secretNotFound(name: string): AppError {
  return new AppError('secret_not_found', { detail: `Secret '${name}' not found; store it with: signet secret put ${name}` });
}

/** By `op read`: the account is the one its user has signed in to, or that of OP_SERVICE_ACCOUNT_TOKEN. */
function readOnePassword(reference: string, env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const own = Object.entries(env).filter(([name]) => name.startsWith('OP_'));
  const child = spawn('op', ['read', '--no-newline', reference], {
    env: { ...plainEnvironment(env), ...Object.fromEntries(own) },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: OP_TIMEOUT_MS,
    killSignal: 'SIGKILL',
    signal,
  });
  const value: Buffer[] = [];
  let bytes = 0;
  let message = '';
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    // Four bytes is the longest character there is.
    if (bytes <= SECRET_CHARS_MAX * 4) value.push(chunk);
    else child.kill('SIGKILL');
  });
  child.stderr.on('data', (chunk: Buffer) => {
    if (message.length < OP_MESSAGE_CHARS_MAX) message += chunk.toString();
  });
  child.once('error', (error: NodeJS.ErrnoException) => reject(notStarted(reference, error)));
  child.once('close', (code, killedBy) => {
    if (code === 0) resolve(Buffer.concat(value).toString('utf8'));
    else reject(refused(reference, killedBy ? `it gave no answer within ${OP_TIMEOUT_MS / 1_000} s` : message));
  });
  return promise;
}

function notStarted(reference: string, error: NodeJS.ErrnoException): AppError {
  const missing = error.code === 'ENOENT';
  const detail = missing
    ? `${reference} needs the command line of 1Password: no program "op" is on the PATH of the daemon; install it, or store a secret instead`
    : `op could not be started for ${reference} (${error.code ?? error.name})`;
  return new AppError('secret_reference_failed', { detail, cause: error });
}

function refused(reference: string, why: string): AppError {
  const text = why
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, OP_MESSAGE_CHARS_MAX);
  return new AppError('secret_reference_failed', { detail: `op did not give out ${reference}: ${text || 'it said nothing'}` });
}
