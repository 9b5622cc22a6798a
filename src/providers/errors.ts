import type { ErrorCode } from '../contract/errors.ts';
import { AppError } from '../core/errors.ts';

/** Longest wait a provider may ask for, in ms; a larger number is cut to this. */
export const RETRY_AFTER_MS_MAX = 600_000;
/** Characters of the provider's own words that reach our message. */
const MESSAGE_CHARS_MAX = 300;
/** Errors inside errors that are looked through. */
const CAUSE_DEPTH_MAX = 5;

/** What a message may say about the provider, and what it must never say. */
export interface FaultContext {
  readonly id: string;
  readonly stallTimeoutMs: number;
  /** Scheme, host and port for messages; never credentials. */
  readonly origin: string;
  /** Taken out of every text. */
  readonly secrets: readonly string[];
}

/** An error object as a model API writes it, in a body or in an event of the stream. */
export interface WireFault {
  readonly type?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
}

const OVERFLOW_CODES = /context_length_exceeded|exceed_context_size|request_too_large|string_above_max_length/;
const OVERFLOW_WORDS =
  /prompt is too long|input is too long|exceeds? (the )?(available |maximum )?context|context (window|length|size|limit)[^.]*exceed|maximum context length|exceeds? the context window|too many tokens in the prompt/i;
const OVERLOADED = /overloaded|rate_limit|too_many_requests|slow_down/;
const REFUSED = /invalid|authentication|permission|not_found|billing|insufficient_quota|policy|unsupported|image_/;
/** OpenAI names it by its code with any status; others say 404 and tell of a model in words. */
const MODEL_UNKNOWN = /model_not_found/;
const MODEL_WORD = /\bmodel\b/i;
const MODELS_HINT = '; GET /models lists the models there are';
/** Not worth a retry although the status is 429. */
const QUOTA = /insufficient_quota|billing/;

/**
 * The AppError for anything an SDK or the transport throws. Faults of our own code are returned as they are.
 * The message holds the provider's words with keys taken out, never a header and never more than 300 characters.
 */
export function toProviderError(error: unknown, context: FaultContext): unknown {
  const known = causes(error).find((one) => one instanceof AppError);
  if (known) return known;
  if (!(error instanceof Error)) return error;
  if (error.constructor.name === 'APIConnectionTimeoutError') return stallError(context);
  if (error instanceof SyntaxError || error instanceof TypeError) {
    // The message of a SyntaxError repeats a piece of the conversation, so only the other one is kept as the cause.
    const cause = error instanceof TypeError ? { cause: error } : {};
    return new AppError('provider_malformed', { detail: `${context.id}: an event of the stream is not what the API promises`, ...cause });
  }
  // Both SDKs give every API error the fields status, headers and error; it cannot be told by class without loading the SDK.
  if (!('status' in error)) return error;
  if (typeof error.status === 'number') return statusError(error.status, error as ApiFault, context);
  const fault = wireFault((error as ApiFault).error);
  if (fault) return eventError(fault, context);
  const code = causes(error)
    .map((one) => (one as { code?: unknown }).code)
    .find((one) => typeof one === 'string');
  return new AppError('provider_failed', { detail: `${context.id}: no connection to ${context.origin}${code ? ` (${code})` : ''}` });
}

/** No byte came within the stall limit. */
export function stallError(context: FaultContext): AppError {
  return new AppError('provider_timeout', {
    detail: `${context.id}: nothing of an answer from ${context.origin} for ${context.stallTimeoutMs} ms`,
  });
}

/** The answer ended before it was whole. */
export function cutError(context: FaultContext, reason: string): AppError {
  return new AppError('provider_stream_cut', { detail: `${context.id}: ${reason}` });
}

/** An error the API reported inside a stream that began with status 200. */
export function eventError(fault: WireFault, context: FaultContext): AppError {
  const name = `${text(fault.type)} ${text(fault.code)}`;
  const detail = `${context.id}: ${describe(fault, context)}`;
  if (MODEL_UNKNOWN.test(name)) return new AppError('unknown_model', { detail: `${detail}${MODELS_HINT}` });
  if (isOverflow(fault)) return new AppError('context_overflow', { detail });
  if (OVERLOADED.test(name)) return new AppError('provider_overloaded', { detail });
  return new AppError(REFUSED.test(name) ? 'provider_refused' : 'provider_failed', { detail });
}

