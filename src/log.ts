import { writeSync } from 'node:fs';
import { pino } from 'pino';
import { REDACTED, redactKeys, SECRET_FIELDS } from './core/log-redaction.ts';
import type { LeveledLogger } from './core/logger.ts';
import { readableStack } from './core/readable-stack.ts';

const STDOUT = 1;

/** A line that cannot be written (disk full, reader gone) is dropped: a log must never stop or end the daemon it tells of. */
const stdout = {
  write(line: string): void {
    try {
      writeSync(STDOUT, redactKeys(line));
    } catch {
      // Nobody can be told: the place to tell it is the one that failed.
    }
  },
};

/** As pino writes errors, with the stack in files and lines of the source. */
function withReadableStack(error: Error): object {
  return { ...pino.stdSerializers.err(error), stack: readableStack(error) };
}

/** JSON lines on stdout. Errors carry their cause; fields that hold secrets are taken out, one level down as well, and keys in any text. */
export function createLogger(level: string): LeveledLogger {
  // Its level is a string to pino; only names of ours reach it.
  return pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      serializers: { err: (error: unknown) => (error instanceof Error ? withReadableStack(error) : error) },
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: REDACTED },
    },
    stdout,
  ) as LeveledLogger;
}
