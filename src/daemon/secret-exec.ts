import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import type { ExecAnswer } from '../contract/secrets.ts';
import { AppError } from '../core/errors.ts';
import { createRedactor } from '../core/redact.ts';

/** Kept of stdout, and of stderr; what follows is read and dropped; unit: bytes. */
export const OUTPUT_BYTES_MAX = 262_144;
/** A command that writes more than this altogether is ended; unit: bytes. */
export const FLOOD_BYTES_MAX = 64 * 1_048_576;
/** How long what an ended command has left in its pipes may take to be read; unit: milliseconds. */
const PIPE_GRACE_MS = 1_000;
/** When to come back; unit: milliseconds. */
const RETRY_AFTER_MS = 1_000;
const CODE_TIMED_OUT = 124;
/** A shell answers this and the number of the signal. */
const CODE_SIGNAL = 128;

/**
 * Of the daemon's own environment a command gets these; the rest may hold keys of model providers.
 * `OP_` belongs to 1Password and goes to its command line alone.
 */
const PASSED = /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|XDG_[A-Z_]+|https?_proxy|no_proxy|all_proxy)$/i;

export interface SecretCommand {
  readonly command: string;
  /** Absolute; an existing folder. */
  readonly cwd: string;
  /** Values by the variable that holds them. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly timeoutMs: number;
  /** The command is ended when nobody waits for its answer any more. */
  readonly signal: AbortSignal;
}

/** Names as the system has them; values are never logged. */
export function plainEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => PASSED.test(name)));
}

/**
 * Run a shell command in a process group of its own, and end the whole group with it: nothing it started in the background stays.
 *
 * @throws AppError `invalid_request` when command and secrets are too long together, `overloaded` when no shell can be started
 */
export async function runWithSecrets(env: NodeJS.ProcessEnv, task: SecretCommand): Promise<ExecAnswer> {
  const child = startShell(task, { ...plainEnvironment(env), ...Object.fromEntries(task.secrets) });
  const outputs = [collect(child.stdout, child), collect(child.stderr, child)] as const;
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    endGroup(child);
  }, task.timeoutMs);
  const abort = () => endGroup(child);
  task.signal.addEventListener('abort', abort, { once: true });
  if (task.signal.aborted) abort();
  try {
    const code = await ended(child);
    const redactor = createRedactor([...task.secrets.values()]);
    const shown = ({ bytes, isCut }: Collected) => redactor.redactInSlices(bytes(), isCut() || timedOut, () => setImmediate());
    const [stdout, stderr] = [await shown(outputs[0]), await shown(outputs[1])];
    const truncated = outputs.some(({ isCut }) => isCut());
    return { stdout, stderr, code: timedOut ? CODE_TIMED_OUT : code, timedOut, truncated };
  } finally {
    clearTimeout(timer);
    task.signal.removeEventListener('abort', abort);
  }
}

function startShell({ command, cwd }: SecretCommand, env: NodeJS.ProcessEnv): ChildProcessByStdio<null, Readable, Readable> {
  try {
    return spawn('/bin/sh', ['-c', command], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw notStarted(error);
  }
}

/** Without the cause: it holds the command. */
function notStarted(error: unknown): AppError {
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  if (code === 'E2BIG')
    return new AppError('invalid_request', {
      detail: 'command and secrets are longer than this system takes; put the long one into a file',
    });
  const detail = `no shell could be started (${code}); try again when the machine has less to do`;
  return new AppError('overloaded', { detail, retryAfterMs: RETRY_AFTER_MS });
}

interface Collected {
  bytes(): Buffer;
  isCut(): boolean;
}

function collect(stream: Readable, child: ChildProcess): Collected {
  const kept: Buffer[] = [];
  let keptBytes = 0;
  let seenBytes = 0;
  stream.on('data', (chunk: Buffer) => {
    seenBytes += chunk.length;
    const room = OUTPUT_BYTES_MAX - keptBytes;
    if (room > 0) {
      kept.push(chunk.subarray(0, room));
      keptBytes += Math.min(room, chunk.length);
    }
    if (seenBytes > FLOOD_BYTES_MAX) endGroup(child);
  });
  // A pipe that breaks has no more to say.
  stream.on('error', () => undefined);
  return { bytes: () => Buffer.concat(kept), isCut: () => seenBytes > keptBytes };
}

/** Exit code, once the shell is gone and its output read. What outlives the shell ends with it, also when it holds the pipes open. */
function ended(child: ChildProcess): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let timer: NodeJS.Timeout | undefined;
  child.once('error', (error) => reject(notStarted(error)));
  child.once('exit', () => {
    endGroup(child);
    timer = setTimeout(() => {
      child.stdout?.destroy();
      child.stderr?.destroy();
    }, PIPE_GRACE_MS);
  });
  child.once('close', (code, signal) => {
    clearTimeout(timer);
    resolve(code ?? CODE_SIGNAL + (signal ? constants.signals[signal] : 0));
  });
  return promise;
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended by itself.
  }
}
