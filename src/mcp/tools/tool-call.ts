import { type CallToolResult, ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { checkInput } from '../../contract/input-check.ts';
import type { McpToolShape } from '../../contract/mcp-tool.ts';
import { MCP_TOOLS, type McpToolName, type McpTools } from '../../contract/mcp-tools.ts';
import type { Operation } from '../../contract/operation.ts';
import { NEUTRAL } from '../../contract/scope.ts';
import { isAppError, toProblem } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { DaemonCalls } from '../server-caller.ts';
import { agentTools } from './agents.ts';
import { memoryTools } from './memory.ts';
import type { McpToolHandlers } from './tool-handler.ts';
import { workspaceTools } from './workspace.ts';

type LooseHandler = (input: unknown, daemon: DaemonCalls) => Promise<Record<string, unknown>>;

const handlers: McpToolHandlers<McpTools> = { ...memoryTools, ...agentTools, ...workspaceTools };
/** Longest foreign name that is repeated in a message, in characters. */
const NAME_CHARS_SHOWN = 128;

export interface ToolCall {
  readonly name: string;
  readonly input: Readonly<Record<string, unknown>> | undefined;
}

/**
 * One `tools/call`. Whatever goes wrong with a tool that exists is a result the model can read and act on.
 *
 * @throws McpError invalid params for a tool that does not exist
 */
export async function callTool({ name, input = {} }: ToolCall, daemon: DaemonCalls, log: Logger): Promise<CallToolResult> {
  if (!isToolName(name)) {
    const known = Object.keys(MCP_TOOLS).join(', ');
    throw new McpError(ErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, NAME_CHARS_SHOWN)}; the tools are ${known}`);
  }
  const checked = checkInput(asOperation(name, MCP_TOOLS[name]), input);
  if (!checked.ok) return failed(name, `${checked.detail} (invalid_request)`);
  try {
    const answer = await (handlers[name] as LooseHandler)(checked.value, daemon);
    const { list } = MCP_TOOLS[name] as McpToolShape;
    return { content: [{ type: 'text', text: JSON.stringify(list === undefined ? answer : answer[list]) }], structuredContent: answer };
  } catch (error) {
    if (!isAppError(error) && !isAbort(error)) log.error({ tool: name, err: error }, 'an MCP tool failed by a fault of this server');
    const { detail, code } = toProblem(error);
    return failed(name, `${detail}${code === 'daemon_unreachable' ? ' Start it with: signet start' : ''} (${code})`);
  }
}

function isToolName(name: string): name is McpToolName {
  return Object.hasOwn(MCP_TOOLS, name);
}

/** The check of operations looks at no more of one than its input. */
function asOperation(id: string, { input, output }: McpToolShape): Operation {
  return { id, method: 'POST', path: '', summary: '', tag: '', role: 'readonly', scope: NEUTRAL, input, output, errors: [] };
}

/** The caller took it back or has gone: nobody reads the answer. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

function failed(name: string, reason: string): CallToolResult {
  return { content: [{ type: 'text', text: `${name} failed: ${reason}` }], isError: true };
}
