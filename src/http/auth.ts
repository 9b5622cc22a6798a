import type { Socket } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { fieldsOf } from '../contract/input-check.ts';
import type { Operation, Role } from '../contract/operation.ts';
import { type Caller, mayUse, requireRole } from '../core/caller.ts';
import { bothLimits, isScoped, narrowInput, type OwnersOf, requireOwner } from '../core/caller-scope.ts';
import { AppError } from '../core/errors.ts';
import { limitOfHeaders } from '../core/limit-headers.ts';
import { authLimitsOf, type LimitOptions } from './auth-limits.ts';
import { isMarkedOwn, type Peer } from './peer.ts';

/** How often open streams are looked over for tokens that have expired; unit: milliseconds. */
const STREAM_CHECK_INTERVAL_MS = 10_000;
/** Headers that proxies, tunnels and content networks add to what they forward for callers from elsewhere. */
const FORWARDED =
  /^(?:forwarded|via|x-forwarded(?:-.+)?|x-real-(?:ip|port|host|proto)|x-original-.+|x-client-ip|x-cluster-client-ip|client-ip|true-client-ip|x-envoy-.+|x-arr-.+|x-proxy.*|x-appengine-.+|cf-.+|cdn-loop|fastly-.+|fly-.+|akamai-.+|x-akamai-.+|x-amz-cf-.+|x-amzn-.+|x-azure-.+|x-vercel-.+|x-nf-.+|tailscale-.+|ngrok-.+|max-forwards|proxy-.+)$/;
/** Fields of an input that name a file of this machine. */
const FILE_FIELDS = ['transcriptPath'];
const LOOPBACK_ADDRESS = /^(?:::ffff:)?127\.|^::1$/;

export interface AuthOptions {
  /** How often a token may call, and an address may be refused; only where tokens are asked for. */
  readonly limits?: LimitOptions;
  /** Whose token this is, undefined when it is not known; a bare role stands for a token without limits. Without this function nobody needs one. */
  readonly authenticate?: (token: string) => Caller | Role | undefined;
  /** Where no tokens are asked for: is it the one of this process, for commands of its own user? They have a share of the connections. */
  readonly isLocalToken?: (token: string) => boolean;
  /** Calls over a loopback connection need no token. */
  readonly trustLoopback?: boolean;
  /** How a caller of this machine without a token shows that it is the daemon's own user. Asked only for what executes or decides. */
  readonly proof?: LocalProof;
  /** Who owns a session or a workflow run; for callers that are limited to an agent or a project. */
  readonly ownersOf?: OwnersOf;
  /** Is the token of this id still good? Asked while a stream is open. */
  readonly isValid?: (id: string) => boolean;
  /** Told when a token was revoked, until the returned function is called. */
  readonly onRevoked?: (listener: () => void) => () => void;
}

export interface LocalProof {
  readonly peerOf: (socket: Socket) => Promise<Peer>;
  /** In mode local, where tokens are looked at only when the user at the other end is another one, or not known. */
  readonly authenticate?: (token: string) => Promise<Caller | undefined>;
}

/** An operation, as far as it says whether its caller must be the daemon's user. */
export type Guarded = Pick<Operation, 'id' | 'role' | 'stream'> & { readonly input?: Operation['input'] | undefined };

/** Who calls, and what of it is theirs to do. */
export interface Authentication {
  /** @throws AppError `unauthorized`, `forbidden` */
  admitCaller(operation: Pick<Operation, 'id' | 'role' | 'stream'>, request: FastifyRequest): void;
  /**
   * The other end of a connection without a token must be the daemon's user, or show a token, for operations that execute or decide.
   *
   * @returns undefined when there is nothing to show; else rejects with AppError `unauthorized`, `forbidden`
   */
  prove(operation: Guarded, request: FastifyRequest): Promise<void> | undefined;
  /** Whether `admit` must be asked before another operation is run for this caller. */
  isLimited(request: FastifyRequest): boolean;
  /** Does it bring a token that is valid, where none is asked for the local one? Asked before the route is known. */
  holdsToken(request: FastifyRequest): boolean;
  /** Undefined for a call that needs no token: it may do everything. */
  callerOf(request: FastifyRequest): Caller | undefined;
  /** Fill agent and project of a limited token into an input that is not validated yet. @throws AppError `forbidden` */
  narrow(operation: Operation, request: FastifyRequest, input: Record<string, unknown>): void;
  /** Sessions the input names must be the caller's. Undefined when there is nothing to look up. @throws AppError `forbidden` */
  checkOwner(operation: Operation, request: FastifyRequest, input: unknown): Promise<void> | undefined;
  /** Another operation than the one that was called: role, agent, project. @returns the input, narrowed */
  admit(operation: Operation, request: FastifyRequest, input: Readonly<Record<string, unknown>>): Promise<Record<string, unknown>>;
  /** Counts requests of the token. @throws AppError `rate_limited` beyond what a token may make */
  charge(request: FastifyRequest, requests: number): void;
  /** Call `end` when the token behind a stream is no longer good. @returns what to call when the stream has ended by itself */
  watch(request: FastifyRequest, end: () => void): () => void;
}

