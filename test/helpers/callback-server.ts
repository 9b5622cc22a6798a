import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface CallbackRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

export interface CallbackServer {
  readonly port: number;
  /** `http://127.0.0.1:<port>`. */
  readonly origin: string;
  /** In the order they came. */
  readonly requests: CallbackRequest[];
  close(): Promise<void>;
}

/** Answers a request by JSON of what it returns, or writes the response itself and returns undefined. */
export type CallbackAnswer = (request: CallbackRequest, response: ServerResponse) => unknown;

/** A real HTTP server on a free loopback port that tools are registered with. */
export async function startCallbackServer(answer: CallbackAnswer): Promise<CallbackServer> {
  const requests: CallbackRequest[] = [];
  const server = createServer((incoming, response) => {
    void read(incoming).then((request) => {
      requests.push(request);
      const value = answer(request, response);
      if (value !== undefined) response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function read(incoming: IncomingMessage): Promise<CallbackRequest> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    body: JSON.parse(Buffer.concat(chunks).toString('utf8')),
  };
}
