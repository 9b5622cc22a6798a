import type { McpServer } from '../contract/tool.ts';
import type { Logger } from './logger.ts';
import type { Tool } from './tool.ts';

/** An MCP server whose tools can be called. The holder closes it; a server that dies is started again by the next call. */
export interface McpConnection {
  /** The server's tools as of now, sorted by name; a new list stands here before listeners hear of it. */
  readonly tools: readonly Tool[];
  /** Called with the new list after the server said that it changed, or came back with another. One listener: a second replaces the first. */
  onToolsChanged(listener: (tools: readonly Tool[]) => void): void;
  /** Ends the server's process and all it started. May be called again; never throws. */
  close(): Promise<void>;
}

/**
 * Start or reach an MCP server and read its list of tools. The signal ends the attempt, not the connection.
 *
 * @throws AppError `tool_failed` (not reached, not MCP), `timeout` (no answer in time), `invalid_request` (neither command nor url, or both);
 *   `signal.reason` when the signal aborts
 */
export type ConnectMcp = (config: McpServer, options: ConnectOptions) => Promise<McpConnection>;

export interface ConnectOptions {
  readonly log: Logger;
  readonly signal: AbortSignal;
  /** Deadline for start, handshake and the list of tools together, in ms. */
  readonly timeoutMs: number;
}
