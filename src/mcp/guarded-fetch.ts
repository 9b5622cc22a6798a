import { lookup as resolveName } from 'node:dns/promises';
import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { Readable } from 'node:stream';
import { addressKind } from '../core/address-kind.ts';
import { AppError } from '../core/errors.ts';

/** Redirects of one request that are followed: servers move `/mcp` to `/mcp/`. */
const REDIRECTS_MAX = 3;
/** Those that keep method and body. */
const REDIRECTS = [307, 308];
/** Statuses whose answers have no body. */
const BODILESS = [204, 205, 304];

type Resolve = (host: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

/**
 * `fetch` that calls no address where clouds keep the credentials of machines, and none that leads to no single host. The address that is
 * checked is the address that is used, at each connection and each redirect: names and servers may change their mind.
 */
export function createGuardedFetch(resolve: Resolve = (host) => resolveName(host, { all: true })) {
  const lookup = guardedLookup(resolve);
  const agents = { http: new HttpAgent({ keepAlive: true, lookup }), https: new HttpsAgent({ keepAlive: true, lookup }) };
  const send = (url: URL, init: RequestInit): Promise<IncomingMessage> => {
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    // An address is connected to without a resolver.
    if (isIP(host)) requireCallable(host, host);
    const { promise, resolve: done, reject } = Promise.withResolvers<IncomingMessage>();
    const isTls = url.protocol === 'https:';
    const request = (isTls ? requestHttps : requestHttp)(url, {
      method: init.method ?? 'GET',
      headers: Object.fromEntries(new Headers(init.headers)),
      agent: isTls ? agents.https : agents.http,
      ...(init.signal ? { signal: init.signal } : {}),
    });
    request.once('response', done);
    request.on('error', reject);
    request.end(init.body === undefined || init.body === null ? undefined : String(init.body));
    return promise;
  };
  return async (target: string | URL, init: RequestInit = {}): Promise<Response> => {
    let url = new URL(target);
    try {
      for (let redirects = 0; ; redirects += 1) {
        const answer = await send(url, init);
        const next = REDIRECTS.includes(answer.statusCode ?? 0) ? answer.headers.location : undefined;
        if (next === undefined || redirects === REDIRECTS_MAX) return toResponse(answer);
        answer.resume();
        const moved = new URL(next, url);
        // What is sent, such as a session id, is for this server alone.
        if (moved.origin !== url.origin)
          throw new AppError('tool_failed', { detail: `${url.origin} redirects to another server, ${moved.origin}` });
        url = moved;
      }
    } catch (error) {
      if (error instanceof AppError || (error instanceof Error && error.name === 'AbortError')) throw error;
      throw new TypeError('fetch failed', { cause: error });
    }
  };
}

function toResponse(answer: IncomingMessage): Response {
  const { statusCode = 200, statusMessage = '', headers } = answer;
  const pairs = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((text) => [name, text] as [string, string]));
  const isBodiless = BODILESS.includes(statusCode);
  if (isBodiless) answer.resume();
  const body = isBodiless ? null : (Readable.toWeb(answer) as ReadableStream<Uint8Array>);
  return new Response(body, { status: statusCode, statusText: statusMessage, headers: pairs });
}

function guardedLookup(resolve: Resolve): LookupFunction {
  return (host, options, callback) => {
    resolve(host).then(
      (found) => {
        const fitting = found.filter(({ family }) => !options.family || options.family === family || options.family === `IPv${family}`);
        try {
          for (const { address } of fitting) requireCallable(host, address);
        } catch (error) {
          return callback(error as Error, '');
        }
        const [first] = fitting;
        if (!first) return callback(Object.assign(new Error(`${host} does not resolve`), { code: 'ENOTFOUND' }), '');
        if (options.all) return callback(null, [...fitting]);
        callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    );
  };
}

/** @throws AppError `tool_failed` */
function requireCallable(host: string, address: string): void {
  if (addressKind(address) !== 'forbidden') return;
  const where = host === address ? host : `${host} (${address})`;
  throw new AppError('tool_failed', {
    detail: `${where} is a link-local, metadata or reserved address: no tool is called there; use an address of the server itself`,
  });
}
