import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIP } from 'node:net';
import { type CallbackTool, TOOL_TIMEOUT_MS_MAX } from '../contract/tool.ts';
import { createDeadline } from '../core/deadline.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Tool, ToolContext } from '../core/tool.ts';
import { checkedLookup, hostOf, isAllowed, type ResolveAll, requireFitting } from './callback-host.ts';

/** Longest answer of a callback in bytes; what the model sees of it is cut again by the registry. */
export const CALLBACK_RESPONSE_BYTES_MAX = 4_194_304;
/** Characters of an answer that could not be used, shown beside its status. */
const EXCERPT_CHARS = 200;

/**
 * A tool behind a URL: each call is one POST of `{name, input, callKey, sessionKey, sessionId, agent, project, daemonUrl}`, with the
 * call key as `idempotency-key` too; answered by `{output}`, or `{error}` (text or `{message}`). Redirects are not followed, connections not kept.
 *
 * @param allowedHosts  host names besides loopback that may be called, unless they resolve to a forbidden address; any other host must
 *                      resolve to loopback at each call
 */
export function createCallbackTool(registration: CallbackTool, where: CallbackHosts): Tool {
  const { name, description, inputSchema, class: toolClass, runBeforeGeneration, needsApproval, timeoutMs } = registration;
  const url = new URL(registration.callback.url);
  return {
    name,
    description,
    inputSchema,
    class: toolClass,
    origin: 'custom',
    runBeforeGeneration,
    needsApproval,
    timeoutMs,
    async execute(input, context) {
      const { callKey, sessionKey, sessionId, agent, project, daemonUrl } = context;
      const body = JSON.stringify({ name, input, callKey, sessionKey, sessionId, agent, project, daemonUrl });
      const { signal, clear } = createDeadline('the callback', TOOL_TIMEOUT_MS_MAX, context.signal);
      try {
        const response = await post(url, body, { callKey: context.callKey, signal, ...where });
        return readAnswer(response.statusCode ?? 0, await readText(response));
      } catch (error) {
        if (context.signal.aborted) throw context.signal.reason;
        throw failure(error, signal, url);
      } finally {
        clear();
      }
    },
  };
}

interface CallbackHosts {
  readonly allowedHosts: readonly string[];
  /** The system's own when left out. */
  readonly resolveAll?: ResolveAll;
}

type PostOptions = Pick<ToolContext, 'callKey' | 'signal'> & CallbackHosts;

function post(url: URL, body: string, { callKey, signal, allowedHosts, resolveAll }: PostOptions): Promise<IncomingMessage> {
  const host = hostOf(url);
  const mayBeAnywhere = isAllowed(host, allowedHosts);
  // An address is connected to without a resolver, so it is looked at here.
  if (isIP(host)) requireFitting(host, [host], mayBeAnywhere);
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? requestHttps : requestHttp)(url, {
      method: 'POST',
      agent: false,
      signal,
      lookup: checkedLookup(mayBeAnywhere, resolveAll),
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        'content-length': Buffer.byteLength(body),
        'idempotency-key': callKey,
      },
    });
    request.once('response', resolve);
    // Stays for the whole request: an abort while the answer is read is heard here as well.
    request.on('error', reject);
    request.end(body);
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > CALLBACK_RESPONSE_BYTES_MAX) {
      throw new AppError('tool_failed', { detail: `the callback answered more than ${CALLBACK_RESPONSE_BYTES_MAX} bytes` });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function readAnswer(status: number, text: string): unknown {
  const answer = parse(text);
  const isGood = status >= 200 && status < 300;
  if (answer !== undefined && answer.error !== undefined && answer.error !== null) {
    throw new AppError('tool_failed', { detail: isGood ? errorText(answer.error) : `status ${status}: ${errorText(answer.error)}` });
  }
  const excerpt = text.length > EXCERPT_CHARS ? `${text.slice(0, EXCERPT_CHARS)}...` : text;
  if (!isGood) throw new AppError('tool_failed', { detail: `the callback answered status ${status}: ${excerpt || '(no body)'}` });
  if (!answer || !('output' in answer)) {
    const detail = `the callback answered status ${status} without JSON of {"output"} or {"error"}: ${excerpt || '(no body)'}`;
    throw new AppError('tool_failed', { detail });
  }
  return answer.output;
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined; // Not JSON; the caller shows how it begins.
  }
}

function errorText(error: unknown): string {
  if (typeof error === 'string') return error;
  const message = typeof error === 'object' && error !== null && 'message' in error ? error.message : undefined;
  return typeof message === 'string' ? message : JSON.stringify(error);
}

/** What went wrong on the way, without the URL's path and query: they may hold a secret. */
function failure(error: unknown, signal: AbortSignal, url: URL): AppError {
  // What is refused here, a registration would have been refused for.
  if (isAppError(error, 'invalid_request')) return new AppError('tool_failed', { detail: error.detail, cause: error });
  if (isAppError(error)) return error;
  if (signal.aborted) return new AppError('timeout', { detail: `the callback did not answer within ${TOOL_TIMEOUT_MS_MAX} ms` });
  const detail = `the callback at ${url.origin} could not be called: ${error instanceof Error ? error.message || error.name : String(error)}`;
  return new AppError('tool_failed', { detail, cause: error });
}
