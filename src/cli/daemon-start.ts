import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, renameSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RuntimeClient } from '../client/runtime-client.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { START_WAITS } from '../core/start-phases.ts';
import { type DaemonInfo, makeFolder } from '../store/workspace-lock.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { formatLogLine, readTail } from './daemon-logs.ts';
import { formatProvider } from './daemon-status.ts';
import { createStyle, type Environment } from './terminal.ts';
import { plainText } from './terminal-text.ts';
import { clientAt, daemonUrlOfInfo, findDaemon, outputFile, runtimeUrlOf, workspaceFolder } from './workspace.ts';

/** How long a daemon may take from its start until it answers, in ms; a cold disk and a migration are slow. */
const START_TIMEOUT_MS = 30_000;
/** Between two looks, in ms. */
const POLL_MS = 40;
/** Deadline of one look at /health, in ms. */
const PROBE_TIMEOUT_MS = 1_000;
/** Beyond this the output of earlier runs is put aside, in bytes; one such file is kept. */
const OUTPUT_BYTES_MAX = 10 * 1_048_576;
/** Lines of the output that a failed start shows. */
const FAILURE_LINES = 15;

/** Flags of `start`, each the same as a variable of the environment. */
export interface StartFlags {
  readonly path?: string;
  readonly host?: string;
  readonly runtimeHost?: string;
  readonly port?: string;
  readonly runtimePort?: string;
  readonly role?: string;
  readonly daemonUrl?: string;
  readonly provider?: string;
  readonly model?: string;
  readonly logLevel?: string;
  readonly record?: string;
  readonly replay?: string;
}

export interface RunningDaemon {
  readonly daemon: DaemonInfo;
  readonly client: RuntimeClient;
  /** It ran before we came. */
  readonly already: boolean;
}

/** The environment with the flags in it, so that the daemon has one place to read. */
export function startEnvironment(context: CliContext, flags: StartFlags): Environment {
  const { host, runtimeHost, port, runtimePort, role, daemonUrl, provider, model, logLevel, record, replay } = flags;
  const recording = record ?? replay;
  const variables = {
    SIGNET_PATH: workspaceFolder(context, flags.path),
    SIGNET_HOST: host,
    SIGNET_RUNTIME_HOST: runtimeHost,
    SIGNET_PORT: port,
    SIGNET_RUNTIME_PORT: runtimePort,
    SIGNET_ROLE: role,
    SIGNET_DAEMON_URL: daemonUrl,
    SIGNET_PROVIDER: provider,
    SIGNET_MODEL: model,
    SIGNET_LOG_LEVEL: logLevel,
    SIGNALS_MODE: recording && (record === undefined ? 'replay' : 'record'),
    SIGNALS_RECORDING: recording && resolve(recording),
  };
  return { ...context.env, ...Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined)) };
}

/** The flags of a restart: a runtime that runs alone stays one, beside the same daemon, unless the flags say otherwise. */
export async function withRole<T extends StartFlags>(context: CliContext, flags: T): Promise<T> {
  const folder = workspaceFolder(context, flags.path);
  const running = findDaemon(folder);
  const url = running && runtimeUrlOf(running);
  if (flags.role !== undefined || !url || running.port !== null) return flags;
  const client = clientAt(context, url, folder);
  const info = await client.info({ timeoutMs: PROBE_TIMEOUT_MS });
  return { ...flags, role: 'runtime', daemonUrl: flags.daemonUrl ?? info.daemonUrl };
}

/**
 * Start a daemon in the background and wait until its runtime answers; one that runs already is left alone.
 *
 * @param timeoutMs  the most it waits; a daemon that takes longer is left to start
 * @throws CliExit with the end of what this start wrote when it ended again or took too long; AppError `workspace_unwritable`
 */
export async function startInBackground(
  context: CliContext,
  flags: StartFlags,
  timeoutMs: number = START_TIMEOUT_MS,
): Promise<RunningDaemon> {
  const folder = workspaceFolder(context, flags.path);
  const running = findDaemon(folder);
  if (running) return { ...(await waitUntilUp(context, { folder, pid: running.pid, outputFrom: 0 }, timeoutMs)), already: true };
  const { child, outputFrom } = spawnDaemon(context, folder, flags);
  try {
    return { ...(await waitUntilUp(context, { folder, pid: child.pid ?? 0, child, outputFrom }, timeoutMs)), already: false };
  } finally {
    child.unref();
  }
}

interface StartedDaemon {
  readonly folder: string;
  readonly pid: number;
  /** Absent when it ran before we came. */
  readonly child?: ChildProcess;
  /** Where in the output file its own lines begin, in bytes. */
  readonly outputFrom: number;
}

