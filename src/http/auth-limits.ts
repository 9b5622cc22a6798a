import type { FastifyRequest } from 'fastify';
import { AppError, isAppError } from '../core/errors.ts';

const WINDOW_MS = 60_000;
/** Tokens and addresses whose requests are counted at once; the oldest are forgotten first. */
const COUNTED_MAX = 10_000;

export interface LimitOptions {
  readonly requestsPerMinute: number;
  readonly failuresPerMinute: number;
}

export interface AuthLimits {
  /** @throws AppError `rate_limited` when a token has made as many requests as it may. Commands on a socket and messages of a batch are requests. */
  count(tokenId: string, requests: number): void;
  /** What to answer instead of a refusal: the same error, or `rate_limited` when this address was refused too often. */
  countRefusal(request: FastifyRequest, error: unknown): unknown;
}

/** Servers that are given the same options count together: a token has one budget for all of them. */
const counting = new WeakMap<LimitOptions, AuthLimits>();

export function authLimitsOf(options: LimitOptions): AuthLimits {
  let limits = counting.get(options);
  if (!limits) {
    limits = createAuthLimits(options);
    counting.set(options, limits);
  }
  return limits;
}

function createAuthLimits({ requestsPerMinute, failuresPerMinute }: LimitOptions): AuthLimits {
  const tokens = createCounter();
  const addresses = createCounter();
  return {
    count(tokenId, requests) {
      const { taken, leftMs } = tokens(tokenId, requests);
      if (taken > requestsPerMinute) throw limited(`a token may make ${requestsPerMinute} requests a minute`, leftMs);
    },
    countRefusal(request, error) {
      if (!isAppError(error, 'unauthorized')) return error;
      const { taken, leftMs } = addresses(networkOf(request.raw.socket.remoteAddress ?? ''), 1);
      if (taken <= failuresPerMinute) return error;
      return limited(`${failuresPerMinute} tokens of this address were refused within a minute`, leftMs);
    },
  };
}

/** Counts by name, in windows of WINDOW_MS that begin with the first request. */
function createCounter() {
  const windows = new Map<string, { taken: number; readonly until: number }>();
  return (name: string, many: number): { taken: number; leftMs: number } => {
    const now = performance.now();
    let window = windows.get(name);
    if (!window || window.until <= now) {
      windows.delete(name);
      if (windows.size >= COUNTED_MAX) windows.delete(windows.keys().next().value!);
      window = { taken: 0, until: now + WINDOW_MS };
      windows.set(name, window);
    }
    window.taken += many;
    return { taken: window.taken, leftMs: window.until - now };
  };
}

function limited(what: string, leftMs: number): AppError {
  return new AppError('rate_limited', {
    detail: `${what}; wait as long as Retry-After says`,
    retryAfterMs: Math.max(1, Math.ceil(leftMs)),
  });
}

/** An address as limits count it: a holder of one IPv6 address has as many as its network of 64 bits. */
export function networkOf(address: string): string {
  if (address.startsWith('::ffff:') || !address.includes(':') || address === '::1') return address;
  const [head = '', tail] = address.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  return [...groups, ...Array.from({ length: missing }, () => '0')].slice(0, 4).join(':');
}
