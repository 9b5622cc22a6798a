import { ERRORS, type ErrorCode, type Problem } from '../contract/errors.ts';

export interface ErrorDetails {
  /** What happened, with the values, and what to do next. Reaches the client: never a secret. */
  readonly detail: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
  /** Additional members of the problem document. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** An expected failure with a stable code. Anything else that is thrown is a bug and answered `internal`. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly errors: ErrorDetails['errors'];
  readonly retryAfterMs: number | undefined;
  readonly extra: ErrorDetails['extra'];

  constructor(code: ErrorCode, details: ErrorDetails) {
    super(`${code}: ${details.detail}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'AppError';
    this.code = code;
    this.detail = details.detail;
    this.errors = details.errors;
    this.retryAfterMs = details.retryAfterMs;
    this.extra = details.extra;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code);
}

/** The wire form of any thrown value. A bug keeps its message to itself. */
export function toProblem(error: unknown, requestId?: string): Problem {
  const known = error instanceof AppError ? error : new AppError('internal', { detail: 'internal error; the log has the cause' });
  return {
    ...known.extra,
    type: `https://signet.dev/errors/${known.code}`,
    title: ERRORS[known.code].title,
    status: known.status,
    detail: known.detail,
    code: known.code,
    error: known.detail,
    ...(known.errors ? { errors: [...known.errors] } : {}),
    ...(known.retryAfterMs === undefined ? {} : { retryAfterMs: known.retryAfterMs }),
    ...(requestId ? { requestId } : {}),
  };
}
