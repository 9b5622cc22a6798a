import type { Agent, IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

/** Statuses whose answers have no body. */
const BODILESS = [204, 205, 304];

/** `fetch` over a Unix domain socket, for the clients of this package: the host of the address is only named, redirects are not followed. */
export function createSocketFetch(socketPath: string): typeof fetch {
  let agent: Agent | undefined;
  return async (target, init = {}) => {
    // Most commands run without: it would only make them start later.
    const http = await import('node:http');
    agent ??= new http.Agent({ keepAlive: true });
    const url = new URL(target instanceof Request ? target.url : target);
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const request = http.request({
      agent,
      socketPath,
      path: `${url.pathname}${url.search}`,
      method: init.method ?? 'GET',
      headers: { ...Object.fromEntries(new Headers(init.headers)), host: url.host },
      ...(init.signal ? { signal: init.signal } : {}),
    });
    request.once('response', resolve);
    request.on('error', (cause) => reject(new TypeError('fetch failed', { cause })));
    request.end(init.body === undefined || init.body === null ? undefined : String(init.body));
    return toResponse(await promise);
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
