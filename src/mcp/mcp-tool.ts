import { createHash } from 'node:crypto';
import type { Tool as ListedTool } from '@modelcontextprotocol/sdk/types.js';
import type { McpServer, ToolClass } from '../contract/tool.ts';
import type { Tool, ToolContext } from '../core/tool.ts';

/** Longest description of a tool in characters: every model call pays for it. */
const DESCRIPTION_CHARS_MAX = 4_096;
/** Longest tool name, as the contract has it. */
const NAME_CHARS_MAX = 64;
/** Hex characters of the hash that tells names apart. */
const HASH_CHARS = 6;

/** Runs one call of a tool under the name the server knows. */
export type CallListedTool = (name: string, toolClass: ToolClass, input: unknown, context: ToolContext) => Promise<unknown>;

/** The tools of a server under names of ours, sorted. The same list always gives the same names. */
export function toTools(config: McpServer, listed: readonly ListedTool[], call: CallListedTool): Tool[] {
  const taken = new Set<string>();
  const tools: Tool[] = [];
  for (const tool of [...listed].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const name = freeName(`${config.mcpServer}_${tool.name}`, taken);
    if (name === undefined) continue; // The same name twice in one list: the server can only mean one tool by it.
    taken.add(name);
    tools.push(toTool(config, name, tool, call));
  }
  return tools.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function toTool(config: McpServer, name: string, listed: ListedTool, call: CallListedTool): Tool {
  const toolClass = classOf(listed, config.class);
  return {
    name,
    description: (listed.description ?? listed.annotations?.title ?? listed.title ?? '').slice(0, DESCRIPTION_CHARS_MAX).toWellFormed(),
    inputSchema: listed.inputSchema,
    class: toolClass,
    origin: 'mcp',
    needsApproval: config.needsApproval,
    timeoutMs: config.timeoutMs,
    execute: (input, context) => call(listed.name, toolClass, input, context),
  };
}

/** What the server says of a tool goes before what is configured for all of them. */
function classOf({ annotations }: ListedTool, configured: ToolClass): ToolClass {
  if (annotations?.readOnlyHint === true) return 'pure';
  return annotations?.idempotentHint === true ? 'idempotent' : configured;
}

/** Characters we do not take become `_`; a name that is taken or too long ends in a hash of the whole. Undefined when even that is taken. */
function freeName(whole: string, taken: ReadonlySet<string>): string | undefined {
  const plain = whole.replace(/[^A-Za-z0-9_-]/g, '_');
  if (plain.length <= NAME_CHARS_MAX && !taken.has(plain)) return plain;
  const hash = createHash('sha256').update(whole).digest('hex').slice(0, HASH_CHARS);
  const hashed = `${plain.slice(0, NAME_CHARS_MAX - HASH_CHARS - 1)}_${hash}`;
  return taken.has(hashed) ? undefined : hashed;
}
