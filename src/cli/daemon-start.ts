import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, renameSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { serverUrl } from '../client/adapter.ts';
import type { RuntimeClient } from '../client/runtime-client.ts';
import { isAppError } from '../core/errors.ts';
import type { DaemonInfo } from '../store/workspace-lock.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { formatLogLine, readTail } from './daemon-logs.ts';
import { createStyle, type Environment } from './terminal.ts';
import { plainText } from './terminal-text.ts';
import { clientAt, findDaemon, outputFile, workspaceFolder } from './workspace.ts';

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
  readonly port?: string;
  readonly runtimePort?: string;
  readonly provider?: string;
  readonly model?: string;
  readonly logLevel?: string;
}

export interface RunningDaemon {
  readonly daemon: DaemonInfo;
  readonly client: RuntimeClient;
  /** It ran before we came. */
  readonly already: boolean;
}

/** The environment with the flags in it, so that the daemon has one place to read. */
export function startEnvironment(context: CliContext, flags: StartFlags): Environment {
  const { host, port, runtimePort, provider, model, logLevel } = flags;
  const variables = {
    SIGNET_PATH: workspaceFolder(context, flags.path),
    SIGNET_HOST: host,
    SIGNET_PORT: port,
    SIGNET_RUNTIME_PORT: runtimePort,
    SIGNET_PROVIDER: provider,
    SIGNET_MODEL: model,
    SIGNET_LOG_LEVEL: logLevel,
  };
  return { ...context.env, ...Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined)) };
}

/**
 * Start a daemon in the background and wait until its runtime answers; one that runs already is left alone.
 *
 * @throws CliExit with the end of its output when it ended again or took longer than START_TIMEOUT_MS (it is then left to start)
 */
export async function startInBackground(context: CliContext, flags: StartFlags): Promise<RunningDaemon> {
  const folder = workspaceFolder(context, flags.path);
  const running = findDaemon(folder);
  if (running) return { ...(await waitUntilUp(context, folder, running.pid)), already: true };
  const child = spawnDaemon(context, folder, flags);
  try {
    return { ...(await waitUntilUp(context, folder, child.pid ?? 0, child)), already: false };
  } finally {
    child.unref();
  }
}

function spawnDaemon(context: CliContext, folder: string, flags: StartFlags): ChildProcess {
  const file = outputFile(folder);
  let output: number;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > OUTPUT_BYTES_MAX) renameSync(file, `${file}.1`);
    output = openSync(file, 'a', 0o600);
  } catch (error) {
    throw new CliExit(EXIT.failure, `cannot write to the data folder ${folder}: ${(error as Error).message}`);
  }
  const child = spawn(process.execPath, [context.launcher, 'start', '--foreground'], {
    detached: true,
    stdio: ['ignore', output, output],
    env: startEnvironment(context, flags),
    cwd: folder,
  });
  child.on('error', () => {}); // Seen as an exit by waitUntilUp: the child has no pid.
  closeSync(output);
  return child;
}

async function waitUntilUp(
  context: CliContext,
  folder: string,
  pid: number,
  child?: ChildProcess,
): Promise<Omit<RunningDaemon, 'already'>> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const daemon = findDaemon(folder);
    if (daemon?.pid === pid && daemon.runtimePort) {
      const client = clientAt(serverUrl(daemon.host, daemon.runtimePort), context.env);
      if (await answers(client)) return { daemon, client };
    }
    if (child ? child.exitCode !== null || child.signalCode !== null || !child.pid : !daemon) break;
    await delay(POLL_MS);
  }
  const ended = Date.now() < deadline;
  const what = ended ? 'the daemon ended while it started' : `the daemon (pid ${pid}) did not answer within ${START_TIMEOUT_MS / 1_000} s`;
  const lines = readTail(outputFile(folder), FAILURE_LINES).map((line) => `  ${formatLogLine(line)}`);
  throw new CliExit(EXIT.failure, [`${what}; its output ends with:`, ...lines, `All of it: ${outputFile(folder)}`].join('\n'));
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
  const info = await client.info().catch(() => undefined); // Without a token there is less to tell, but it runs.
  const provider = info && `${info.provider.id}, ${info.provider.model || 'no model'} (${info.provider.origin})`;
  const lines = [
    `${style.green('●')} Signet ${daemon.version} ${running.already ? 'is running already' : 'is running'}, pid ${daemon.pid}`,
    `  runtime   ${client.baseUrl}${style.dim('  sessions, streams, tools')}`,
    `  daemon    ${daemon.port === null ? 'elsewhere' : serverUrl(daemon.host, daemon.port)}${style.dim('  memory, hooks')}`,
    ...(provider ? [`  provider  ${plainText(provider)}`] : []),
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
