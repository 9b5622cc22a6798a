import type { McpToolInput, McpToolOutput, McpToolShape } from '../../contract/mcp-tool.ts';
import type { DaemonCalls } from '../server-caller.ts';

/** Turns checked arguments into calls of operations; what it answers becomes `structuredContent`. Throws AppError for what failed. */
export type McpToolHandler<T extends McpToolShape> = (
  input: McpToolInput<T>,
  daemon: DaemonCalls,
) => Promise<McpToolOutput<T> & Record<string, unknown>>;

export type McpToolHandlers<T extends Readonly<Record<string, McpToolShape>>> = { readonly [Name in keyof T]: McpToolHandler<T[Name]> };
