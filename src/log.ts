import { pino } from 'pino';
import type { Logger } from './core/logger.ts';

/** Fields that hold secrets wherever they turn up, one level down as well. */
const SECRET_FIELDS = ['apiKey', 'token', 'authorization', 'value', 'secret', 'password', 'headers', 'env'];

/** JSON lines on stdout. Errors carry their cause; fields that hold secrets are taken out. */
export function createLogger(level: string): Logger {
  return pino({
    level,
    base: { pid: process.pid },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: '[redacted]' },
  });
}
