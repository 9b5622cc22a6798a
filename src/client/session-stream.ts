import type { PayloadOf, SignalName } from '../contract/catalog.ts';
import { sessionOperations } from '../contract/session-operations.ts';
import type { SignalSource } from '../contract/signal.ts';
import { workflowOperations } from '../contract/workflow-operations.ts';
import { AppError } from '../core/errors.ts';
import { requireSafeToken } from './clear-token.ts';
import { readSse } from './sse-reader.ts';

/** The only event whose text is lifted to the top: printing `content` of every event prints each answer once. */
const TEXT_EVENT = 'text:delta';
/** The reason of an `end` frame after which nothing comes any more. After any other (a restart, a slow reader) another try tells. */
const LAST_END = 'ended';

/** A signal of the session, a delta, or a control frame of the stream (`session:snapshot`, `heartbeat`, `lagged`, `gap`, `caught_up`, `end`). */
export interface SessionEvent {
  /** Resumes after this event: give it as `after`. Absent before the first signal. */
  readonly cursor?: string;
  /** `text:delta`, `tool:call`, ...; `event` is the same word. */
  readonly name: string;
  readonly event: string;
  /** What the signal carries; of a control frame all it says. */
  readonly payload: Readonly<Record<string, unknown>>;
  /** Text to print, of `text:delta` alone. */
  readonly content?: string;
  /** Of stored signals. */
  readonly id?: string;
  readonly seq?: number;
  readonly gseq?: number;
  readonly timestamp?: string;
  readonly source?: SignalSource;
}

export interface StreamOptions {
  /** Cursor of an earlier event, or a seq: what came after it is sent first. */
  readonly after?: string | number;
  /** Name patterns, separated by commas: `text:*,tool:**,!tool:progress`. */
  readonly events?: string;
  /** False leaves out what is not stored (text as it comes). */
  readonly deltas?: boolean;
  /** Ends the stream, without an error. */
  readonly signal?: AbortSignal;
}

export interface StreamConnection {
  readonly baseUrl: string;
  readonly token?: string;
  readonly allowInsecure?: boolean;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch?: typeof fetch;
}

/**
 * Events of one session, in order, each once, also over lost connections and a restarted server. Ends on `signal` and with the session.
 * Leaving the loop closes the connection.
 *
 * @throws AppError `session_not_found`, `invalid_pattern`, `unauthorized`: what another try would not change
 */
export function streamSession(connection: StreamConnection, id: string, options: StreamOptions): AsyncGenerator<SessionEvent, void> {
  return streamEvents(connection, sessionOperations.streamSession.path, id, options);
}

/** The same of a workflow's own stream, until workflow:end. @throws AppError `workflow_not_found`, `invalid_pattern`, `unauthorized` */
export function streamWorkflow(connection: StreamConnection, id: string, options: StreamOptions): AsyncGenerator<SessionEvent, void> {
  return streamEvents(connection, workflowOperations.streamWorkflow.path, id, options);
}

async function* streamEvents(
  connection: StreamConnection,
  path: string,
  id: string,
  options: StreamOptions,
): AsyncGenerator<SessionEvent, void> {
  const url = new URL(connection.baseUrl + path.replace(':id', encodeURIComponent(id)));
  if (options.events !== undefined) url.searchParams.set('events', options.events);
  if (options.deltas !== undefined) url.searchParams.set('deltas', options.deltas ? '1' : '0');
  requireSafeToken(connection);
  const headers: Record<string, string> = { ...connection.headers };
  if (connection.token !== undefined) headers.authorization ??= `Bearer ${connection.token}`;
  const frames = readSse(url, {
    headers,
    lastEventId: options.after === undefined ? undefined : String(options.after),
    signal: options.signal,
    fetch: connection.fetch,
  });
  for await (const frame of frames) {
    const event = toSessionEvent(frame);
    yield event;
    if (event.name === 'end' && event.payload.reason === LAST_END) return;
  }
}

/** Is it this signal? Then its payload has the shape of the catalogue. */
export function isSignal<N extends SignalName>(event: SessionEvent, name: N): event is SessionEvent & { readonly payload: PayloadOf<N> } {
  return event.name === name;
}

/** @param frame  `id` is the last id seen, '' before the first; `data` the JSON of a signal, a delta or a control frame */
export function toSessionEvent(frame: { readonly id: string; readonly event: string; readonly data: string }): SessionEvent {
  const data = parse(frame);
  const names = { ...(frame.id === '' ? {} : { cursor: frame.id }), name: frame.event, event: frame.event };
  // A control frame may well have fields named id and seq (the snapshot has): they are not those of a signal.
  if (typeof data.payload !== 'object' || data.payload === null) return { ...names, payload: data };
  const { content, ...signal } = data;
  const payload = data.payload as Record<string, unknown>;
  const text = frame.event === TEXT_EVENT ? (content ?? payload.content) : undefined;
  return { ...signal, ...names, payload, ...(typeof text === 'string' ? { content: text } : {}) };
}

function parse(frame: { readonly event: string; readonly data: string }): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(frame.data);
    if (typeof data === 'object' && data !== null) return data as Record<string, unknown>;
  } catch (cause) {
    throw new AppError('internal', { detail: `the stream sent a ${frame.event} that is not JSON`, cause });
  }
  return {};
}
