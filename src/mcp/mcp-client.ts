import type { Tool as ListedTool } from '@modelcontextprotocol/sdk/types.js';
import { type McpServer, stricterClass, type ToolClass } from '../contract/tool.ts';
import type { ChildGroups } from '../core/child-groups.ts';
import { untilAborted } from '../core/deadline.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ConnectMcp, ConnectOptions, McpConnection } from '../core/mcp-connection.ts';
import type { Tool, ToolContext } from '../core/tool.ts';
import { readResult } from './mcp-result.ts';
import { type McpSession, openMcpSession, reasonOf } from './mcp-session.ts';
import { toTools } from './mcp-tool.ts';

/** Wait before a server that ended is started again, in ms from its end on; doubles with each end that no good call came before. */
const RESTART_MS = 250;
/** Longest of these waits, in ms. */
const RESTART_MS_MAX = 10_000;

/** Connect to an MCP server over stdio (`command`) or Streamable HTTP (`url`). The SDK is loaded with the first connection. */
export const connectMcpServer: ConnectMcp = (config, options) => connect(config, options, NO_GROUPS);

/** The same; servers that are processes are noted, so that they can be ended when this process was killed. */
export function createMcpConnector(groups: ChildGroups): ConnectMcp {
  return (config, options) => connect(config, options, groups);
}

/** Of a program that notes nothing. */
const NO_GROUPS: ChildGroups = { environment: {}, add() {}, remove() {} };

async function connect(config: McpServer, { log, signal, timeoutMs }: ConnectOptions, groups: ChildGroups): Promise<McpConnection> {
  if ((config.command === undefined) === (config.url === undefined)) {
    throw new AppError('invalid_request', { detail: `MCP server ${config.mcpServer} needs either command or url` });
  }
  const connection = new McpServerConnection(config, { log, timeoutMs, groups });
  await connection.open(signal);
  return connection;
}

class McpServerConnection implements McpConnection {
  tools: readonly Tool[] = [];
  readonly #config: McpServer;
  readonly #log: Logger;
  /** Deadline of a start; longer when the last one was not in time. */
  readonly #timeoutMs: number;
  readonly #groups: ChildGroups;
  readonly #closing = new AbortController();
  #session: McpSession | undefined;
  #reopening: Promise<McpSession> | undefined;
  #listing: Promise<void> | undefined;
  #isListStale = false;
  #listener: ((tools: readonly Tool[]) => void) | undefined;
  #ends = 0;
  #endedAt = 0;

  constructor(config: McpServer, { log, timeoutMs, groups }: { log: Logger; timeoutMs: number; groups: ChildGroups }) {
    this.#config = config;
    this.#log = log;
    this.#timeoutMs = timeoutMs;
    this.#groups = groups;
  }

