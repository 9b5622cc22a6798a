import type { FastifyRequest } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createAuthentication } from '../../src/http/auth.ts';

/** A token that has expired ends its streams within this; unit: milliseconds. */
const NOTICED_WITHIN_MS = 10_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const READ = { id: 'read', role: 'readonly' } as const;

/** A request with a token, as far as authentication looks at it. */
const requestWith = (token: string) =>
  ({ raw: { headers: { authorization: `Bearer ${token}` }, socket: {} }, query: {} }) as unknown as FastifyRequest;

test('streams of a token that expires end, others go on, and nothing is looked over when none are open', () => {
  const valid = new Set(['a', 'b']);
  const auth = createAuthentication({
    authenticate: (token) => (valid.has(token) ? { id: token, role: 'readonly' } : undefined),
    isValid: (id) => valid.has(id),
  });
  const ended: string[] = [];
  const unwatch = ['a', 'b'].map((token) => {
    const request = requestWith(token);
    auth.admitCaller(READ, request);
    return auth.watch(request, () => ended.push(token));
  });
  expect(vi.getTimerCount()).toBe(1);
  vi.advanceTimersByTime(NOTICED_WITHIN_MS);
  expect(ended).toEqual([]);
  valid.delete('a');
  vi.advanceTimersByTime(NOTICED_WITHIN_MS);
  expect(ended).toEqual(['a']);
  for (const forget of unwatch) forget();
  expect(vi.getTimerCount()).toBe(0);
});
