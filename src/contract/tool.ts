import { z } from 'zod';
import { AgentName, Metadata, SessionId, ToolName } from './ids.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { WHOLE_WORKSPACE } from './scope.ts';

export const ToolClass = z.enum(['pure', 'idempotent', 'probe', 'unsafe']);
export type ToolClass = z.output<typeof ToolClass>;

/** Returns the class that allows fewer repetitions; classes are listed from the loosest to the strictest. */
export function stricterClass(a: ToolClass, b: ToolClass): ToolClass {
  return ToolClass.options.indexOf(a) > ToolClass.options.indexOf(b) ? a : b;
}

/** Longest deadline a tool call may ask for, in ms: that of the longest turn. */
export const TOOL_TIMEOUT_MS_MAX = 86_400_000;

export const ToolInfo = z.object({
  name: ToolName,
  description: z.string(),
  inputSchema: Metadata,
  class: ToolClass,
  origin: z.enum(['builtin', 'custom', 'mcp']),
  runBeforeGeneration: z.boolean(),
  needsApproval: z.boolean(),
  timeoutMs: z.int(),
  callback: z.string().optional(),
  mcpServer: z.string().optional(),
});
export type ToolInfo = z.output<typeof ToolInfo>;

/**
 * A tool that lives behind a URL: each call is one POST of `{name, input, callKey, sessionKey, sessionId, agent, project, daemonUrl}`, answered
 * with `{output}` or `{error}`.
 */
export const CallbackTool = z.strictObject({
  name: ToolName,
  description: z.string().max(4_096),
  inputSchema: Metadata,
  class: ToolClass.default('unsafe'),
  callback: z.strictObject({ url: z.url({ protocol: /^https?$/ }) }),
  runBeforeGeneration: z.boolean().optional(),
  needsApproval: z.boolean().optional(),
  timeoutMs: z.int().min(1).max(TOOL_TIMEOUT_MS_MAX).optional(),
});
export type CallbackTool = z.output<typeof CallbackTool>;

/** All tools of an MCP server, named `<mcpServer>_<tool>`. */
export const McpServer = z.strictObject({
  mcpServer: ToolName,
  command: z.string().min(1).optional(),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
  url: z.url({ protocol: /^https?$/ }).optional(),
  class: ToolClass.default('unsafe'),
  needsApproval: z.boolean().optional(),
  timeoutMs: z.int().min(1).max(TOOL_TIMEOUT_MS_MAX).optional(),
});
export type McpServer = z.output<typeof McpServer>;

export const ToolRegistration = z.union([CallbackTool, McpServer]);
export type ToolRegistration = z.output<typeof ToolRegistration>;

export const toolOperations = {
  listTools: defineOperation({
    id: 'listTools',
    method: 'GET',
    path: '/tools',
    scope: { agent: ['agent'], project: 'neutral' },
    tag: 'tools',
    role: 'readonly',
    summary: 'Registered tools, built in or added; of an agent, those its sessions may be offered.',
    input: z.strictObject({ agent: AgentName.optional() }),
    output: z.object({ tools: z.array(ToolInfo), count: z.int() }),
    errors: [],
    source: 'spec/native-runtime',
  }),
  registerTool: defineOperation({
    id: 'registerTool',
    method: 'POST',
    path: '/tools',
    scope: WHOLE_WORKSPACE,
    tag: 'tools',
    role: 'admin',
    summary: 'Register a tool behind a callback URL, or all tools of an MCP server. Stored; sessions see it from their next turn on.',
    input: ToolRegistration,
    output: z.object({ tools: z.array(ToolInfo) }),
    errors: ['tool_exists', 'tool_failed', 'invalid_request'],
    status: 201,
  }),
  callTool: defineOperation({
    id: 'callTool',
    method: 'POST',
    path: '/tools/:name',
    scope: { agent: 'owner', project: 'owner', sessions: ['sessionId'] },
    tag: 'tools',
    role: 'operator',
    summary: 'Run one tool directly. A failing tool is a 200 with isError, as the model would see it.',
    input: z.strictObject({
      name: ToolName,
      input: z.unknown().optional(),
      sessionId: SessionId.optional(),
      timeoutMs: wholeNumber(1, TOOL_TIMEOUT_MS_MAX).optional(),
    }),
    output: z.object({
      name: z.string(),
      output: z.unknown(),
      isError: z.boolean(),
      error: z.object({ code: z.string(), message: z.string() }).optional(),
      durationMs: z.number(),
    }),
    errors: ['tool_not_found', 'session_not_found'],
    source: 'spec/native-runtime',
  }),
  unregisterTool: defineOperation({
    id: 'unregisterTool',
    method: 'DELETE',
    path: '/tools/:name',
    scope: WHOLE_WORKSPACE,
    tag: 'tools',
    role: 'admin',
    summary: 'Remove a registered tool, or an MCP server with all its tools. Built-in tools stay.',
    input: z.strictObject({ name: ToolName }),
    output: z.object({ removed: z.array(z.string()) }),
    errors: ['tool_not_found', 'invalid_request'],
  }),
};
