import { z } from 'zod';
import { Timestamp } from './ids.ts';
import { clampedLimit } from './memory.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { WHOLE_WORKSPACE } from './scope.ts';

export const LogLevel = z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal']);
export type LogLevel = z.output<typeof LogLevel>;

/** Entries the daemon keeps in memory, and so the most one answer holds; older ones are in the files its output goes to. */
export const LOG_ENTRIES_MAX = 2_000;
const LOG_LIMIT = 100;

export const LogEntry = z.object({
  /** Rises from entry to entry, also over restarts; the id of the stream. */
  id: z.int(),
  timestamp: z.string(),
  level: LogLevel,
  /** Part of the program: http, hooks, session, memory, config, daemon, ... */
  category: z.string(),
  message: z.string(),
  /** Secrets are taken out, long texts cut. */
  data: z.record(z.string(), z.unknown()).optional(),
  /** `stack` for the role admin alone, and where no token is asked for. */
  error: z.object({ name: z.string(), message: z.string(), stack: z.string().optional() }).optional(),
});
export type LogEntry = z.output<typeof LogEntry>;

const logs = { method: 'GET', tag: 'logs', role: 'operator', unknownFields: 'ignore', source: 'spec/hooks' } as const;
const Filters = { level: LogLevel.optional(), category: z.string().max(64).optional() };

export const daemonLogOperations = {
  listLogs: defineOperation({
    ...logs,
    id: 'listLogs',
    path: '/api/logs',
    scope: WHOLE_WORKSPACE,
    summary: 'Recent entries of the log of this process, oldest first: the last `limit` that are of `level` or above.',
    input: z.object({ ...Filters, limit: clampedLimit(LOG_LIMIT, LOG_ENTRIES_MAX), since: Timestamp.optional() }),
    output: z.object({ logs: z.array(LogEntry), count: z.int() }),
    errors: [],
  }),
  streamLogs: defineOperation({
    ...logs,
    id: 'streamLogs',
    path: '/api/logs/stream',
    scope: WHOLE_WORKSPACE,
    summary: 'New entries as server-sent events named `message`, with their id; `Last-Event-ID` or `after` goes on behind one.',
    input: z.object({ ...Filters, after: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(), token: z.string().optional() }),
    output: z.string(),
    errors: [],
    stream: 'sse',
  }),
};
