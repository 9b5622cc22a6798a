import type { FastifyRequest } from 'fastify';
import type { Operation } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';

/** What to say about a path or method without a route: the methods the path does take, else where the list is. */
export function describeMiss(table: readonly Operation[], request: FastifyRequest): AppError {
  const path = request.url.split('?', 1)[0] ?? '';
  const shown = JSON.stringify(path.slice(0, 255));
  const methods = table.filter((operation) => matches(operation.path, path)).map((operation) => operation.method);
  if (methods.length === 0) return new AppError('not_found', { detail: `nothing is at ${shown}; GET /openapi.json lists what is` });
  const allowed = [...new Set(methods)];
  return new AppError('not_found', {
    detail: `${shown} does not take ${request.method}; it takes ${allowed.join(', ')}`,
    extra: { allow: allowed },
  });
}

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/');
  const given = path.split('/');
  return wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at]);
}
