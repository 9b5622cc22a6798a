import { checkInput } from '../contract/input-check.ts';
import type { InputOf, Operation, OutputOf } from '../contract/operation.ts';
import type { Caller } from '../core/caller.ts';
import { isScoped, limitOf, narrowInput, type OwnersOf, requireOwner } from '../core/caller-scope.ts';
import { createDeadline } from '../core/deadline.ts';
import { AppError, isAppError, toProblem } from '../core/errors.ts';
import { type Logger, silentLogger } from '../core/logger.ts';
import type { Call, CallOptions, Handlers, Operations, RequestContext } from '../core/operation-call.ts';
import { CALL_TIMEOUT_MS } from './http-transport.ts';

type LooseHandler = (input: unknown, context: RequestContext) => unknown;

export interface InProcessOptions {
  /** Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** Where the cause of an `internal` answer goes. */
  readonly log?: Logger;
  /** For calls with a limit: who owns the sessions an input names. Left out where its callers have looked already. */
  readonly ownersOf?: OwnersOf;
}

/**
 * Calls of operations within the process: the same validation, answers and errors as over HTTP, without its cost.
 * The answer is the handler's own object: read it, do not change it. A handler that outlives its deadline runs on, its signal aborted.
 */
export function createInProcessTransport<T extends Operations>(
  operations: T,
  handlers: Partial<Handlers<T>>,
  options: InProcessOptions = {},
): Call {
  const byOperation = new Map<string, LooseHandler>();
  for (const [key, operation] of Object.entries(operations)) {
    const handler = handlers[key];
    if (handler) byOperation.set(operation.id, handler as LooseHandler);
  }
  return async <Op extends Operation>(operation: Op, input: InputOf<Op>, call: CallOptions = {}) => {
    const handler = byOperation.get(operation.id);
    if (!handler) throw new AppError('not_found', { detail: `${operation.id} is not answered in this process` });
    const given = withoutUndefined(input);
    const limit = limitOf(call.limit);
    if (limit && isRecord(given)) narrowInput(operation, limit, given);
    const checked = checkInput(operation, given);
    if (!checked.ok) throw new AppError('invalid_request', { detail: checked.detail, errors: checked.errors });
    const deadline = createDeadline(operation.id, call.timeoutMs ?? options.timeoutMs ?? CALL_TIMEOUT_MS, call.signal);
    const context = createContext(call, deadline.signal);
    try {
      deadline.signal.throwIfAborted();
      if (limit && options.ownersOf) await requireOwner(operation, limit, checked.value as Record<string, unknown>, options.ownersOf);
      return (await untilAborted(handler(checked.value, context), deadline.signal)) as OutputOf<Op>;
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      throw isAppError(error) ? error : bug(error, operation, { log: options.log ?? silentLogger, requestId: context.requestId });
    } finally {
      deadline.clear();
    }
  };
}

/** On the wire a field that is undefined does not exist. */
function withoutUndefined(input: unknown): unknown {
  if (input === undefined) return {};
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== undefined));
}

/** Told to the caller in the same words as over HTTP. */
function bug(cause: unknown, operation: Operation, { log, requestId }: { log: Logger; requestId: string }): AppError {
  log.error({ requestId, operation: operation.id, err: cause }, 'a call failed by a fault of this server');
  return new AppError('internal', { detail: toProblem(cause).detail, cause });
}

function untilAborted(answer: unknown, signal: AbortSignal): Promise<unknown> {
  if (!(answer instanceof Promise)) return Promise.resolve(answer);
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  return promise;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A call of our own: its limit is all there is of whoever caused it. */
function callerWith({ limit }: CallOptions): Pick<RequestContext, 'caller'> {
  if (!isScoped(limit)) return {};
  return { caller: { id: 'within', role: 'admin', ...limitOf(limit) } satisfies Caller };
}

let callCounter = 0;

function createContext(call: CallOptions, signal: AbortSignal): RequestContext {
  callCounter += 1;
  const headers = new Map(Object.entries(call.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]));
  return {
    requestId: headers.get('x-request-id') ?? `call_${callCounter.toString(36)}`,
    client: headers.get('x-signet-actor') ?? 'in-process',
    signal,
    header: (name) => headers.get(name.toLowerCase()),
    ...callerWith(call),
    // Status and headers are HTTP's; within the process the answer itself says everything.
    reply: { status: () => {}, header: () => {} },
  };
}
