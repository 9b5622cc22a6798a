import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDaemonClient } from '../../src/client/daemon-client.ts';
import { createRuntimeClient, type RuntimeClient } from '../../src/client/runtime-client.ts';
import { start } from '../../src/compose.ts';
import { resolveSettings } from '../../src/config.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import type { DaemonClient } from '../../src/core/operation-call.ts';
import { readDaemonInfo } from '../../src/store/workspace-lock.ts';
import { limitCpu, limitedCommand, type ProcessLimits } from './process-limits.ts';

/** How long a process may take until it has bound its ports; unit: milliseconds. */
const START_TIMEOUT_MS = 60_000;
const POLL_MS = 20;
const LAUNCHER = fileURLToPath(new URL('../../bin/signet.js', import.meta.url));

export interface SignetOptions {
  /** Workspace; a temporary one, removed at close, when left out. */
  readonly folder?: string;
  /** Text of agent.yaml. */
  readonly yaml?: string;
  /** Variables of the environment; nothing of the test's own environment is seen. */
  readonly env?: Readonly<Record<string, string>>;
  readonly logger?: Logger;
  /** Bounds on the process; of startSignetProcess only. */
  readonly limits?: ProcessLimits;
}

export interface Signet {
  readonly folder: string;
  readonly runtimeUrl: string;
  readonly daemonUrl: string;
  readonly client: RuntimeClient;
  readonly daemon: DaemonClient;
  /** Stops it; a temporary workspace is removed. */
  close(): Promise<void>;
}

/** Daemon and runtime as `signet start` composes them, in this process, on free ports. */
export async function startSignet(options: SignetOptions = {}): Promise<Signet> {
  const folder = workspace(options);
  const running = await start(resolveSettings(environment(folder, options)), options.logger ?? silentLogger);
  return {
    ...clients(folder, running.daemon.url, running.runtime.url),
    close: async () => {
      await running.close();
      if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

export interface SignetProcess extends Signet {
  readonly process: ChildProcess;
  /** Everything it wrote to stdout and stderr. */
  output(): string;
  /** kill -9; the workspace stays. */
  kill(): Promise<void>;
}

/** The same as a process of its own, from the built dist/ when there is one: for kill -9, signals and exit codes. */
export async function startSignetProcess(options: SignetOptions = {}): Promise<SignetProcess> {
  const folder = workspace(options);
  const [command, ...args] = limitedCommand([process.execPath, LAUNCHER, 'start', '--foreground'], options.limits);
  const child = spawn(command, args, {
    env: { ...environment(folder, options), PATH: process.env.PATH },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const cpuShare = options.limits?.cpuShare;
  if (cpuShare !== undefined && child.pid !== undefined) {
    const limit = limitCpu(child.pid, cpuShare);
    child.once('exit', () => limit.release());
  }
  let text = '';
  child.stdout.on('data', (chunk) => (text += chunk));
  child.stderr.on('data', (chunk) => (text += chunk));
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const { port, runtimePort } = await bound(folder, child, () => text, START_TIMEOUT_MS / (cpuShare ?? 1));
  return {
    ...clients(folder, `http://127.0.0.1:${port}`, `http://127.0.0.1:${runtimePort}`),
    process: child,
    output: () => text,
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
    close: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM');
      await exited;
      if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function bound(
  folder: string,
  child: ChildProcess,
  output: () => string,
  timeoutMs: number,
): Promise<{ port: number; runtimePort: number }> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline && child.exitCode === null && child.signalCode === null) {
    const info = readDaemonInfo(folder);
    if (info?.pid === child.pid && info?.port && info.runtimePort) return { port: info.port, runtimePort: info.runtimePort };
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  child.kill('SIGKILL');
  throw new Error(`signet did not start:\n${output()}`);
}

function workspace({ folder, yaml }: SignetOptions): string {
  const path = folder ?? mkdtempSync(join(tmpdir(), 'signet-'));
  mkdirSync(path, { recursive: true });
  if (yaml !== undefined) writeFileSync(join(path, 'agent.yaml'), yaml);
  return path;
}

function environment(folder: string, { env = {} }: SignetOptions): Record<string, string> {
  return { SIGNET_PATH: folder, SIGNET_PORT: '0', SIGNET_RUNTIME_PORT: '0', ...env };
}

function clients(folder: string, daemonUrl: string, runtimeUrl: string) {
  return {
    folder,
    daemonUrl,
    runtimeUrl,
    client: createRuntimeClient({ baseUrl: runtimeUrl }),
    daemon: createDaemonClient({ baseUrl: daemonUrl }),
  };
}
