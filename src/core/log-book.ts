import { LOG_ENTRIES_MAX, type LogEntry, LogLevel } from '../contract/daemon-logs.ts';
import { type Clock, isoTime } from './clock.ts';
import { redactText, redactValue } from './log-redaction.ts';
import type { LeveledLogger, LevelName, Logger } from './logger.ts';

const RANK = Object.fromEntries(LogLevel.options.map((level, rank) => [level, rank])) as Record<LogLevel, number>;

export interface LogFilter {
  /** This one and those above. */
  readonly level?: LogLevel;
  readonly category?: string;
  /** Entries behind this id. */
  readonly after?: number;
  readonly sinceMs?: number;
}

type StackOf = (error: Error) => string;

/** The last LOG_ENTRIES_MAX entries of this process's log, for those who look at it over HTTP. */
export interface LogBook {
  /** Entries below it are not kept; `silent` keeps none. */
  level: LevelName;
  write(level: LogLevel, fields: object, message: string): void;
  /** Oldest first; the last `limit` that fit. */
  read(filter: LogFilter, limit: number): LogEntry[];
  /** Id of the newest entry, 0 before the first. */
  readonly head: number;
  /** Called after each entry that was kept, until the returned function is called. It must not throw. */
  subscribe(listener: () => void): () => void;
}

/** @param stackOf  the stack as it is shown; the error's own when left out */
export function createLogBook(clock: Clock, level: LevelName, stackOf: StackOf = ({ stack = '' }) => stack): LogBook {
  /** A ring: the entry at `start` is the oldest once it is full. */
  const ring: LogEntry[] = [];
  const listeners = new Set<() => void>();
  let start = 0;
  let head = 0;
  const book: LogBook = {
    level,
    get head() {
      return head;
    },
    write(entryLevel, fields, message) {
      if (book.level === 'silent' || RANK[entryLevel] < RANK[book.level]) return;
      // From the clock, so that ids go on rising after a restart.
      head = Math.max(head + 1, clock.now());
      const entry = toEntry(
        { id: head, timestamp: isoTime(clock.now()), level: entryLevel, message: redactText(message) },
        fields,
        stackOf,
      );
      if (ring.length < LOG_ENTRIES_MAX) ring.push(entry);
      else {
        ring[start] = entry;
        start = (start + 1) % LOG_ENTRIES_MAX;
      }
      for (const listener of listeners) listener();
    },
    read(filter, limit) {
      const found: LogEntry[] = [];
      for (let back = ring.length - 1; back >= 0 && found.length < limit; back -= 1) {
        const entry = ring[(start + back) % ring.length]!;
        if (entry.id <= (filter.after ?? 0)) break;
        if (fits(entry, filter)) found.push(entry);
      }
      return found.reverse();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  return book;
}

/** Its level is that of the book and, where it has one, of the logger beneath. */
export interface RecordingLogger extends LeveledLogger {
  readonly book: LogBook;
}

/** The same logger, with everything it is told kept in the book as well. */
export function recordingLogger(logger: Logger | LeveledLogger, book: LogBook): RecordingLogger {
  const both = (level: 'debug' | 'info' | 'warn' | 'error') => (fields: object, message: string) => {
    logger[level](fields, message);
    book.write(level, fields, message);
  };
  return {
    debug: both('debug'),
    info: both('info'),
    warn: both('warn'),
    error: both('error'),
    book,
    get level() {
      return book.level;
    },
    set level(level) {
      book.level = level;
      if ('level' in logger) logger.level = level;
    },
  };
}

function fits(entry: LogEntry, { level, category, sinceMs }: LogFilter): boolean {
  if (level !== undefined && RANK[entry.level] < RANK[level]) return false;
  if (category !== undefined && entry.category !== category) return false;
  return sinceMs === undefined || Date.parse(entry.timestamp) >= sinceMs;
}

function toEntry(head: Pick<LogEntry, 'id' | 'timestamp' | 'level' | 'message'>, fields: object, stackOf: StackOf): LogEntry {
  const { err, category, ...rest } = fields as { err?: unknown; category?: unknown } & Record<string, unknown>;
  const data = redactValue(rest) as Record<string, unknown>;
  const error = err instanceof Error ? { name: err.name, message: redactText(err.message), stack: redactText(stackOf(err)) } : undefined;
  return {
    ...head,
    category: typeof category === 'string' ? category : categoryOf(rest),
    ...(Object.keys(data).length === 0 ? {} : { data }),
    ...(error === undefined ? {} : { error }),
  };
}

/** By what an entry speaks of. */
function categoryOf(fields: Record<string, unknown>): string {
  if ('hook' in fields) return 'hooks';
  if ('operation' in fields || 'route' in fields) return 'http';
  if ('session' in fields) return 'session';
  if ('job' in fields) return 'jobs';
  if ('tool' in fields) return 'tools';
  if ('memories' in fields) return 'memory';
  return 'daemon';
}
