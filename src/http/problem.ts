import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BODY_BYTES_MAX, type Operation } from '../contract/operation.ts';
import { AppError, isAppError, toProblem } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { bodyTooLarge, REFUSED_BODY_BYTES_MAX } from './security.ts';

/** A refused connection is read for so long that its sender can take the answer, then it is destroyed; unit: milliseconds. */
const REFUSED_LINGER_MS = 1_000;

export const PROBLEM_TYPE = 'application/problem+json';

/** Answer anything thrown as a problem document (RFC 9457); faults of this server are logged with their cause. */
export function sendProblem(
  log: Logger,
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  operation?: Operation,
): FastifyReply {
  const error = known(thrown, operation);
  logFault(log, error, request, operation);
  const problem = toProblem(error, request.id);
  // Fastify asks to close after a failed body; ours was read to its end, or will be.
  if (isAppError(error, 'invalid_json')) reply.removeHeader('connection');
  if (Number(request.raw.headers['content-length'] ?? 0) > REFUSED_BODY_BYTES_MAX) reply.header('connection', 'close');
  if (problem.retryAfterMs !== undefined) reply.header('retry-after', String(Math.ceil(problem.retryAfterMs / 1_000)));
  if (problem.status === 401) reply.header('www-authenticate', challenge(request));
  return reply.code(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem));
}

/** @source RFC 6750, section 3: no error code for a request that brought no token */
function challenge(request: FastifyRequest): string {
  return request.raw.headers.authorization === undefined ? 'Bearer' : 'Bearer error="invalid_token"';
}

/** Fastify's own refusals in our words; everything else stays what it is. */
function known(thrown: unknown, operation: Operation | undefined): unknown {
  if (isAppError(thrown)) return thrown;
  const { code, statusCode, message } = (thrown ?? {}) as { code?: string; statusCode?: number; message?: string };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return bodyTooLarge(operation?.bodyBytesMax ?? BODY_BYTES_MAX);
  if (code?.startsWith('FST_ERR_CTP_INVALID_MEDIA_TYPE'))
    return new AppError('unsupported_media_type', {
      detail: 'the content type is not readable; send JSON with content-type: application/json',
    });
  if (code?.startsWith('FST_') && statusCode !== undefined && statusCode < 500)
    return new AppError('invalid_request', { detail: message ?? 'the request is not readable', cause: thrown });
  if (statusCode === 400 && (code === 'ECONNRESET' || code === 'ECONNABORTED'))
    return new AppError('invalid_request', { detail: 'the body ended before it was complete', cause: thrown });
  return thrown;
}

function logFault(log: Logger, error: unknown, request: FastifyRequest, operation: Operation | undefined): void {
  const fields = { requestId: request.id, operation: operation?.id, method: request.method };
  if (!isAppError(error)) log.error({ ...fields, err: error }, 'a request failed by a fault of this server');
  else if (error.status >= 500) log.warn({ ...fields, code: error.code, err: error }, 'a request failed');
}

/** What cannot be read as HTTP gets an answer too, then the connection is destroyed: one whose other end never closes would stay for ever. */
export function refuseUnreadable(error: Error & { code?: string }, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request';
  const late = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const detail = late ? 'the request did not arrive in time' : `the request is not readable as HTTP (${error.code ?? 'unknown'})`;
  socket.end(rawProblem(late ? '408 Request Timeout' : status, new AppError('invalid_request', { detail })));
  const timer = setTimeout(() => socket.destroy(), REFUSED_LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Answers a new connection with 503 whatever it asks for. Its descriptor is free on return, and nothing of it is read. */
export function refuseConnection(socket: Socket, error: AppError): void {
  // A write to a connection that has none waiting goes to the system at once.
  socket.write(rawProblem('503 Service Unavailable', error));
  socket.destroy();
}

function rawProblem(status: string, error: AppError): string {
  const problem = toProblem(error);
  const body = JSON.stringify(problem);
  const retry = problem.retryAfterMs === undefined ? '' : `retry-after: ${Math.ceil(problem.retryAfterMs / 1_000)}\r\n`;
  const head = `HTTP/1.1 ${status}\r\ncontent-type: ${PROBLEM_TYPE}\r\n${retry}connection: close\r\n`;
  return `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}
