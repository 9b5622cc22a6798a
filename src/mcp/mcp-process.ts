import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { McpServer } from '../contract/tool.ts';
import type { ChildGroups } from '../core/child-groups.ts';
import type { Logger } from '../core/logger.ts';
import { createLineReader } from './line-reader.ts';

/** Longest message of a server in bytes; a longer one ends the connection. */
export const MESSAGE_BYTES_MAX = 16_777_216;
/** How long a server may take to end by itself when its input is closed, in ms; the same again after SIGTERM. */
const END_GRACE_MS = 1_000;
/** How long output is still read after the process has gone, in ms, when something it left behind holds its pipes. */
const DRAIN_MS = 200;
/** What a server writes to stderr goes to the debug log: this many pieces of it, each of at most this many characters. */
const STDERR_PIECES_MAX = 500;
const STDERR_PIECE_CHARS_MAX = 2_000;
/** Of our own environment a server sees these alone: the rest may hold secrets. What it needs besides stands in its registration. */
const INHERITED = ['HOME', 'LANG', 'LC_ALL', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'TMPDIR', 'TZ', 'USER'];

/**
 * An MCP server as a child process that speaks over stdin and stdout. It leads a process group of its own, and at the end, its own or
 * ours, the whole group goes: a server started by `npx` or a shell is a grandchild.
 */
export async function createProcessTransport(
  config: McpServer & { readonly command: string },
  log: Logger,
  groups: ChildGroups,
): Promise<Transport> {
  const { deserializeMessage, serializeMessage } = await import('@modelcontextprotocol/sdk/shared/stdio.js');
  const linesOf = createLineReader(MESSAGE_BYTES_MAX);
  let child: ChildProcessWithoutNullStreams | undefined;
  let closing: Promise<void> | undefined;

  const read = (chunk: Buffer): void => {
    try {
      for (const line of linesOf(chunk)) deliver(line);
    } catch (error) {
      // Nothing it says after that has a meaning, and it is not to go on talking until it has ended.
      child?.stdout.destroy();
      transport.onerror?.(asError(error));
      void transport.close();
    }
  };
  const deliver = (line: string): void => {
    try {
      transport.onmessage?.(deserializeMessage(line));
    } catch (error) {
      // A line that is no message, such as a greeting, is skipped.
      transport.onerror?.(asError(error));
    }
  };

  const transport: Transport = {
    async start() {
      child = spawn(config.command, config.args ?? [], {
        env: environment(config, groups),
        stdio: 'pipe',
        detached: true,
        windowsHide: true,
      });
      const started = child;
      // At once: a daemon that is killed now leaves it behind.
      if (started.pid !== undefined) groups.add(started.pid, `MCP server ${config.mcpServer}`);
      started.stdout.on('data', read);
      started.stdout.on('error', (error) => transport.onerror?.(error));
      started.stdin.on('error', (error) => transport.onerror?.(error));
      logStderr(started, config.mcpServer, log);
      whenGone(started, groups, () => transport.onclose?.());
      await once(started, 'spawn'); // Rejects with the `error` of a command that cannot be started.
      started.on('error', (error) => transport.onerror?.(error));
    },
    send(message) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      if (!child || hasEnded(child)) reject(new Error('the process has ended'));
      else child.stdin.write(serializeMessage(message), (error) => (error ? reject(error) : resolve()));
      return promise;
    },
    close() {
      closing ??= child?.pid === undefined ? Promise.resolve() : endProcess(child);
      return closing;
    },
  };
  return transport;
}

function environment({ env }: McpServer, groups: ChildGroups): NodeJS.ProcessEnv {
  const inherited = INHERITED.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]] as const]));
  return { ...Object.fromEntries(inherited), ...env, ...groups.environment };
}

/** Once: when the process has ended and what it wrote is read. */
function whenGone(child: ChildProcessWithoutNullStreams, groups: ChildGroups, gone: () => void): void {
  let timer: NodeJS.Timeout | undefined;
  let isTold = false;
  const tell = (): void => {
    clearTimeout(timer);
    if (!isTold) gone();
    isTold = true;
  };
  child.once('exit', () => {
    killGroup(child, 'SIGKILL'); // What it started and left behind.
    if (child.pid !== undefined) groups.remove(child.pid);
    timer = setTimeout(tell, DRAIN_MS);
  });
  child.once('close', tell);
}

async function endProcess(child: ChildProcessWithoutNullStreams): Promise<void> {
  child.stdin.end();
  if (await endsWithin(child, END_GRACE_MS)) return;
  killGroup(child, 'SIGTERM');
  if (await endsWithin(child, END_GRACE_MS)) return;
  killGroup(child, 'SIGKILL');
  await endsWithin(child, END_GRACE_MS);
}

async function endsWithin(child: ChildProcessWithoutNullStreams, ms: number): Promise<boolean> {
  if (hasEnded(child)) return true;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(resolve, ms, false);
  const onExit = (): void => resolve(true);
  child.once('exit', onExit);
  const hasExited = await promise;
  clearTimeout(timer);
  child.off('exit', onExit);
  return hasExited;
}

function hasEnded(child: ChildProcessWithoutNullStreams): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function killGroup(child: ChildProcessWithoutNullStreams, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // Nobody is left in the group.
  }
}

function logStderr(child: ChildProcessWithoutNullStreams, mcpServer: string, log: Logger): void {
  let pieces = 0;
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    pieces += 1;
    if (pieces < STDERR_PIECES_MAX) log.debug({ mcpServer, stderr: text.slice(0, STDERR_PIECE_CHARS_MAX) }, 'MCP server wrote to stderr');
    if (pieces === STDERR_PIECES_MAX) log.debug({ mcpServer }, 'MCP server writes much to stderr; the rest is dropped');
  });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
