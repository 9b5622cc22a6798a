import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { getJson } from './http-client.ts';

const ROOT = resolve(import.meta.dirname, '..', '..');
/** The built program, as users start it. SIGNET_BENCH_LAUNCHER measures another build. */
const LAUNCHER = process.env.SIGNET_BENCH_LAUNCHER ?? join(ROOT, 'bin', 'signet.js');
const MODEL_SERVER = join(ROOT, 'test', 'helpers', 'model-server', 'main.ts');
/** How long a child may take to start; unit: milliseconds. */
const START_TIMEOUT_MS = 30_000;
export interface Child {
  readonly pid: number;
  readonly url: string;
  /** SIGTERM; resolves when it has ended, its folder removed. */
  close(): Promise<void>;
}

export interface DaemonChild extends Child {
  readonly folder: string;
  /** From spawn to an answered GET /health of the runtime; unit: milliseconds. */
  readonly startMs: number;
}

export interface DaemonOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Workspace; without one an empty one that is removed at the end. */
  readonly folder?: string;
  /** Flags of Node, for profiles. */
  readonly nodeFlags?: readonly string[];
}

/** The built daemon as a process of its own, on free ports and an empty workspace. */
export async function startDaemon({ env = {}, folder: given, nodeFlags = [] }: DaemonOptions = {}): Promise<DaemonChild> {
  const folder = given ?? mkdtempSync(join(tmpdir(), 'signet-bench-'));
  const started = performance.now();
  const child = spawn(process.execPath, [...nodeFlags, LAUNCHER, 'start', '--foreground'], {
    // As `npm start` does.
    env: {
      MALLOC_ARENA_MAX: '1',
      MALLOC_TRIM_THRESHOLD_: '131072',
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      SIGNET_PATH: folder,
      SIGNET_PORT: '0',
      SIGNET_RUNTIME_PORT: '0',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await printed(child, /runtime\s+(http:\S+)/);
  await getJson(`${url}/health`);
  const startMs = performance.now() - started;
  return {
    pid: child.pid!,
    url,
    folder,
    startMs,
    close: () => end(child, () => given ?? rmSync(folder, { recursive: true, force: true })),
  };
}

/**
 * The model server as a process of its own; its answer has `tokens` tokens, each a chunk of its own when there is a delay.
 *
 * @param call  a tool it calls once before each answer
 */
export async function startModel({ tokens, delayMs, call }: { tokens: number; delayMs?: number; call?: string }): Promise<Child> {
  const delay = delayMs === undefined ? [] : ['--delay-ms', String(delayMs)];
  const child = spawn(
    process.execPath,
    [MODEL_SERVER, '--port', '0', '--tokens', String(tokens), ...delay, ...(call === undefined ? [] : ['--call', call])],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const url = await printed(child, /(http:\S+)/);
  return { pid: child.pid!, url, close: () => end(child) };
}

/** Where each wire finds the model server. */
export const WIRES = {
  anthropic: (url: string) => ({
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: 'test',
    SIGNET_PROVIDER: 'anthropic',
    SIGNET_MODEL: 'scripted',
  }),
  openai: (url: string) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'test', SIGNET_PROVIDER: 'openai', SIGNET_MODEL: 'scripted' }),
  'openai-compatible': (url: string) => ({ OPENAI_BASE_URL: `${url}/v1`, SIGNET_MODEL: 'scripted' }),
} as const;
export type WireName = keyof typeof WIRES;

async function printed(child: ChildProcess, pattern: RegExp): Promise<string> {
  let text = '';
  const found = Promise.withResolvers<string>();
  child.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
    const match = pattern.exec(text);
    if (match) found.resolve(match[1]!);
  });
  child.once('exit', (code) => found.reject(new Error(`a child ended with ${code}: ${text}`)));
  const timer = setTimeout(() => found.reject(new Error(`a child did not start: ${text}`)), START_TIMEOUT_MS);
  try {
    return await found.promise;
  } finally {
    clearTimeout(timer);
  }
}

async function end(child: ChildProcess, after = () => {}): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
  after();
}