function spawnDaemon(context: CliContext, folder: string, flags: StartFlags): { child: ChildProcess; outputFrom: number } {
  const file = outputFile(folder);
  makeFolder(dirname(file));
  let output: number;
  try {
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > OUTPUT_BYTES_MAX) renameSync(file, `${file}.1`);
    output = openSync(file, 'a', 0o600);
  } catch (error) {
    throw new AppError('workspace_unwritable', { detail: `cannot write ${file}: ${(error as Error).message}`, cause: error });
  }
  const outputFrom = fstatSync(output).size;
  const child = spawn(process.execPath, [context.launcher, 'start', '--foreground'], {
    detached: true,
    stdio: ['ignore', output, output],
    // On glibc one arena of malloc instead of one a thread, and free memory at its end given back: about 6 and 2 MiB less.
    env: { MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '131072', ...startEnvironment(context, flags) },
    cwd: folder,
  });
  child.on('error', () => {}); // Seen as an exit by waitUntilUp: the child has no pid.
  closeSync(output);
  return { child, outputFrom };
}

async function waitUntilUp(
  context: CliContext,
  { folder, pid, child, outputFrom }: StartedDaemon,
  timeoutMs: number,
): Promise<Omit<RunningDaemon, 'already'>> {
  // Not the clock on the wall: that may be set back meanwhile.
  const deadline = performance.now() + timeoutMs;
  let ended = false;
  let said = '';
  while (!ended && performance.now() < deadline) {
    const daemon = findDaemon(folder);
    const url = daemon?.pid === pid && runtimeUrlOf(daemon);
    if (daemon && url) {
      const client = clientAt(context, url, folder);
      if (await answers(client)) return { daemon, client };
    }
    ended = child ? child.exitCode !== null || child.signalCode !== null || !child.pid : !daemon;
    if (!ended) await delay(POLL_MS);
    said = sayWhatItWaitsFor(context, folder, outputFrom, said);
  }
  const what = ended ? 'the daemon ended while it started' : `the daemon (pid ${pid}) did not answer within ${timeoutMs / 1_000} s`;
  const lines = readTail(outputFile(folder), FAILURE_LINES, outputFrom).map((line) => `  ${formatLogLine(line)}`);
  if (lines.length === 0) throw new CliExit(EXIT.failure, `${what}, and wrote nothing`);
  throw new CliExit(EXIT.failure, [`${what}; its output ends with:`, ...lines, `All of it: ${outputFile(folder)}`].join('\n'));
}

/** What the daemon says that its start waits for, each thing once. @returns what was said last */
function sayWhatItWaitsFor({ stderr }: CliContext, folder: string, outputFrom: number, said: string): string {
  const [line = ''] = readTail(outputFile(folder), 1, outputFrom);
  if (line === said || !line.includes(`"${START_WAITS}"`)) return said;
  stderr.write(`still starting: ${formatLogLine(line)}\n`);
  return line;
}

/** Any answer in the protocol counts, also that of a runtime which wants a token. */
export async function answers(client: RuntimeClient): Promise<boolean> {
  try {
    await client.health({ timeoutMs: PROBE_TIMEOUT_MS });
    return true;
  } catch (error) {
    return isAppError(error) && error.code !== 'daemon_unreachable' && error.code !== 'timeout';
  }
}

/** What a person wants to know after a start: both addresses, the provider, the folder. */
export async function describeRunning(context: CliContext, running: RunningDaemon, folder: string): Promise<string> {
  const style = createStyle(context.stdout, context.env);
  const { daemon, client } = running;
  const info = await client.info({ timeoutMs: PROBE_TIMEOUT_MS }).catch(() => undefined); // Without a token there is less to tell, but it runs.
  const lines = [
    `${style.green('●')} Signet ${daemon.version} ${running.already ? 'is running already' : 'is running'}, pid ${daemon.pid}`,
    `  runtime   ${client.baseUrl}${style.dim('  sessions, streams, tools')}`,
    `  daemon    ${daemonUrlOfInfo(daemon) ?? info?.daemonUrl ?? 'elsewhere'}${style.dim('  memory, hooks')}`,
    ...(info ? [`  provider  ${plainText(formatProvider(info.provider))}`] : []),
    `  data      ${folder}`,
  ];
  if (info?.provider.offlineDemo) {
    lines.push(
      style.yellow(
        '  No model key was found: answers come from the offline demo. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or see agent.yaml.',
      ),
    );
  }
  return `${lines.join('\n')}\n`;
}
