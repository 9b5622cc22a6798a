import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { toJsonSchema } from '../../contract/json-schema.ts';
import { argumentsSchema } from '../../contract/mcp-tool.ts';
import { MCP_TOOLS } from '../../contract/mcp-tools.ts';

/** What `tools/list` answers. Made once: the schemas cost more than all the rest of such a request. */
let listed: Tool[] | undefined;

export function listedTools(): Tool[] {
  listed ??= Object.entries(MCP_TOOLS).map(([name, { title, description, input, output, hints }]) => ({
    name,
    title,
    description,
    inputSchema: argumentsSchema(input) as Tool['inputSchema'],
    outputSchema: toJsonSchema(output, 'output') as Tool['outputSchema'],
    annotations: { title, ...hints },
  }));
  return listed;
}
