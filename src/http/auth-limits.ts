import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Caller } from '../core/caller.ts';
import { AppError, isAppError } from '../core/errors.ts';

const WINDOW_MS = 60_000;
/** Tokens and addresses whose requests are counted at once; the oldest are forgotten first. */
const COUNTED_MAX = 10_000;

export interface LimitOptions {
  readonly requestsPerMinute: number;
  readonly failuresPerMinute: number;
}

export interface AuthLimits {
  /** @throws AppError `rate_limited` when a token has made as many requests as it may */
  count(request: FastifyRequest, caller: Caller): Promise<void>;
  /** What to answer instead of a refusal: the same error, or `rate_limited` when this address was refused too often. */
  countRefusal(request: FastifyRequest, error: unknown): Promise<unknown>;
}

interface Taken {
  readonly isAllowed: boolean;
  readonly isExceeded?: boolean;
  readonly ttl?: number;
}
type Limiter = (request: FastifyRequest) => Promise<Taken>;

/** Loads the plugin: only servers that ask for tokens need it. */
export async function createAuthLimits(
  app: FastifyInstance,
  options: LimitOptions,
  callerOf: (request: FastifyRequest) => Caller | undefined,
): Promise<AuthLimits> {
  const { default: rateLimit } = await import('@fastify/rate-limit');
  await app.register(rateLimit, { global: false, cache: COUNTED_MAX });
  const limiter = (max: number, keyGenerator: (request: FastifyRequest) => string): Limiter =>
    app.createRateLimit({ max, timeWindow: WINDOW_MS, keyGenerator }) as Limiter;
  const byToken = limiter(options.requestsPerMinute, (request) => callerOf(request)?.id ?? '');
  const byAddress = limiter(options.failuresPerMinute, (request) => networkOf(request.raw.socket.remoteAddress ?? ''));
  return {
    async count(request) {
      const taken = await byToken(request);
      if (taken.isExceeded) throw limited(`a token may make ${options.requestsPerMinute} requests a minute`, taken);
    },
    async countRefusal(request, error) {
      if (!isAppError(error, 'unauthorized')) return error;
      const taken = await byAddress(request);
      return taken.isExceeded ? limited(`${options.failuresPerMinute} tokens of this address were refused within a minute`, taken) : error;
    },
  };
}

function limited(what: string, { ttl = WINDOW_MS }: Taken): AppError {
  return new AppError('rate_limited', { detail: `${what}; wait as long as Retry-After says`, retryAfterMs: Math.max(1, Math.ceil(ttl)) });
}

/** An address as limits count it: a holder of one IPv6 address has as many as its network of 64 bits. */
export function networkOf(address: string): string {
  if (address.startsWith('::ffff:') || !address.includes(':') || address === '::1') return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  return [...groups, ...Array.from({ length: missing }, () => '0')].slice(0, 4).join(':');
}
