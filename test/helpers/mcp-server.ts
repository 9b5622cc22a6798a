import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, type CallToolResult, ListToolsRequestSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';

/** How to start this file as a stdio server. */
export const MCP_SERVER_COMMAND = { command: process.execPath, args: [fileURLToPath(import.meta.url)] };

type Input = Record<string, string>;
type Extra = { readonly signal: AbortSignal; readonly meta: Record<string, unknown>; changed(): Promise<void>; progress(): Promise<void> };
type Run = (input: Input, extra: Extra) => CallToolResult | Promise<CallToolResult>;

const text = (said: string): CallToolResult => ({ content: [{ type: 'text', text: said }] });
const any = { type: 'object' as const };
/** One connection's own: a new process, or a new HTTP session, begins with few tools again. */
const grown: Tool = { name: 'grown', description: 'Came later', inputSchema: any };

const TOOLS: Record<string, { readonly tool: Omit<Tool, 'name'>; readonly run: Run }> = {
  echo: {
    tool: {
      description: 'Says it again',
      inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      annotations: { readOnlyHint: true },
    },
    run: ({ text: said }) => text(said!),
  },
  sum: {
    tool: { inputSchema: any, annotations: { idempotentHint: true } },
    run: () => ({ content: [], structuredContent: { sum: 3 } }),
  },
  picture: {
    tool: { inputSchema: any },
    run: () => ({
      content: [
        { type: 'text', text: 'a dot' },
        { type: 'image', mimeType: 'image/png', data: 'AAAA' },
      ],
    }),
  },
  fail: { tool: { inputSchema: any }, run: () => ({ ...text('no such file'), isError: true }) },
  key: { tool: { inputSchema: any }, run: (_input, { meta }) => text(String(meta['signet.dev/call-key'])) },
  progress: {
    tool: { inputSchema: any },
    async run(_input, { progress }) {
      await progress();
      return text('done');
    },
  },
  /** Ends only when it is cancelled, and leaves a mark that it heard so. */
  slow: {
    tool: { inputSchema: any },
    async run({ file }, { signal }) {
      if (!signal.aborted) await once(signal, 'abort');
      writeFileSync(file!, 'cancelled');
      return text('cancelled');
    },
  },
  crash: { tool: { inputSchema: any }, run: crashOnce },
  crash_safe: { tool: { inputSchema: any, annotations: { idempotentHint: true } }, run: crashOnce },
  environment: { tool: { inputSchema: any }, run: () => text(JSON.stringify(process.env)) },
  /** Starts a process that outlives a careless end of this one. */
  child: {
    tool: { inputSchema: any },
    run() {
      const child: ChildProcess = spawn(process.execPath, ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)'], {
        stdio: 'inherit',
      });
      return text(String(child.pid));
    },
  },
  'odd name': { tool: { inputSchema: any }, run: () => text('odd name') },
  'odd.name': { tool: { inputSchema: any }, run: () => text('odd.name') },
  /** Prints a gigabyte of a line that never ends; `file` tells how much got out, in bytes. */
  flood: { tool: { inputSchema: any }, run: flood },
  grow: {
    tool: { inputSchema: any },
    async run(_input, { changed }) {
      await changed();
      return text('grew');
    },
  },
};

async function flood({ file }: Input): Promise<CallToolResult> {
  const chunk = 'x'.repeat(1_048_576);
  for (let chunks = 1; chunks <= 1_024; chunks += 1) {
    if (!process.stdout.write(chunk)) await once(process.stdout, 'drain');
    writeFileSync(file!, String(chunks * chunk.length));
  }
  return text('poured');
}

/** Ends the process at the first call; the mark in `file` lets the next one answer. */
function crashOnce({ file }: Input): CallToolResult {
  if (existsSync(file!)) return text('recovered');
  writeFileSync(file!, 'crashed');
  process.exit(3);
}

/** What a test adds to the tools of a server, or puts in their place. */
export type McpTools = typeof TOOLS;

function createMcpServer(own: McpTools = {}): Server {
  const tools = { ...TOOLS, ...own };
  const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } });
  const listed: Tool[] = Object.entries(tools).map(([name, { tool }]) => ({ name, ...tool }));
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    // Two pages, to be read by their cursor.
    return params?.cursor === 'rest' ? { tools: listed.slice(3) } : { tools: listed.slice(0, 3), nextCursor: 'rest' };
  });
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const progressToken = params._meta?.progressToken;
    return tools[params.name]!.run((params.arguments ?? {}) as Input, {
      signal: extra.signal,
      meta: params._meta ?? {},
      async changed() {
        listed.push(grown);
        await server.sendToolListChanged();
      },
      async progress() {
        if (progressToken === undefined) return;
        await extra.sendNotification({
          method: 'notifications/progress',
          params: { progressToken, progress: 1, total: 4, message: 'a quarter' },
        });
      },
    });
  });
  return server;
}

export interface McpHttpServer {
  readonly url: string;
  /** Drops all sessions, as a restart does: their ids are answered by 404. */
  forget(): Promise<void>;
  sessions(): number;
  close(): Promise<void>;
}

/** The same tools over Streamable HTTP, in this process, on a free loopback port. */
export async function startMcpHttpServer(port = 0, own: McpTools = {}): Promise<McpHttpServer> {
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
    void createMcpServer(own)
      .connect(transport as Parameters<Server['connect']>[0])
      .then(() => transport.handleRequest(request, response));
  });
  http.listen(port, '127.0.0.1');
  await once(http, 'listening');
  const forget = async (): Promise<void> => {
    const all = [...sessions.values()];
    sessions.clear();
    await Promise.all(all.map((transport) => transport.close()));
  };
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    forget,
    sessions: () => sessions.size,
    async close() {
      await forget();
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // Some servers greet on the wrong stream.
  process.stdout.write('Test server is ready\n');
  process.stderr.write('listening on stdin\n');
  await createMcpServer().connect(new StdioServerTransport());
}