/** The same for the whole event, whatever envelopes are around the error. */
export function streamFault(body: unknown, context: FaultContext): AppError {
  return eventError(wireFault(body) ?? {}, context);
}

/**
 * Milliseconds a provider asks to wait: `retry-after-ms`, else `retry-after` as seconds or as an HTTP date.
 *
 * @returns 0 to RETRY_AFTER_MS_MAX; undefined when there is no readable header
 */
export function retryAfterMs(headers: Headers | undefined, now: number): number | undefined {
  const millis = headers?.get('retry-after-ms');
  const after = headers?.get('retry-after');
  let wait = Number.NaN;
  if (millis) wait = Number(millis);
  if (Number.isNaN(wait) && after) {
    // Date.parse takes almost any number for a date; an HTTP date has a month in letters.
    wait = /[a-z]/i.test(after) ? Date.parse(after) - now : Number(after) * 1_000;
  }
  const past = wait < 0 && !/[a-z]/i.test(after ?? '');
  if (Number.isNaN(wait) || past) return undefined;
  return Math.round(Math.min(Math.max(wait, 0), RETRY_AFTER_MS_MAX));
}

/** Take keys out of a text that came from outside. */
export function redact(value: string, secrets: readonly string[]): string {
  let clean = value;
  for (const secret of secrets) if (secret.length >= 4) clean = clean.replaceAll(secret, '[redacted]');
  return clean.replace(/\bsk-[\w*.-]{4,}/g, '[redacted]').replace(/\bBearer\s+[\w.~+/=-]+/gi, 'Bearer [redacted]');
}

interface ApiFault extends Error {
  readonly headers?: Headers;
  /** The JSON body; the Anthropic SDK keeps the envelope, the OpenAI SDK takes it off. */
  readonly error?: unknown;
}

function statusError(status: number, error: ApiFault, context: FaultContext): AppError {
  const fault = wireFault(error.error) ?? { message: error.message.replace(/^\d{3} /, '') };
  const code = statusCode(status, fault);
  const hint = code === 'unknown_model' ? MODELS_HINT : '';
  const detail = `${context.id}: HTTP ${status} from ${context.origin}: ${describe(fault, context)}${hint}`;
  const wait = code === 'provider_overloaded' ? retryAfterMs(error.headers, Date.now()) : undefined;
  return new AppError(code, { detail, ...(wait === undefined ? {} : { retryAfterMs: wait }) });
}

function statusCode(status: number, fault: WireFault): ErrorCode {
  if (status < 500 && (MODEL_UNKNOWN.test(text(fault.code)) || (status === 404 && MODEL_WORD.test(text(fault.message)))))
    return 'unknown_model';
  if (status === 413 || (status < 500 && isOverflow(fault))) return 'context_overflow';
  if (status === 429 && QUOTA.test(`${text(fault.type)} ${text(fault.code)}`)) return 'provider_refused';
  if (status === 429 || status === 503 || status === 529) return 'provider_overloaded';
  if (status >= 500 || status === 408 || status === 409) return 'provider_failed';
  return 'provider_refused';
}

function isOverflow(fault: WireFault): boolean {
  return OVERFLOW_CODES.test(`${text(fault.type)} ${text(fault.code)}`) || OVERFLOW_WORDS.test(text(fault.message));
}

/** The object that holds type, code and message, whatever envelopes are around it. */
function wireFault(body: unknown): WireFault | undefined {
  if (typeof body === 'string' && body !== '') return { message: body };
  if (typeof body !== 'object' || body === null) return undefined;
  if ('error' in body && body.error) return wireFault(body.error);
  return body as WireFault;
}

function describe(fault: WireFault, context: FaultContext): string {
  const name = text(fault.code) || text(fault.type);
  const words = text(fault.message);
  const message = words.trimStart().startsWith('<') ? 'an HTML page' : words.replace(/\s+/g, ' ').trim();
  const cut = redact(message, context.secrets).slice(0, MESSAGE_CHARS_MAX);
  return [name, cut].filter((part) => part !== '').join(': ') || 'no reason given';
}

function text(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

function causes(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let one = error; one instanceof Error && chain.length < CAUSE_DEPTH_MAX; one = one.cause) chain.push(one);
  return chain;
}
