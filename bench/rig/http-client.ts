import { Agent, type IncomingMessage, request } from 'node:http';

/** Kept connections; as many as the widest benchmark has requests at once. */
const SOCKETS_MAX = 256;
const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS_MAX });

/** GET; rejects unless the answer is 200. */
export function getJson<T>(url: string): Promise<T> {
  return sendJson<T>('GET', url);
}

/** POST with a JSON body; rejects unless the answer is a success. */
export function postJson<T>(url: string, body: unknown): Promise<T> {
  return sendJson<T>('POST', url, body);
}

/** POST that reads a streamed answer to its end and drops it. */
export async function drain(url: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  const response = await send('POST', url, JSON.stringify(body), headers);
  for await (const chunk of response as AsyncIterable<Buffer>) if (chunk.length === 0) break;
}

export interface EventReader {
  /** Frames with an `event:` line so far, heartbeats and `retry:` left out. */
  readonly frames: number;
  /** Resolves when `text` has been seen as often as `times` since the last call. */
  until(text: string, times: number): Promise<void>;
  close(): void;
}

/** Reads server-sent events and only counts them: what is measured is the other end. */
export async function readEvents(url: string): Promise<EventReader> {
  const response = await send('GET', url, undefined, { accept: 'text/event-stream' }, new Agent());
  let frames = 0;
  let rest = '';
  let wanted: { text: string; times: number; resolve: () => void } | undefined;
  const take = (frame: string) => {
    if (!frame.includes('event: ')) return;
    frames += 1;
    if (!wanted || !frame.includes(`event: ${wanted.text}\n`)) return;
    wanted.times -= 1;
    if (wanted.times === 0) wanted.resolve();
  };
  response.setEncoding('utf8').on('data', (chunk: string) => {
    const parts = (rest + chunk).split('\n\n');
    rest = parts.pop()!;
    for (const part of parts) take(`${part}\n`);
  });
  // Closing a reader breaks its connection, which is the point.
  response.on('error', () => {});
  return {
    get frames() {
      return frames;
    },
    until: (text, times) => new Promise((resolve) => (wanted = { text, times, resolve })),
    close: () => void response.destroy(),
  };
}

async function sendJson<T>(method: string, url: string, body?: unknown): Promise<T> {
  const response = await send(method, url, body === undefined ? undefined : JSON.stringify(body));
  let text = '';
  for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) text += chunk;
  return JSON.parse(text) as T;
}

function send(
  method: string,
  url: string,
  body?: string,
  headers: Readonly<Record<string, string>> = {},
  via: Agent = agent,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request(url, {
    method,
    agent: via,
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      ...headers,
    },
  });
  sent.once('error', reject);
  sent.once('response', (response) => {
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 300) return resolve(response);
    response.setEncoding('utf8').once('data', (text) => reject(new Error(`${method} ${url} answered ${status}: ${text}`)));
  });
  sent.end(body);
  return promise;
}
