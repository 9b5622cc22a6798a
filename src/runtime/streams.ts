import type { ParsedInputOf } from '../contract/operation.ts';
import type { RuntimeOperations } from '../contract/runtime.ts';
import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { compilePatterns, type NameMatcher, parsePatternList } from '../core/signal-pattern.ts';
import { encodeFrame, type SseWriter } from '../http/sse.ts';
import type { StreamFrame, StreamSink } from './live/frame.ts';
import { readLog } from './live/log-reader.ts';
import { readSession, type SessionCursor, type SessionReaderOptions } from './live/session-reader.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

const EVERYTHING: NameMatcher = () => true;

/** GET /session/:id/stream */
export async function streamSession(
  deps: RuntimeDeps,
  input: ParsedInputOf<RuntimeOperations['streamSession']>,
  context: RequestContext,
  sse: SseWriter,
): Promise<void> {
  const after = parseCursor(context.header('last-event-id') || input.after);
  const options = await sessionReaderOptions(deps, input.id, {
    after,
    ...(input.events === undefined ? {} : { events: input.events }),
    deltas: input.deltas ?? true,
  });
  sse.open();
  await readSession(deps, sseSink(sse), options);
}

/** GET /events */
export async function streamAll(
  deps: RuntimeDeps,
  input: ParsedInputOf<RuntimeOperations['streamAll']>,
  context: RequestContext,
  sse: SseWriter,
): Promise<void> {
  const cursor = context.header('last-event-id') || input.after;
  const wantsName = input.events === undefined ? EVERYTHING : compilePatterns(parsePatternList(input.events), '/events');
  const after = cursor === undefined ? null : parseCursor(cursor).seq;
  sse.open();
  await readLog(deps, sseSink(sse), {
    after,
    deltas: input.deltas ?? true,
    wants: ({ name, source }) =>
      wantsName(name) &&
      (input.session === undefined || source.session === input.session) &&
      (input.agent === undefined || source.agent === input.agent) &&
      (input.kind === undefined || source.kind === input.kind),
    agentOf: (session) => deps.supervisor.peek(session)?.view.session.agent ?? '',
  });
}

/** What a reader of one session needs, over SSE and WebSocket alike. @throws AppError `session_not_found`, `invalid_pattern` */
export async function sessionReaderOptions(
  deps: RuntimeDeps,
  id: string,
  { after, events, deltas }: { after: SessionCursor; events?: string; deltas: boolean },
): Promise<SessionReaderOptions> {
  const wants = events === undefined ? EVERYTHING : compilePatterns(parsePatternList(events), '/events');
  const first = await deps.supervisor.view(id);
  // The host may leave memory and come back while the reader stays; the view in memory is always the newest.
  const view = () => deps.supervisor.peek(id)?.view ?? first;
  return {
    session: id,
    agent: first.session.agent,
    after,
    wants,
    deltas,
    snapshot: () => ({ session: view().session, head: view().session.seq }),
    head: () => Math.max(view().session.seq, deps.hub.headOf(id)),
    ended: () => view().session.state === 'ended' || deps.hub.hasEnded(id),
  };
}

/** `seq` or `seq.offset`. @throws AppError `invalid_cursor` */
export function parseCursor(text: string | undefined): SessionCursor {
  if (text === undefined || text === '') return { seq: 0, offset: 0 };
  const match = /^(\d{1,15})(?:\.(\d{1,15}))?$/.exec(text);
  if (!match)
    throw new AppError('invalid_cursor', { detail: 'a cursor is a sequence number, or seq.offset, as it stands in the id of an event' });
  return { seq: Number(match[1]), offset: Number(match[2] ?? 0) };
}

const ENCODED = new WeakMap<Signal, Map<string, Buffer>>();

export function sseSink(sse: SseWriter): StreamSink {
  return { closed: sse.closed, drained: () => sse.drained(), write: (frame) => sse.frame(encodeShared(frame)) };
}

/** A stored signal is encoded once for all its readers. */
function encodeShared(frame: StreamFrame): Buffer {
  if (!frame.signal) return encodeFrame(frame);
  const id = frame.id ?? '';
  let byId = ENCODED.get(frame.signal);
  if (!byId) {
    byId = new Map();
    ENCODED.set(frame.signal, byId);
  }
  let encoded = byId.get(id);
  if (!encoded) {
    encoded = encodeFrame(frame);
    byId.set(id, encoded);
  }
  return encoded;
}
