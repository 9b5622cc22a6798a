import type { McpServer } from '../contract/tool.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { ConnectMcp, McpConnection } from '../core/mcp-connection.ts';
import type { Tool } from '../core/tool.ts';
import type { ToolRegistry } from './tool-registry.ts';

/** First wait before a server that is away is tried again, in ms; doubles with each attempt. */
const RETRY_MS = 1_000;
/** Longest of these waits, in ms. */
const RETRY_MS_MAX = 60_000;
/**
 * Deadline for start, handshake and the list of tools together, in ms; `npx` may have to fetch a package first. It doubles with each attempt: a
 * server that is slow because the machine is, is not ended at the same point again and again.
 */
const CONNECT_TIMEOUT_MS = 30_000;
/** Longest of these deadlines, in ms. */
const CONNECT_TIMEOUT_MS_MAX = 600_000;

export interface ServerLinkDeps {
  readonly registry: ToolRegistry;
  readonly connectMcp: ConnectMcp;
  readonly log: Logger;
  /** First wait in ms before a server that is away is tried again; RETRY_MS when absent. */
  readonly retryMs?: number;
}

/** An MCP server that was registered, whether it answers now or not, and its tools in the registry. */
export interface ServerLink {
  readonly config: McpServer;
  /** Names of its tools that are registered now. */
  toolNames(): string[];
  /** It has answered since this process began, so what it does not list it does not have. */
  readonly hasConnected: boolean;
  /** Resolves when it has answered for the first time, or is closed. */
  readonly connected: Promise<void>;
  /** Resolves when the first attempt to reach it is over, well or not. */
  readonly tried: Promise<void>;
  /**
   * Connect now and register all its tools, or none.
   *
   * @throws AppError what connecting throws; `tool_exists` or `invalid_request` for a tool that cannot be registered
   */
  open(): Promise<void>;
  /** Connect in the background, again and again until it works or the link is closed; tools that cannot be registered are left out. */
  keepTrying(): void;
  /** Takes its tools out at once and ends the server. Never throws. */
  close(): Promise<void>;
}

export function createServerLink(deps: ServerLinkDeps, config: McpServer): ServerLink {
  return new Link(deps, config);
}

class Link implements ServerLink {
  readonly config: McpServer;
  readonly #deps: ServerLinkDeps;
  readonly #closing = new AbortController();
  readonly #names = new Set<string>();
  readonly #connected = Promise.withResolvers<void>();
  readonly #tried = Promise.withResolvers<void>();
  hasConnected = false;
  #connection: McpConnection | undefined;
  #trying: Promise<void> = Promise.resolve();

  constructor(deps: ServerLinkDeps, config: McpServer) {
    this.#deps = deps;
    this.config = config;
  }

  get connected(): Promise<void> {
    return this.#connected.promise;
  }

  get tried(): Promise<void> {
    return this.#tried.promise;
  }

  toolNames(): string[] {
    return [...this.#names].sort();
  }

  async open(): Promise<void> {
    const opened = await this.#connect();
    try {
      for (const tool of opened.tools) this.#add(tool);
    } catch (error) {
      this.#removeAll();
      await opened.close();
      throw error;
    }
    this.#noteConnected();
    opened.onToolsChanged((tools) => this.#replaceAll(tools));
  }

  keepTrying(): void {
    const { mcpServer } = this.config;
    this.#trying = retry(this.#deps, this.config, this.#closing.signal, async (attempt) => {
      const opened = await this.#connect(attempt).finally(this.#tried.resolve);
      this.#replaceAll(opened.tools);
      this.#noteConnected();
      opened.onToolsChanged((tools) => this.#replaceAll(tools));
      this.#deps.log.info({ mcpServer, tools: this.#names.size }, 'MCP server connected');
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new AppError('tool_failed', { detail: `MCP server ${this.config.mcpServer} was removed` }));
    this.#removeAll();
    this.#tried.resolve();
    this.#connected.resolve();
    await this.#trying;
    await this.#connection?.close();
  }

  #noteConnected(): void {
    this.hasConnected = true;
    this.#tried.resolve();
    this.#connected.resolve();
  }

  async #connect(attempt = 0): Promise<McpConnection> {
    const { signal } = this.#closing;
    const timeoutMs = Math.min(CONNECT_TIMEOUT_MS * 2 ** attempt, CONNECT_TIMEOUT_MS_MAX);
    const opened = await this.#deps.connectMcp(this.config, { log: this.#deps.log, signal, timeoutMs });
    if (signal.aborted) {
      await opened.close();
      throw signal.reason;
    }
    this.#connection = opened;
    return opened;
  }

  /** In one tick: nobody sees the registry without the tools that stay. */
  #replaceAll(tools: readonly Tool[]): void {
    if (this.#closing.signal.aborted) return;
    this.#removeAll();
    for (const tool of tools) {
      try {
        this.#add(tool);
      } catch (error) {
        // Whatever a stranger's tool brings up, the others must come.
        const fields = { mcpServer: this.config.mcpServer, tool: tool.name, reason: reasonOf(error) };
        this.#deps.log.warn(fields, 'a tool of an MCP server is left out');
      }
    }
  }

  #add(tool: Tool): void {
    this.#deps.registry.register(tool, { mcpServer: this.config.mcpServer });
    this.#names.add(tool.name);
  }

  #removeAll(): void {
    for (const name of this.#names) this.#deps.registry.unregister(name);
    this.#names.clear();
  }
}

/** Until `attempt` works or `signal` aborts. Never throws. */
async function retry(
  { log, retryMs = RETRY_MS }: ServerLinkDeps,
  config: McpServer,
  signal: AbortSignal,
  attempt: (count: number) => Promise<void>,
) {
  for (let [wait, count] = [retryMs, 0]; !signal.aborted; wait = Math.min(wait * 2, RETRY_MS_MAX), count += 1) {
    try {
      return await attempt(count);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ mcpServer: config.mcpServer, reason: reasonOf(error), retryMs: wait }, 'MCP server is away; trying again later');
    }
    await pause(wait, signal);
  }
}

/** Resolves after `ms`, or at the abort. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (signal.aborted) return Promise.resolve();
  const end = (): void => {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    resolve();
  };
  const timer = setTimeout(end, ms);
  signal.addEventListener('abort', end, { once: true });
  return promise;
}

function reasonOf(error: unknown): string {
  if (isAppError(error)) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
