import type { FastifyRequest } from 'fastify';
import type { Operation, Role } from '../contract/operation.ts';
import { type Caller, requireRole } from '../core/caller.ts';
import { isScoped, narrowInput, type OwnerOf, requireOwner } from '../core/caller-scope.ts';
import { AppError } from '../core/errors.ts';

/** How often open streams are looked over for tokens that have expired; unit: milliseconds. */
const STREAM_CHECK_INTERVAL_MS = 10_000;
/** Set by whoever forwards a request for somebody else. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-real-ip'];
const LOOPBACK_ADDRESS = /^(?:::ffff:)?127\.|^::1$/;

export interface AuthOptions {
  /** Whose token this is, undefined when it is not known; a bare role stands for a token without limits. Without this function nobody needs one. */
  readonly authenticate?: (token: string) => Caller | Role | undefined;
  /** Calls over a loopback connection need no token. */
  readonly trustLoopback?: boolean;
  /** Whose session that is; for tokens that are limited to an agent or a project. */
  readonly ownerOf?: OwnerOf;
  /** Is the token of this id still good? Asked while a stream is open. */
  readonly isValid?: (id: string) => boolean;
  /** Told when a token was revoked, until the returned function is called. */
  readonly onRevoked?: (listener: () => void) => () => void;
}

/** Who calls, and what of it is theirs to do. */
export interface Authentication {
  /** @throws AppError `unauthorized`, `forbidden` */
  admitCaller(operation: Pick<Operation, 'id' | 'role' | 'stream'>, request: FastifyRequest): void;
  /** Undefined for a call that needs no token: it may do everything. */
  callerOf(request: FastifyRequest): Caller | undefined;
  /** Fill agent and project of a limited token into an input that is not validated yet. @throws AppError `forbidden` */
  narrow(operation: Operation, request: FastifyRequest, input: Record<string, unknown>): void;
  /** Sessions the input names must be the caller's. Undefined when there is nothing to look up. @throws AppError `forbidden` */
  checkOwner(operation: Operation, request: FastifyRequest, input: unknown): Promise<void> | undefined;
  /** Another operation than the one that was called: role, agent, project. @returns the input, narrowed */
  admit(operation: Operation, request: FastifyRequest, input: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>>;
  /** Call `end` when the token behind a stream is no longer good. @returns what to call when the stream has ended by itself */
  watch(request: FastifyRequest, end: () => void): () => void;
}

export function createAuthentication(options: AuthOptions): Authentication {
  const callers = new WeakMap<FastifyRequest, Caller>();
  const watch = createStreamWatch(options);
  const scopedCaller = (request: FastifyRequest): Caller | undefined => {
    const caller = callers.get(request);
    return isScoped(caller) ? caller : undefined;
  };
  const checkOwner = async (operation: Operation, caller: Caller, input: unknown): Promise<void> => {
    if (options.ownerOf) await requireOwner(operation, caller, input as Record<string, unknown>, options.ownerOf);
  };
  return {
    admitCaller(operation, request) {
      const caller = findCaller(options, operation, request);
      if (!caller) return;
      callers.set(request, caller);
      requireRole(caller, operation);
    },
    callerOf: (request) => callers.get(request),
    narrow(operation, request, input) {
      const caller = scopedCaller(request);
      if (!caller) return;
      narrowInput(operation, caller, input);
      refuseOtherAgent(request, caller);
    },
    checkOwner(operation, request, input) {
      const caller = scopedCaller(request);
      return caller && checkOwner(operation, caller, input);
    },
    async admit(operation, request, input) {
      const caller = callers.get(request);
      if (!caller) return { ...input };
      requireRole(caller, operation);
      const narrowed = { ...input };
      if (!isScoped(caller)) return narrowed;
      narrowInput(operation, caller, narrowed);
      await checkOwner(operation, caller, narrowed);
      return narrowed;
    },
    watch(request, end) {
      const caller = callers.get(request);
      return caller ? watch(caller, end) : () => undefined;
    },
  };
}

/** Undefined when none is needed. @throws AppError `unauthorized` */
function findCaller(options: AuthOptions, operation: Pick<Operation, 'stream'>, request: FastifyRequest): Caller | undefined {
  const { authenticate } = options;
  if (!authenticate) return undefined;
  const token = bearer(request) ?? (operation.stream ? queryToken(request) : undefined);
  if (token === undefined && request.raw.headers.authorization === undefined && options.trustLoopback && isOwnMachine(request))
    return undefined;
  const found = token === undefined ? undefined : authenticate(token);
  if (found !== undefined) return typeof found === 'string' ? { id: found, role: found } : found;
  const how = operation.stream ? ', or ?token= on a stream' : '';
  const why = token === undefined ? 'this server asks for a token' : 'the token is not known, was revoked, or has expired';
  throw new AppError('unauthorized', { detail: `${why}; send a valid token by Authorization: Bearer${how}` });
}

function bearer(request: FastifyRequest): string | undefined {
  return /^Bearer\s+(\S+)$/i.exec(request.raw.headers.authorization ?? '')?.[1];
}

/** Browsers cannot give headers to an EventSource or a WebSocket. */
function queryToken(request: FastifyRequest): string | undefined {
  const token = (request.query as Record<string, unknown>).token;
  return typeof token === 'string' ? token : undefined;
}

/**
 * By the address of the connection alone: what a header says, its sender has chosen. A header can only take trust away: a proxy on this
 * machine brings callers from elsewhere, and says so.
 */
function isOwnMachine(request: FastifyRequest): boolean {
  if (!LOOPBACK_ADDRESS.test(request.raw.socket.remoteAddress ?? '')) return false;
  return FORWARDED.every((name) => request.raw.headers[name] === undefined);
}

function refuseOtherAgent(request: FastifyRequest, { agent }: Caller): void {
  const named = request.raw.headers['x-signet-agent-id'];
  if (agent === undefined || named === undefined || named === '' || named === agent) return;
  throw new AppError('forbidden', { detail: `the token is for the agent ${agent}, and x-signet-agent-id names another` });
}

type Watch = (caller: Caller, end: () => void) => () => void;

/** Streams outlive the check at their beginning. Looks only while some are open. */
function createStreamWatch({ isValid, onRevoked }: AuthOptions): Watch {
  if (!isValid) return () => () => undefined;
  const open = new Map<() => void, string>();
  let stop: (() => void) | undefined;
  const look = () => {
    for (const [end, id] of open) if (!isValid(id)) end();
  };
  const begin = () => {
    const timer = setInterval(look, STREAM_CHECK_INTERVAL_MS);
    timer.unref();
    const forget = onRevoked?.(look);
    return () => {
      clearInterval(timer);
      forget?.();
    };
  };
  return ({ id }, end) => {
    open.set(end, id);
    stop ??= begin();
    return () => {
      open.delete(end);
      if (open.size > 0) return;
      stop?.();
      stop = undefined;
    };
  };
}
