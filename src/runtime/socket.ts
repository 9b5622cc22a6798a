import { daemonOperations } from '../contract/daemon.ts';
import { faultsOf, refusal } from '../contract/input-check.ts';
import { runtimeOperations } from '../contract/runtime.ts';
import { SocketCommand } from '../contract/socket.ts';
import { AppError, toProblem } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { CLOSE_CODE, type SocketWriter } from '../http/websocket.ts';
import type { StreamFrame, StreamSink } from './live/frame.ts';
import { readSession } from './live/session-reader.ts';
import type { RuntimeHandlers } from './routes.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { parseCursor, sessionReaderOptions } from './streams.ts';

/** Sessions one socket may follow. */
export const SUBSCRIPTIONS_MAX = 256;
const PROTOCOL = 1;

/** GET /ws: one socket, many sessions. Each answer carries `re`, the id of its command; frames of a session carry `session`. */
export function serveSocket(deps: RuntimeDeps, handlers: RuntimeHandlers, context: RequestContext, socket: SocketWriter): void {
  const subscriptions = new Map<string, AbortController>();
  const connection = { deps, handlers, context, socket, subscriptions };
  socket.closed.addEventListener('abort', () => {
    for (const subscription of subscriptions.values()) subscription.abort();
  });
  send(socket, { event: 'hello', protocol: PROTOCOL, limits: { subscriptions: SUBSCRIPTIONS_MAX } });
  socket.onMessage((text) => receive(connection, text));
}

interface Connection {
  readonly deps: RuntimeDeps;
  readonly handlers: RuntimeHandlers;
  readonly context: RequestContext;
  readonly socket: SocketWriter;
  readonly subscriptions: Map<string, AbortController>;
}

async function receive(connection: Connection, text: string): Promise<void> {
  const { context, socket } = connection;
  const parsed = SocketCommand.safeParse(parseJson(text));
  if (!parsed.success) {
    // Without an id nobody could be told what was wrong; that is a client that does not speak the protocol.
    const id = idOf(text);
    if (id === undefined) return socket.close(CLOSE_CODE.badFrame, 'a frame is a JSON object with id and op');
    const { detail, errors } = refusal(faultsOf(parsed.error, SocketCommand));
    return void send(socket, { re: id, ok: false, error: toProblem(new AppError('invalid_request', { detail, errors })) });
  }
  const command = parsed.data;
  const { requestId } = connection.context;
  try {
    context.charge?.(1);
    send(socket, { re: command.id, ok: true, ...(await answer(connection, command)) });
  } catch (error) {
    send(socket, { re: command.id, ok: false, error: toProblem(error, requestId) });
    if (isOurs(error)) connection.deps.logger.error({ err: error, requestId, op: command.op }, 'a socket command failed');
  }
}

/** A fault of this program, or an answer that is the consequence of one. */
function isOurs(error: unknown): boolean {
  return !(error instanceof AppError) || error.cause !== undefined;
}

async function answer(connection: Connection, command: SocketCommand): Promise<object> {
  const { deps, handlers, context } = connection;
  await admit(context, command);
  switch (command.op) {
    case 'ping':
      return { at: new Date(deps.clock.now()).toISOString() };
    case 'sub':
      return subscribe(connection, command);
    case 'unsub':
      connection.subscriptions.get(command.session)?.abort();
      return { unsubscribed: connection.subscriptions.delete(command.session) };
    case 'prompt': {
      const { id: _re, op: _op, session, ...prompt } = command;
      return { answer: await handlers.prompt({ ...prompt, id: session, async: true }, context) };
    }
    case 'abort':
      return handlers.abortTurn(
        { id: command.session, ...(command.clearQueue === undefined ? {} : { clearQueue: command.clearQueue }) },
        context,
      );
    case 'approve':
      return handlers.decideApproval(
        {
          id: command.session,
          approvalId: command.approvalId,
          decision: command.decision,
          ...(command.message ? { message: command.message } : {}),
        },
        context,
      );
    case 'bypass':
      return setBypass(deps, command.session, command.enabled, context.client);
  }
}

/** The socket may be opened by whoever may read; each command is checked as if it were the request it stands for. */
const OPERATIONS = {
  sub: runtimeOperations.streamSession,
  prompt: runtimeOperations.prompt,
  abort: runtimeOperations.abortTurn,
  approve: runtimeOperations.decideApproval,
  bypass: { ...runtimeOperations.updateSession, id: 'setBypass' },
} as const;

async function admit(context: RequestContext, command: SocketCommand): Promise<void> {
  if (command.op === 'ping' || command.op === 'unsub') return;
  await context.admit?.(OPERATIONS[command.op], { id: command.session });
}

async function subscribe(connection: Connection, command: Extract<SocketCommand, { op: 'sub' }>): Promise<object> {
  const { deps, socket, subscriptions } = connection;
  const { session, after, events, deltas } = command;
  if (subscriptions.size >= SUBSCRIPTIONS_MAX && !subscriptions.has(session)) {
    throw new AppError('overloaded', { detail: `one socket follows at most ${SUBSCRIPTIONS_MAX} sessions; open another` });
  }
  const options = await sessionReaderOptions(deps, session, {
    after: parseCursor(after),
    ...(events === undefined ? {} : { events }),
    deltas: deltas ?? true,
  });
  subscriptions.get(session)?.abort();
  const controller = new AbortController();
  subscriptions.set(session, controller);
  // The answer goes out before the first frame of the subscription.
  setImmediate(() => {
    void readSession(deps, socketSink(socket, session, controller.signal), options)
      .catch((error: unknown) => deps.logger.error({ err: error, session }, 'a subscription failed'))
      .finally(() => {
        if (subscriptions.get(session) !== controller) return;
        subscriptions.delete(session);
        send(socket, { session, event: 'end', reason: 'ended' });
      });
  });
  return { event: 'subscribed', session, head: options.head() };
}

/** The registry of the daemon decides; the session's log only tells. */
async function setBypass(deps: RuntimeDeps, session: string, enabled: boolean, by: string): Promise<object> {
  const host = await deps.supervisor.get(session);
  const { bypassed } = await deps.daemon.call(
    daemonOperations.setBypass,
    { key: host.view.session.sessionKey, enabled },
    { headers: { 'x-signet-actor': by } },
  );
  // A daemon in this process has told it by now.
  await host.handle(({ snapshot }) =>
    snapshot.context.bypassed === bypassed ? [] : [{ name: 'session:bypass:changed', payload: { bypassed, by }, client: by }],
  );
  return { session, bypassed };
}

function socketSink(socket: SocketWriter, session: string, unsubscribed: AbortSignal): StreamSink {
  return {
    closed: AbortSignal.any([socket.closed, unsubscribed]),
    drained: () => socket.drained(),
    write: (frame) => socket.send(JSON.stringify(socketFrame(session, frame))),
  };
}

/** `session` is the id in every frame; the snapshot's own `session`, an object, is called `snapshot` here. */
function socketFrame(session: string, frame: StreamFrame): object {
  const { session: snapshot, ...data } = frame.data;
  return {
    session,
    ...(frame.id === undefined ? {} : { cursor: frame.id }),
    event: frame.event,
    ...(snapshot === undefined ? {} : { snapshot }),
    ...data,
  };
}

function send(socket: SocketWriter, message: object): void {
  socket.send(JSON.stringify(message));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function idOf(text: string): string | number | undefined {
  const id = (parseJson(text) as { id?: unknown } | undefined | null)?.id;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}
