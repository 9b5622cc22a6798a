import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

/** Tools of the server, each named after its class: the hints of MCP say no more than these three. */
export const MARK_TOOLS = ['mark_pure', 'mark_idempotent', 'mark_unsafe'] as const;

export interface MarkServerOptions {
  /** Receives each call with the call key of Signet. */
  readonly called: (name: string, callKey: string) => void;
  /** Time before a connection is answered for the first time; unit: milliseconds. */
  readonly connectMs: () => number;
  /** Time a call takes; unit: milliseconds. */
  readonly callMs: () => number;
}

/** An MCP server over Streamable HTTP on a free loopback port, slow to connect, that reports which call was made under which key. */
export async function startMarkServer(options: MarkServerOptions): Promise<{ readonly url: string; close(): Promise<void> }> {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const http = createServer((request, response) => {
    const id = request.headers['mcp-session-id'];
    const known = typeof id === 'string' ? sessions.get(id) : undefined;
    if (known) return void known.handleRequest(request, response);
    if (id !== undefined) return void response.writeHead(404).end();
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, transport),
      onsessionclosed: (session) => void sessions.delete(session),
    });
    void pause(options.connectMs())
      .then(() => createServerOf(options).connect(transport as Parameters<Server['connect']>[0]))
      .then(() => transport.handleRequest(request, response));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    async close() {
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

function createServerOf({ called, callMs }: MarkServerOptions): Server {
  const server = new Server({ name: 'marks', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: MARK_TOOLS.map((name) => ({
      name,
      inputSchema: { type: 'object' as const },
      annotations: { readOnlyHint: name === 'mark_pure', idempotentHint: name === 'mark_idempotent' },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    called(params.name, String(params._meta?.['signet.dev/call-key']));
    await pause(callMs());
    return { content: [{ type: 'text', text: 'marked' }] };
  });
  return server;
}