  async open(signal: AbortSignal): Promise<McpSession> {
    const { session, listed } = await openMcpSession(this.#config, {
      log: this.#log,
      signal,
      timeoutMs: this.#timeoutMs,
      groups: this.#groups,
      onGone: () => this.#noteEnd(session),
      onListChanged: () => this.#refresh(),
    });
    this.#session = session;
    this.#takeList(listed);
    return session;
  }

  onToolsChanged(listener: (tools: readonly Tool[]) => void): void {
    this.#listener = listener;
  }

  async close(): Promise<void> {
    this.#closing.abort(new AppError('tool_failed', { detail: `MCP server ${this.#config.mcpServer} was closed` }));
    // A session that is opening ends by the abort; its caller hears why.
    await Promise.allSettled([this.#reopening]);
    await this.#session?.close();
  }

  /**
   * A call that found the server gone is made once more with a new one, when that cannot do its work twice: the tool may be repeated,
   * or the server cannot have seen the call.
   */
  async #call(name: string, toolClass: ToolClass, input: unknown, context: ToolContext): Promise<unknown> {
    const callClass = stricterClass(toolClass, context.callClass ?? toolClass);
    const mayRepeat = callClass === 'pure' || callClass === 'idempotent';
    for (let isFirst = true; ; isFirst = false) {
      const session = await untilAborted(this.#living(), context.signal);
      try {
        const result = await session.call(name, input, context);
        this.#ends = 0;
        return readResult(result);
      } catch (error) {
        if (context.signal.aborted) throw context.signal.reason;
        if (error instanceof AppError) throw error;
        const wasUnseen = isUnseen(error);
        if (wasUnseen) this.#drop(session);
        if (!session.isGone()) throw new AppError('tool_failed', { detail: reasonOf(error), cause: error });
        // What was too large would be again.
        if (isFirst && session.tooLarge() === null && (mayRepeat || wasUnseen)) continue;
        throw this.#gone(session, mayRepeat || wasUnseen, error);
      }
    }
  }

  /** The session, or a new one after the wait that is due. Calls that come together share it. */
  #living(): Promise<McpSession> {
    this.#closing.signal.throwIfAborted();
    if (this.#session && !this.#session.isGone()) return Promise.resolve(this.#session);
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = undefined;
    });
    return this.#reopening;
  }

  async #reopen(): Promise<McpSession> {
    const wait = Math.min(RESTART_MS * 2 ** Math.max(this.#ends - 1, 0), RESTART_MS_MAX) - (Date.now() - this.#endedAt);
    this.#log.info({ mcpServer: this.#config.mcpServer, waitMs: Math.max(wait, 0) }, 'MCP server is gone; starting it again');
    await pause(wait, this.#closing.signal);
    try {
      return await this.open(this.#closing.signal);
    } catch (error) {
      this.#countEnd();
      throw error;
    }
  }

  #drop(session: McpSession): void {
    if (session.isGone()) return;
    session.drop();
    this.#noteEnd(session);
  }

  #noteEnd(session: McpSession): void {
    if (this.#session !== session || this.#closing.signal.aborted) return;
    this.#session = undefined;
    this.#countEnd();
  }

  #countEnd(): void {
    this.#ends += 1;
    this.#endedAt = Date.now();
  }

  /** One reading at a time; what changes meanwhile is read once more at the end, however often it changed. */
  #refresh(): void {
    this.#isListStale = true;
    this.#listing ??= this.#readList().finally(() => {
      this.#listing = undefined;
    });
  }

  async #readList(): Promise<void> {
    while (this.#isListStale && this.#session && !this.#session.isGone()) {
      this.#isListStale = false;
      try {
        this.#takeList(await this.#session.listTools(this.#timeoutMs));
      } catch (error) {
        this.#log.warn(
          { mcpServer: this.#config.mcpServer, reason: reasonOf(error) },
          'the changed tools of an MCP server could not be read',
        );
      }
    }
  }

  #takeList(listed: readonly ListedTool[]): void {
    if (this.#closing.signal.aborted) return;
    this.tools = toTools(this.#config, listed, (name, toolClass, input, context) => this.#call(name, toolClass, input, context));
    this.#listener?.(this.tools);
  }

  #gone(session: McpSession, isHarmless: boolean, cause: unknown): AppError {
    const outcome = isHarmless ? 'the call was not completed' : 'whether the call took effect is unknown';
    const tooLarge = session.tooLarge();
    const end =
      tooLarge === null ? 'ended during the call' : `was ended because its output was too large (${tooLarge}); ask for less or in parts`;
    return new AppError('tool_failed', { detail: `MCP server ${this.#config.mcpServer} ${end}; ${outcome}`, cause });
  }
}

/** Over HTTP: nobody listens, or the server does not know our session (any more). Either way the tool did not run. */
function isUnseen(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'TypeError' && error.cause instanceof Error && 'code' in error.cause) return error.cause.code === 'ECONNREFUSED';
  return error.message.startsWith('Streamable HTTP error') && 'code' in error && (error.code === 404 || error.code === 400);
}

/** @throws `signal.reason` */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await untilAborted(promise, signal);
  } finally {
    clearTimeout(timer);
  }
}
