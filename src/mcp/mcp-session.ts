import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { CallToolResult, Tool as ListedTool } from '@modelcontextprotocol/sdk/types.js';
import { type McpServer, TOOL_TIMEOUT_MS_MAX } from '../contract/tool.ts';
import { VERSION } from '../contract/version.ts';
import type { ChildGroups } from '../core/child-groups.ts';
import { untilAborted } from '../core/deadline.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ToolContext } from '../core/tool.ts';
import { createGuardedFetch } from './guarded-fetch.ts';
import { LineTooLong } from './line-reader.ts';
import { createProcessTransport } from './mcp-process.ts';

/** Pages of a list of tools that are read, and tools that are taken from it. */
const LIST_PAGES_MAX = 50;
const LISTED_TOOLS_MAX = 512;
/** How long a server may take to hear that its HTTP session is over, in ms. */
const GOODBYE_TIMEOUT_MS = 1_000;
/** `_meta` key under which a server finds the key that stays the same when a call is made again. */
const CALL_KEY_META = 'signet.dev/call-key';

/** One handshake with a server, until the process or the HTTP session ends. */
export interface McpSession {
  /** The process has ended, or the server has forgotten the HTTP session: open another one. */
  isGone(): boolean;
  /** Why it was ended by us, when it said more than is taken; null otherwise. */
  tooLarge(): string | null;
  /** @param timeoutMs  deadline of each page */
  listTools(timeoutMs: number): Promise<ListedTool[]>;
  /** @throws what the SDK throws; `signal.reason` is the caller's to look at */
  call(name: string, input: unknown, context: ToolContext): Promise<CallToolResult>;
  /** Says that the session is of no more use; its end goes on in the background. */
  drop(): void;
  /** Never throws. */
  close(): Promise<void>;
}

export interface SessionOptions {
  readonly log: Logger;
  /** Ends the attempt to open. */
  readonly signal: AbortSignal;
  /** Deadline for start, handshake and the list of tools together, in ms. */
  readonly timeoutMs: number;
  readonly groups: ChildGroups;
  onGone(): void;
  onListChanged(): void;
}

/** @throws AppError `tool_failed`, `timeout`; `signal.reason` */
export async function openMcpSession(config: McpServer, options: SessionOptions): Promise<{ session: McpSession; listed: ListedTool[] }> {
  const { log, signal, timeoutMs } = options;
  const late = AbortSignal.timeout(timeoutMs);
  const transport = await createTransport(config, log, options.groups);
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
  const { ToolListChangedNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
  const client = new Client({ name: 'signet', version: VERSION });
  const session = await createSession(client, transport);
  client.onerror = (error) => {
    session.noteError(error);
    const fields = { mcpServer: config.mcpServer, reason: error.message };
    if (session.tooLarge() === null) log.debug(fields, 'MCP connection reported an error');
    else log.warn(fields, 'the output of an MCP server was too large; it is ended');
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => options.onListChanged());
  try {
    const begin = async (): Promise<ListedTool[]> => {
      await client.connect(transport, { timeout: timeoutMs });
      return session.listTools(timeoutMs);
    };
    const listed = await untilAborted(begin(), AbortSignal.any([signal, late]));
    client.onclose = () => {
      session.drop();
      options.onGone();
    };
    return { session, listed };
  } catch (error) {
    await session.close();
    if (signal.aborted) throw signal.reason;
    const way = config.command === undefined ? new URL(config.url!).origin : config.command;
    if (late.aborted)
      throw new AppError('timeout', { detail: `MCP server ${config.mcpServer} (${way}) did not get ready in ${timeoutMs} ms` });
    const detail = `MCP server ${config.mcpServer} (${way}) cannot be used: ${reasonOf(error)}; the debug log has what it wrote`;
    throw new AppError('tool_failed', { detail, cause: error });
  }
}

async function createSession(client: Client, transport: Transport): Promise<McpSession & { noteError(error: Error): void }> {
  const { CallToolResultSchema, ListToolsResultSchema, ProgressNotificationSchema } = await import('@modelcontextprotocol/sdk/types.js');
  // Not the SDK's onprogress: it forgets the listener when the result is read, and a last progress that came with the result is lost.
  const listeners = new Map<string | number, ToolContext['progress']>();
  client.setNotificationHandler(ProgressNotificationSchema, ({ params: { progressToken, message, progress, total } }) => {
    listeners.get(progressToken)?.(message ?? '', total ? progress / total : undefined);
  });
  let calls = 0;
  let isGone = false;
  let tooLarge: string | null = null;
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    isGone = true;
    await sayGoodbye(transport);
    // Both: the client closes only a transport that it has started well.
    await Promise.allSettled([client.close(), transport.close()]);
  };
  return {
    isGone: () => isGone,
    tooLarge: () => tooLarge,
    noteError(error) {
      if (error instanceof LineTooLong) tooLarge = error.message;
    },
    async listTools(timeoutMs) {
      const tools: ListedTool[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < LIST_PAGES_MAX && tools.length < LISTED_TOOLS_MAX; page++) {
        // Not client.listTools: it compiles every output schema, and one bad schema would cost all tools.
        const params = cursor === undefined ? {} : { cursor };
        const answer = await client.request({ method: 'tools/list', params }, ListToolsResultSchema, { timeout: timeoutMs });
        tools.push(...answer.tools);
        cursor = answer.nextCursor;
        if (cursor === undefined) break;
      }
      return tools.slice(0, LISTED_TOOLS_MAX);
    },
    async call(name, input, context) {
      const progressToken = ++calls;
      const _meta = { [CALL_KEY_META]: context.callKey, progressToken };
      const params = { name, arguments: input as Record<string, unknown>, _meta };
      listeners.set(progressToken, context.progress);
      try {
        return await client.request({ method: 'tools/call', params }, CallToolResultSchema, {
          signal: context.signal,
          timeout: TOOL_TIMEOUT_MS_MAX, // The caller's signal holds the deadline; the SDK's own default of a minute must not come first.
        });
      } finally {
        listeners.delete(progressToken);
      }
    },
    drop() {
      closing ??= close();
      isGone = true;
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

async function createTransport(config: McpServer, log: Logger, groups: ChildGroups): Promise<Transport> {
  const { command, url } = config;
  if (command !== undefined) return createProcessTransport({ ...config, command }, log, groups);
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  return new StreamableHTTPClientTransport(new URL(url!), { fetch: createGuardedFetch() }) as Transport;
}

/** An HTTP server keeps a session until it hears that it is over; a process hears it by its end. */
async function sayGoodbye(transport: Transport): Promise<void> {
  if (!('terminateSession' in transport) || transport.sessionId === undefined) return;
  const http = transport as Transport & Pick<StreamableHTTPClientTransport, 'terminateSession'>;
  try {
    await untilAborted(http.terminateSession(), AbortSignal.timeout(GOODBYE_TIMEOUT_MS));
  } catch {
    // A server that is away, or slow, has to forget the session by itself.
  }
}

export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? ` (${error.cause.message})` : '';
  return `${error.message}${cause}`;
}
