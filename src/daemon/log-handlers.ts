import type { daemonLogOperations, LogEntry } from '../contract/daemon-logs.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import { type Caller, mayUse } from '../core/caller.ts';
import type { LogBook } from '../core/log-book.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import { encodeFrame, type SseWriter } from '../http/sse.ts';
import { cursorOf, wokenWithin } from './stream-wait.ts';

/** A silent stream says at this rate that it is alive; unit: milliseconds. */
export const LOG_HEARTBEAT_MS = 10_000;
/** Entries sent between two looks at whether the reader keeps up. */
const PAGE_ENTRIES_MAX = 100;

export function createLogHandlers({ logs }: { readonly logs: LogBook }): Pick<Handlers<typeof daemonLogOperations>, 'listLogs'> {
  return {
    listLogs: ({ limit, level, category, since }, { caller }) => {
      const sinceMs = since === undefined ? undefined : Date.parse(since);
      const found = logs.read({ level, category, sinceMs }, limit);
      return { logs: found.map((entry) => shownTo(caller, entry)), count: found.length };
    },
  };
}

/** Where in the program something failed is for those who run it. */
function shownTo(caller: Caller | undefined, { error, ...entry }: LogEntry): LogEntry {
  if (error === undefined) return entry;
  const { stack, ...said } = error;
  const isShown = stack !== undefined && (caller === undefined || mayUse(caller.role, 'admin'));
  return { ...entry, error: isShown ? { ...said, stack } : said };
}

/**
 * GET /api/logs/stream. Entries are events without a name of their own, which is what `onmessage` of a browser hears. Ends with its reader.
 *
 * A reader that is slow is a cursor: it is sent what is still kept when it has taken the rest.
 */
export async function streamLogs(
  { logs, heartbeatMs = LOG_HEARTBEAT_MS }: { readonly logs: LogBook; readonly heartbeatMs?: number },
  input: ParsedInputOf<(typeof daemonLogOperations)['streamLogs']>,
  context: RequestContext,
  sse: SseWriter,
): Promise<void> {
  const { level, category } = input;
  let after = cursorOf(context.header('last-event-id')) ?? input.after ?? logs.head;
  let wake = Promise.withResolvers<void>();
  const unsubscribe = logs.subscribe(() => wake.resolve());
  try {
    sse.open();
    sse.frame(encodeFrame({ event: 'connected', data: { type: 'connected', head: logs.head } }));
    while (!sse.closed.aborted) {
      wake = Promise.withResolvers<void>();
      // All that is kept, not a page: reading takes the newest first.
      for (const entry of logs.read({ level, category, after }, Number.MAX_SAFE_INTEGER).slice(0, PAGE_ENTRIES_MAX)) {
        after = entry.id;
        if (!sse.frame(encodeFrame({ id: entry.id, event: 'message', data: shownTo(context.caller, entry) }))) await sse.drained();
        if (sse.closed.aborted) return;
      }
      if (logs.read({ level, category, after }, 1).length > 0) continue;
      if (!(await wokenWithin(wake.promise, heartbeatMs, sse.closed)) && !sse.closed.aborted)
        sse.frame(encodeFrame({ event: 'heartbeat', data: { head: logs.head } }));
    }
  } finally {
    unsubscribe();
  }
}
