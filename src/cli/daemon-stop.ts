import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { DaemonInfo } from '../store/workspace-lock.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { formatDuration } from './terminal.ts';
import { clientAt, findDaemon, isAlive, runtimeUrlOf, workspaceFolder } from './workspace.ts';

/** Drain time of a daemon that does not tell its own, in ms; the longest a workspace may configure is 120 s. */
const DRAIN_TIMEOUT_MS = 10_000;
/** Beyond the drain time: session ends and closing the stores, in ms. */
const STOP_MARGIN_MS = 30_000;
/** After SIGKILL, in ms. */
const KILL_TIMEOUT_MS = 5_000;
const POLL_MS = 40;
const PROBE_TIMEOUT_MS = 2_000;
/** Before --force kills one that does not even answer, in ms; it may still write what it holds. */
const FORCED_GRACE_MS = 5_000;
/** The scripts a daemon is started with; whole file names, since a checkout may have any path. */
const OWN_SCRIPT = /(?:^|\/)(?:signet(?:\.js)?|dist\/main\.js|src\/main\.ts)$/;

export interface StopFlags {
  readonly path?: string;
  readonly force?: boolean;
}

/**
 * Ask the daemon of a folder to stop and wait until its process is gone.
 *
 * @returns what happened, as a sentence; also when there was nothing to stop
 * @throws CliExit when it does not end in time (it may still), or when what has its pid is not a daemon
 */
export async function stopDaemon(context: CliContext, flags: StopFlags): Promise<string> {
  const folder = workspaceFolder(context, flags.path);
  const daemon = findDaemon(folder);
  if (!daemon) return `No daemon runs on ${folder}.`;
  const { identity, answered, drainMs } = await recognise(context, daemon, folder);
  if (identity === 'foreign' || (identity === 'unknown' && !flags.force))
    throw new CliExit(EXIT.failure, refusal(daemon, folder, identity));

  const begun = Date.now();
  send(daemon.pid, 'SIGTERM');
  const waitMs = flags.force && !answered ? FORCED_GRACE_MS : drainMs + STOP_MARGIN_MS;
  if (!answered) context.stderr.write(`pid ${daemon.pid} does not answer; waiting up to ${formatDuration(waitMs)} for it to end\n`);
  if (await gone(daemon.pid, waitMs)) return `Stopped pid ${daemon.pid} after ${formatDuration(Date.now() - begun)}.`;
  if (!flags.force) {
    const advice = 'it may still be finishing; look again with: signet status, or end it at once with: signet stop --force';
    throw new CliExit(EXIT.failure, `pid ${daemon.pid} did not end within ${formatDuration(waitMs)}; ${advice}`);
  }
  send(daemon.pid, 'SIGKILL');
  if (await gone(daemon.pid, KILL_TIMEOUT_MS)) return `Killed pid ${daemon.pid}, which did not stop within ${formatDuration(waitMs)}.`;
  throw new CliExit(EXIT.failure, `pid ${daemon.pid} is still there after SIGKILL; the operating system holds it`);
}

interface Recognised {
  readonly identity: Identity;
  readonly answered: boolean;
  readonly drainMs: number;
}

type Identity = 'ours' | 'foreign' | 'unknown';

/** The process is ours for certain when it answers on its port with its own pid: after a crash the number may belong to another program. */
async function recognise(context: CliContext, daemon: DaemonInfo, folder: string): Promise<Recognised> {
  const url = runtimeUrlOf(daemon);
  if (url === null) return { identity: identityByCommand(daemon.pid), answered: false, drainMs: DRAIN_TIMEOUT_MS };
  const client = clientAt(context, url, folder);
  const [health, info] = await Promise.all([
    client.health({ timeoutMs: PROBE_TIMEOUT_MS }).catch(() => undefined), // No answer: the command line decides.
    client.info({ timeoutMs: PROBE_TIMEOUT_MS }).catch(() => undefined),
  ]);
  const drainMs = Number(info?.limits.drainTimeoutMs ?? DRAIN_TIMEOUT_MS);
  const answered = health?.pid === daemon.pid;
  return { identity: answered ? 'ours' : identityByCommand(daemon.pid), answered, drainMs };
}

/** By its command line, where the system tells it (Linux): `node .../signet.js start --foreground`, `node dist/main.js`. */
export function identityByCommand(pid: number): Identity {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    return words.some((word) => OWN_SCRIPT.test(word)) ? 'ours' : 'foreign';
  } catch {
    return 'unknown'; // No /proc here: --force is then the user's word for it.
  }
}

function refusal(daemon: DaemonInfo, folder: string, identity: Identity): string {
  const what = `pid ${daemon.pid} does not answer as the daemon of ${folder}`;
  if (identity === 'unknown') return `${what}; if it is one that hangs, use: signet stop --force`;
  return `${what} and runs another program: it was left alone. The daemon crashed; signet start begins a new one`;
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH')
      throw new CliExit(EXIT.failure, `cannot stop pid ${pid}: ${(error as Error).message}`);
  }
}

async function gone(pid: number, timeoutMs: number): Promise<boolean> {
  const deadline = Date.now() + timeoutMs;
  while (isAlive(pid)) {
    if (Date.now() > deadline) return false;
    await delay(POLL_MS);
  }
  return true;
}
