import { ERRORS, type ErrorCode } from '../contract/errors.ts';
import { type InputOf, type Operation, type OutputOf, pathFields } from '../contract/operation.ts';
import { createDeadline } from '../core/deadline.ts';
import { AppError } from '../core/errors.ts';
import { limitHeaders } from '../core/limit-headers.ts';
import type { Call, CallOptions } from '../core/operation-call.ts';
import { requireSafeToken } from './clear-token.ts';

/** Deadline of a call that names none; unit: milliseconds. */
export const CALL_TIMEOUT_MS = 30_000;

export interface HttpTransportOptions {
  /** `http://127.0.0.1:3850`, a path prefix is kept. */
  readonly baseUrl: string;
  readonly token?: string;
  /** Send the token over plain HTTP to another machine too. */
  readonly allowInsecure?: boolean;
  /** Sent with every call; those of a call win. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default CALL_TIMEOUT_MS. */
  readonly timeoutMs?: number;
  /** The platform's own when left out; it keeps connections alive. */
  readonly fetch?: typeof fetch;
}

/**
 * Calls of operations over HTTP, in Node and in browsers.
 * Throws AppError as the server answered it, `daemon_unreachable` when nobody answers, `timeout` past the deadline,
 * and the reason of `options.signal` when the caller gave up.
 */
export function createHttpTransport(options: HttpTransportOptions): Call {
  const send = options.fetch ?? fetch;
  return async <Op extends Operation>(operation: Op, input: InputOf<Op>, call: CallOptions = {}) => {
    requireSafeToken(options);
    const request = buildRequest(operation, (input ?? {}) as Record<string, unknown>, options, call);
    const deadline = createDeadline(operation.id, call.timeoutMs ?? options.timeoutMs ?? CALL_TIMEOUT_MS, call.signal);
    try {
      const response = await send(request.url, { ...request.init, signal: deadline.signal });
      return (await readAnswer(operation, response)) as OutputOf<Op>;
    } catch (error) {
      if (deadline.signal.aborted) throw deadline.signal.reason;
      if (error instanceof AppError) throw error;
      throw unreachable(options.baseUrl, error);
    } finally {
      deadline.clear();
    }
  };
}

export function unreachable(baseUrl: string, error: unknown): AppError {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  const why = cause?.code ?? cause?.message ?? (error as Error).message;
  return new AppError('daemon_unreachable', { detail: `${baseUrl} does not answer (${why}); is it running?`, cause: error });
}

interface BuiltRequest {
  readonly url: string;
  readonly init: RequestInit;
}

function buildRequest(
  operation: Operation,
  input: Record<string, unknown>,
  options: HttpTransportOptions,
  call: CallOptions,
): BuiltRequest {
  const rest = { ...input };
  let path = operation.path;
  for (const name of pathFields(path)) {
    path = path.replace(`:${name}`, encodePathField(operation, name, rest[name]));
    delete rest[name];
  }
  const query = new URLSearchParams();
  const bodyless = operation.method === 'GET' || operation.method === 'DELETE';
  for (const name of bodyless ? Object.keys(rest) : (operation.queryFields ?? [])) {
    addQuery(query, name, rest[name]);
    delete rest[name];
  }
  const headers: Record<string, string> = { accept: operation.contentType ?? 'application/json', ...options.headers, ...call.headers };
  Object.assign(headers, limitHeaders(call.limit));
  if (options.token !== undefined) headers.authorization ??= `Bearer ${options.token}`;
  if (!bodyless) headers['content-type'] = 'application/json';
  const search = query.size > 0 ? `?${query}` : '';
  return {
    url: `${options.baseUrl.replace(/\/+$/, '')}${path}${search}`,
    init: { method: operation.method, headers, redirect: 'error', ...(bodyless ? {} : { body: JSON.stringify(rest) }) },
  };
}

/** A dot segment would be taken away by URL rules, so it could never arrive. */
function encodePathField(operation: Operation, name: string, value: unknown): string {
  const text = value === undefined || value === null ? '' : String(value);
  if (text === '' || text === '.' || text === '..')
    throw new AppError('invalid_request', {
      detail: text === '' ? `${name} is required (it is part of ${operation.path})` : `${name} cannot be ${JSON.stringify(text)}`,
      errors: [{ pointer: `/${name}`, detail: text === '' ? `${name} is required` : `${name} cannot be a dot segment` }],
    });
  return encodeURIComponent(text);
}

function addQuery(query: URLSearchParams, name: string, value: unknown): void {
  if (value === undefined || value === null) return;
  for (const item of Array.isArray(value) ? value : [value])
    query.append(name, typeof item === 'object' ? JSON.stringify(item) : String(item));
}

async function readAnswer(operation: Operation, response: Response): Promise<unknown> {
  const text = await response.text();
  if (!response.ok) throw readProblem(response, text);
  if (response.status === 204) return undefined;
  if (operation.contentType !== undefined) return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new AppError('internal', {
      detail: `${operation.id} was answered ${response.status} with something that is not JSON`,
      cause: error,
    });
  }
}

/** Members every problem has; all others are kept in `extra`. */
const PROBLEM_MEMBERS = new Set(['type', 'title', 'status', 'detail', 'code', 'error', 'errors', 'retryAfterMs', 'requestId']);

/** The AppError behind an answer that is not 2xx; made up from the status when it is not a problem document of ours. */
export function readProblem(response: Response, text: string): AppError {
  const body = parseObject(text);
  const retryAfterS = Number(response.headers.get('retry-after') ?? Number.NaN);
  const retryAfterMs =
    typeof body.retryAfterMs === 'number' ? body.retryAfterMs : Number.isFinite(retryAfterS) ? retryAfterS * 1_000 : undefined;
  const known = typeof body.code === 'string' && Object.hasOwn(ERRORS, body.code);
  const extra = Object.entries(body).filter(([name]) => !PROBLEM_MEMBERS.has(name));
  const detail = typeof body.detail === 'string' ? body.detail : `the server answered ${response.status} without saying why`;
  return new AppError(known ? (body.code as ErrorCode) : codeOf(response.status), {
    detail,
    ...(Array.isArray(body.errors) ? { errors: body.errors as { pointer: string; detail: string }[] } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(known && extra.length > 0 ? { extra: Object.fromEntries(extra) } : {}),
  });
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {}; // A proxy's page instead of ours: the status is all there is.
  }
}

const CODE_BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  413: 'payload_too_large',
  415: 'unsupported_media_type',
  421: 'host_forbidden',
  429: 'rate_limited',
  502: 'daemon_unreachable',
  503: 'daemon_unreachable',
  504: 'timeout',
};

function codeOf(status: number): ErrorCode {
  return CODE_BY_STATUS[status] ?? (status < 500 ? 'invalid_request' : 'internal');
}
