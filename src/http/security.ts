import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { BODY_BYTES_MAX, type Operation, type Role } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';
import { type Authentication, type AuthOptions, createAuthentication } from './auth.ts';

/** How long a browser may remember the answer to a preflight; unit: seconds. */
const PREFLIGHT_MAX_AGE_S = 600;
/** A refused body larger than this is not read to its end: the connection is closed instead; unit: bytes. */
export const REFUSED_BODY_BYTES_MAX = 64 * 1_048_576;

const LOOPBACK_NAME = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;
const HOST_HEADER = /^(\[[0-9a-f:.]+\]|[^:/?#@\s]+)(?::\d{1,5})?$/;
const JSON_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?(?:utf-?8|us-ascii)"?\s*)?;?$/i;
const ALLOWED_HEADERS = 'authorization, content-type, idempotency-key, last-event-id, prefer, traceparent, x-request-id, x-signet-actor';
const EXPOSED_HEADERS = 'link, location, retry-after, x-request-id';

/** For pages this server answers itself; they load nothing from elsewhere and cannot be framed. */
export const CONTENT_SECURITY_POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

export interface SecurityOptions extends AuthOptions {
  /** Names besides loopback this server answers for, without port. */
  readonly hosts?: readonly string[];
  /** Web origins besides the server's own, `https://app.example`, in full. */
  readonly origins?: readonly string[];
  /** The server itself speaks HTTPS. */
  readonly tls?: boolean;
}

/** What the gate must know of a route. */
export type GatedRoute = Pick<Operation, 'id' | 'method' | 'role' | 'stream' | 'unknownFields' | 'bodyBytesMax' | 'source'> & {
  readonly input?: Operation['input'] | undefined;
  readonly isPublic?: boolean | undefined;
};

export interface Gate {
  /** Before anything else, on every request: Host, Origin, fetch metadata, security headers, preflight. True when it has answered. */
  admit(request: FastifyRequest, reply: FastifyReply): boolean;
  /** Token, role, media type and announced size for one operation, before its body is read. */
  admitTo(operation: GatedRoute, request: FastifyRequest): void;
  readonly auth: Authentication;
}

export function isLoopback(name: string): boolean {
  return LOOPBACK_NAME.test(name.toLowerCase()) || name === '::1';
}

/**
 * The rules a local port needs because any web page can reach it.
 * `admit` and `admitTo` throw AppError `host_forbidden`, `origin_forbidden`, `unauthorized`, `forbidden`, `unsupported_media_type`, `payload_too_large`.
 */
export function createGate(options: SecurityOptions): Gate {
  const hosts = new Set((options.hosts ?? []).map((name) => name.toLowerCase()));
  const origins = new Set((options.origins ?? []).map((origin) => origin.toLowerCase().replace(/\/$/, '')));
  const auth = createAuthentication(options);
  if (origins.has('*')) throw new AppError('config_invalid', { detail: 'allowed origins are named one by one; * is not taken' });
  return {
    admit(request, reply) {
      refuseAmbiguous(request);
      const host = admitHost(request, hosts);
      addSecurityHeaders(reply);
      if (origins.size > 0) reply.header('vary', 'origin');
      return admitOrigin(request, reply, host, { hosts, origins, tls: options.tls === true });
    },
    admitTo(operation, request) {
      if (!operation.isPublic) auth.admitCaller(operation, request);
      if (operation.stream) admitReader(request);
      if (operation.method !== 'GET') admitBody(operation, request);
    },
    auth,
  };
}

/** A proxy in front may read the first of two hosts, or the target's, and we another: then it guards what we do not serve. */
function refuseAmbiguous({ raw: { rawHeaders, url } }: FastifyRequest): void {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) if (rawHeaders[at]!.toLowerCase() === 'host') hosts += 1;
  if (hosts > 1) throw new AppError('invalid_request', { detail: 'the request has more than one Host header; send one' });
  if (url !== undefined && !url.startsWith('/') && url !== '*') {
    throw new AppError('invalid_request', { detail: 'the target of the request must be a path, such as /health, not a whole address' });
  }
}

function admitHost(request: FastifyRequest, hosts: ReadonlySet<string>): string {
  const header = request.raw.headers.host?.toLowerCase() ?? '';
  const name = HOST_HEADER.exec(header)?.[1] ?? '';
  if (LOOPBACK_NAME.test(name) || hosts.has(name)) return header;
  throw new AppError('host_forbidden', {
    detail: `this server does not answer for the host ${JSON.stringify(header.slice(0, 255))}; use localhost or 127.0.0.1, or add the name to the allowed hosts`,
  });
}

function admitOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  host: string,
  { hosts, origins, tls }: { readonly hosts: ReadonlySet<string>; readonly origins: ReadonlySet<string>; readonly tls: boolean },
): boolean {
  const { headers, method } = request.raw;
  const origin = headers.origin?.toLowerCase();
  if (origin === undefined) {
    if (isCrossSite(headers) && !isNavigation(method, headers)) throw crossSite();
    return false;
  }
  if (origin === `${tls ? 'https' : 'http'}://${host}` || isBehindProxy(origin, host, hosts)) return false;
  if (!origins.has(origin)) {
    throw new AppError('origin_forbidden', {
      detail: `requests from the web origin ${JSON.stringify(origin.slice(0, 255))} are not allowed; add it to the allowed origins if it is yours`,
    });
  }
  reply.header('access-control-allow-origin', headers.origin);
  reply.header('access-control-expose-headers', EXPOSED_HEADERS);
  reply.header('cross-origin-resource-policy', 'cross-origin');
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) return false;
  reply.header('access-control-allow-methods', 'GET, POST, PATCH, PUT, DELETE');
  reply.header('access-control-allow-headers', ALLOWED_HEADERS);
  reply.header('access-control-max-age', String(PREFLIGHT_MAX_AGE_S));
  if (headers['access-control-request-private-network'] === 'true') reply.header('access-control-allow-private-network', 'true');
  reply.code(204).send();
  return true;
}

