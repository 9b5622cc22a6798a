import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { plainText } from './terminal-text.ts';
import { outputFile, workspaceFolder } from './workspace.ts';

/** Part of a file that is looked at for its last lines, in bytes; also the most that one look of `--follow` takes. */
const TAIL_BYTES_MAX = 4 * 1_048_576;
/** Between two looks of `--follow`, in ms. */
const FOLLOW_POLL_MS = 200;

/** pino's numbers. */
export const LOG_LEVELS = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 } as const;
export type LogLevel = keyof typeof LOG_LEVELS;

export interface LogFlags {
  readonly path?: string;
  readonly follow?: boolean;
  readonly lines: number;
  readonly level?: LogLevel;
  readonly json?: boolean;
}

/** Print the end of the daemon's output, and with `follow` what comes, until Ctrl-C. */
export async function showLogs(context: CliContext, flags: LogFlags): Promise<void> {
  const file = outputFile(workspaceFolder(context, flags.path));
  const show = (line: string) => {
    if (!isAtLeast(line, flags.level)) return;
    context.stdout.write(`${flags.json ? plainText(line) : formatLogLine(line)}\n`);
  };
  const end = sizeOf(file);
  if (end === undefined && !flags.follow) {
    throw new CliExit(
      EXIT.failure,
      `no output at ${file}: no daemon was started there with signet start (one in the foreground writes to its terminal)`,
    );
  }
  const fitting = readTail(file, Number.MAX_SAFE_INTEGER).filter((line) => isAtLeast(line, flags.level));
  if (flags.lines > 0) fitting.slice(-flags.lines).forEach(show);
  if (flags.follow) await follow(context, file, end ?? 0, show);
}

/** Last lines of a file from the byte `from` on; empty when it is absent. */
export function readTail(file: string, lines: number, from = 0): string[] {
  const size = sizeOf(file) ?? 0;
  const start = Math.min(size, Math.max(from, size - TAIL_BYTES_MAX));
  const text = readFrom(file, start, size).toString();
  const all = text.split('\n').filter((line) => line !== '');
  if (start > from) all.shift(); // Cut in the middle.
  return all.slice(-lines);
}

/** A line of JSON as a person reads it; any other line as it is. Always one line without control characters. */
export function formatLogLine(line: string): string {
  const entry = parse(line);
  if (!entry) return plainText(line);
  const { level, time, msg, pid: _pid, hostname: _hostname, name: _name, v: _v, ...fields } = entry;
  const at = time === undefined ? '' : new Date(time as string | number);
  const clock = at && !Number.isNaN(at.getTime()) ? `${at.toISOString().replace('T', ' ').replace('Z', '')} ` : '';
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return plainText(`${clock}${levelName(level).toUpperCase().padEnd(5)} ${msg ?? ''}${rest.join('')}`).replace(/\n/g, '\\n');
}

async function follow(context: CliContext, file: string, from: number, show: (line: string) => void): Promise<void> {
  const stop = new AbortController();
  const unlisten = context.onInterrupt(() => stop.abort());
  let position = from;
  let rest = Buffer.alloc(0);
  try {
    while (!stop.signal.aborted) {
      const size = sizeOf(file) ?? 0;
      if (size < position) position = 0; // A new file was begun.
      if (size > position) {
        const chunk = readFrom(file, position, Math.min(size, position + TAIL_BYTES_MAX));
        position += chunk.length;
        const text = Buffer.concat([rest, chunk]);
        const lineEnd = text.lastIndexOf('\n') + 1;
        rest = text.subarray(lineEnd);
        text.subarray(0, lineEnd).toString().split('\n').slice(0, -1).forEach(show);
      } else await delay(FOLLOW_POLL_MS, undefined, { signal: stop.signal }).catch(() => {}); // Rejects only when we stop.
    }
  } finally {
    unlisten();
  }
}

function isAtLeast(line: string, level: LogLevel | undefined): boolean {
  if (!level) return true;
  const entry = parse(line);
  // What is not a log entry (a crash of Node itself) is shown at every level.
  return !entry || LOG_LEVELS[levelName(entry.level)] >= LOG_LEVELS[level];
}

function levelName(level: unknown): LogLevel {
  const found = Object.entries(LOG_LEVELS).find(([name, number]) => level === name || level === number);
  return (found?.[0] as LogLevel | undefined) ?? 'info';
}

function parse(line: string): Record<string, unknown> | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // Not JSON: shown as it is.
  }
}

function sizeOf(file: string): number | undefined {
  return withFile(file, (handle) => fstatSync(handle).size);
}

function readFrom(file: string, start: number, end: number): Buffer {
  return (
    withFile(file, (handle) => {
      const buffer = Buffer.alloc(end - start);
      return buffer.subarray(0, readSync(handle, buffer, 0, buffer.length, start));
    }) ?? Buffer.alloc(0)
  );
}

function withFile<T>(file: string, use: (handle: number) => T): T | undefined {
  let handle: number;
  try {
    handle = openSync(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new CliExit(EXIT.failure, `cannot read ${file}: ${(error as Error).message}`);
  }
  try {
    return use(handle);
  } finally {
    closeSync(handle);
  }
}
