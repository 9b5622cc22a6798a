import { connect, type Socket } from 'node:net';

/** Bytes over a socket of our own: what fetch refuses to send, and readers that refuse to read. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
  json(): Record<string, unknown>;
}

export interface RawRequest {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** Deadline of one raw exchange; a test that waits longer has found a hanging server. */
const RAW_TIMEOUT_MS = 10_000;

/** One request on one connection, read until the server closes it. Host defaults to the address; headers go out as they are given. */
export async function rawRequest(port: number, request: RawRequest): Promise<RawAnswer> {
  const body = request.body ?? '';
  const headers: Record<string, string> = { host: `127.0.0.1:${port}`, connection: 'close', ...request.headers };
  if (body.length > 0 && headers['transfer-encoding'] === undefined) headers['content-length'] ??= String(Buffer.byteLength(body));
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return parseAnswer(await rawBytes(port, [`${request.method ?? 'GET'} ${request.path} HTTP/1.1\r\n${head.join('')}\r\n`, body]));
}

/** Send these bytes, give back everything until the end of the connection. */
export function rawBytes(port: number, parts: readonly (string | Buffer)[]): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const chunks: Buffer[] = [];
  const socket = connect(port, '127.0.0.1', () => {
    for (const part of parts) if (part.length > 0) socket.write(part);
  });
  socket.setTimeout(RAW_TIMEOUT_MS, () => socket.destroy(new Error('the server neither answered nor closed')));
  socket.on('data', (chunk) => chunks.push(chunk));
  socket.on('error', (error) => (chunks.length > 0 ? resolve(Buffer.concat(chunks)) : reject(error)));
  socket.on('close', () => resolve(Buffer.concat(chunks)));
  return promise;
}

/** A connection that has sent a request and reads nothing until it is resumed. */
export async function openDeafReader(port: number, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect(port, '127.0.0.1', resolve);
  socket.once('error', reject);
  await promise;
  socket.on('error', () => {}); // The server may cut the connection; that is what such tests wait for.
  socket.pause();
  const lines = Object.entries({ host: `127.0.0.1:${port}`, ...headers }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  return socket;
}

/** With these a deaf reader becomes a WebSocket. */
export const UPGRADE_HEADERS = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
} as const;

/** A text frame as clients must send it, masked with zeros. */
export function maskedFrame(text: string): Buffer {
  const payload = Buffer.from(text);
  if (payload.length > 125) throw new Error('a longer frame needs another header');
  return Buffer.concat([Buffer.from([0x81, 0x80 | payload.length, 0, 0, 0, 0]), payload]);
}

function parseAnswer(bytes: Buffer): RawAnswer {
  const split = bytes.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = bytes.subarray(0, split).toString('latin1').split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const rest = bytes.subarray(split + 4);
  const text = (headers['transfer-encoding'] === 'chunked' ? dechunk(rest) : rest).toString('utf8');
  return { status: Number(statusLine.split(' ')[1]), headers, text, json: () => JSON.parse(text) as Record<string, unknown> };
}

function dechunk(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    const size = lineEnd === -1 ? 0 : Number.parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16);
    if (!size) break;
    parts.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return Buffer.concat(parts);
}