/** Behind a TLS proxy the page is https and we are not: taken only for names that were configured, never for loopback. */
function isBehindProxy(origin: string, host: string, hosts: ReadonlySet<string>): boolean {
  return origin === `https://${host}` && hosts.has(HOST_HEADER.exec(host)?.[1] ?? '');
}

/** What a browser says of the page that sends a request; other clients say nothing. */
function isCrossSite(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-site'] === 'cross-site' || headers['sec-fetch-site'] === 'same-site';
}

/** A person follows a link to a page of ours: the page that links learns nothing from it. */
function isNavigation(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  return method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document';
}

function crossSite(): AppError {
  return new AppError('origin_forbidden', { detail: 'the browser says that this request comes from another site' });
}

/** A page elsewhere can open a stream by an image tag, without Origin; it could read nothing but would hold a connection. */
function admitReader(request: FastifyRequest): void {
  if (request.raw.headers.origin === undefined && isCrossSite(request.raw.headers)) throw crossSite();
}

function addSecurityHeaders(reply: FastifyReply): void {
  reply.header('x-content-type-options', 'nosniff');
  reply.header('referrer-policy', 'no-referrer');
  reply.header('cross-origin-opener-policy', 'same-origin');
  reply.header('cross-origin-resource-policy', 'same-origin');
  reply.header('cache-control', 'no-store');
}

function admitBody(operation: GatedRoute, request: FastifyRequest): void {
  const { headers } = request.raw;
  const type = headers['content-type'];
  const announced = Number(headers['content-length'] ?? 0);
  const hasBody = announced > 0 || headers['transfer-encoding'] !== undefined;
  if (type === undefined) {
    if (hasBody && !(isOfSpec(operation) && headers.origin === undefined)) throw wrongType('the body has no content type');
  } else if (!JSON_TYPE.test(type)) {
    throw wrongType(`the body has the content type ${JSON.stringify(type.slice(0, 255))}`);
  }
  const limit = operation.bodyBytesMax ?? BODY_BYTES_MAX;
  if (announced > limit) throw bodyTooLarge(limit, announced);
}

/** Clients of these routes are older than we are, and some name no type. */
function isOfSpec({ unknownFields, source }: GatedRoute): boolean {
  return unknownFields === 'ignore' || source?.startsWith('spec/') === true;
}

function wrongType(what: string): AppError {
  return new AppError('unsupported_media_type', { detail: `${what}; send JSON with content-type: application/json` });
}

export function bodyTooLarge(limitBytes: number, bytes?: number): AppError {
  const size = bytes === undefined ? 'the body' : `the body has ${bytes} bytes and`;
  return new AppError('payload_too_large', {
    detail: `${size} is over the limit of ${limitBytes} bytes of this operation; send less`,
    extra: { limitBytes },
  });
}

/** An `authenticate` for a fixed set of tokens; compares digests, so that time tells nothing about a token. */
export function createTokenCheck(tokens: Readonly<Record<string, Role>>): (token: string) => Role | undefined {
  const digest = (token: string) => createHash('sha256').update(token).digest();
  const known = Object.entries(tokens).map(([token, role]) => ({ digest: digest(token), role }));
  return (token) => {
    const asked = digest(token);
    let found: Role | undefined;
    for (const entry of known) if (timingSafeEqual(entry.digest, asked)) found = entry.role;
    return found;
  };
}