export function createAuthentication(options: AuthOptions): Authentication {
  const callers = new WeakMap<FastifyRequest, Caller>();
  const watch = createStreamWatch(options);
  /** Streams of callers that have shown no token yet; a later command of a WebSocket may. */
  const unknown = new WeakMap<FastifyRequest, (caller: Caller) => void>();
  const callerOf = (request: FastifyRequest): Caller | undefined => withLimit(callers.get(request), request);
  const scopedCaller = (request: FastifyRequest): Caller | undefined => {
    const caller = callerOf(request);
    return isScoped(caller) ? caller : undefined;
  };
  const checkOwner = async (operation: Operation, caller: Caller, input: unknown): Promise<void> => {
    if (options.ownersOf) await requireOwner(operation, caller, input as Record<string, unknown>, options.ownersOf);
  };
  const { proof } = options;
  const prove: Authentication['prove'] = (operation, request) => {
    if (!proof || callers.has(request) || !executesOrDecides(operation)) return undefined;
    return requireProof(proof, operation, request).then((caller) => {
      if (!caller || callers.has(request)) return;
      callers.set(request, caller);
      unknown.get(request)?.(caller);
    });
  };
  return {
    prove,
    isLimited: (request) => proof !== undefined || callers.has(request),
    admitCaller(operation, request) {
      const caller = findCaller(options, operation, request);
      if (!caller) return;
      callers.set(request, caller);
      requireRole(caller, operation);
    },
    holdsToken(request) {
      const token = bearer(request) ?? queryToken(request);
      if (token === undefined) return false;
      return options.authenticate ? options.authenticate(token) !== undefined : (options.isLocalToken?.(token) ?? false);
    },
    callerOf,
    charge(request, requests) {
      const caller = callers.get(request);
      if (caller && options.authenticate && options.limits) authLimitsOf(options.limits).count(caller.id, requests);
    },
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
      await prove(operation, request);
      const caller = callerOf(request);
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
      if (caller) return watch(caller, end);
      let stop: (() => void) | undefined;
      unknown.set(request, (found) => {
        stop = watch(found, end);
      });
      return () => {
        unknown.delete(request);
        stop?.();
      };
    },
  };
}

const guarded = new WeakMap<object, boolean>();

/** Everything an operator or an admin may do, and what reads a file of the user by a path in its input. */
function executesOrDecides({ role, input }: Guarded): boolean {
  if (mayUse(role, 'operator')) return true;
  if (!input) return false;
  let reads = guarded.get(input);
  if (reads === undefined) {
    reads = FILE_FIELDS.some((name) => fieldsOf(input).names.has(name));
    guarded.set(input, reads);
  }
  return reads;
}

/** @returns whose token it was; undefined for the daemon's own user. @throws AppError `unauthorized`, `forbidden` */
async function requireProof(proof: LocalProof, operation: Guarded, request: FastifyRequest): Promise<Caller | undefined> {
  const peer = isForwarded(request) ? 'forwarded' : await proof.peerOf(request.raw.socket);
  if (peer === 'own') return undefined;
  // A command of a WebSocket comes with the request that opened it.
  const token = bearer(request) ?? (operation.stream || request.ws ? queryToken(request) : undefined);
  const caller = token === undefined ? undefined : await proof.authenticate?.(token);
  if (caller) {
    requireRole(caller, operation);
    return caller;
  }
  throw new AppError('unauthorized', { detail: `${operation.id} executes or decides something, and ${NOT_PROVEN[peer]}` });
}

const NOT_PROVEN = {
  other:
    "the caller is another user of this machine: send a token that the daemon's user has made (signet token create) by Authorization: Bearer",
  unknown:
    'this system does not tell which user the caller is: send the token of .daemon/local-token in the workspace by Authorization: Bearer',
  forwarded: 'a proxy has forwarded the request: send a token (signet token create) by Authorization: Bearer',
} as const;

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

/** A caller that works for a limited one says so, by headers that prove nothing and only take away. */
function withLimit(caller: Caller | undefined, request: FastifyRequest): Caller | undefined {
  const limit = limitOfHeaders(request.raw.headers);
  if (!limit) return caller;
  return { id: 'limited', role: 'admin', ...caller, ...bothLimits(caller, limit) };
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
  const { socket } = request.raw;
  return (isMarkedOwn(socket) || LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '')) && !isForwarded(request);
}

function isForwarded(request: FastifyRequest): boolean {
  for (const name in request.raw.headers) if (FORWARDED.test(name)) return true;
  return false;
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
