import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';

export const SIGNET_MCP = fileURLToPath(new URL('../../bin/signet-mcp.js', import.meta.url));
/** How long a test waits for an answer; the machine may be busy; unit: milliseconds. */
const ANSWER_TIMEOUT_MS = 60_000;

/** Tools whose text is the list alone. */
const LISTS: Readonly<Record<string, string>> = { memory_search: 'results', memory_list: 'memories' };

export interface McpConnection {
  readonly client: Client;
  /** `structuredContent` of a call that must succeed; checked against the tool's outputSchema by the SDK. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are looked at field by field, by tests alone.
  call(name: string, input?: Record<string, unknown>): Promise<any>;
  /** Text of a call that must fail as a tool error. */
  refusal(name: string, input?: Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

/** The SDK's own client over Streamable HTTP. */
export async function connectHttp(daemonUrl: string, headers: Readonly<Record<string, string>> = {}): Promise<McpConnection> {
  const client = new Client({ name: 'test', version: '1.0' });
  const transport = new StreamableHTTPClientTransport(new URL(`${daemonUrl}/mcp`), { requestInit: { headers: { ...headers } } });
  return open(client, transport as Parameters<Client['connect']>[0]);
}

/** The SDK's own client with `signet-mcp` as a process of its own. */
export async function connectStdio(env: Readonly<Record<string, string>>): Promise<McpConnection> {
  const client = new Client({ name: 'test', version: '1.0' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [SIGNET_MCP],
    env: { PATH: process.env.PATH ?? '', ...env },
    stderr: 'inherit',
  });
  return open(client, transport);
}

async function open(client: Client, transport: Parameters<Client['connect']>[0]): Promise<McpConnection> {
  await client.connect(transport, { timeout: ANSWER_TIMEOUT_MS });
  // From here on the client checks every structured answer against the schema of its tool.
  await client.listTools(undefined, { timeout: ANSWER_TIMEOUT_MS });
  const ask = async (name: string, input: Record<string, unknown> = {}) =>
    (await client.callTool({ name, arguments: input }, undefined, { timeout: ANSWER_TIMEOUT_MS })) as CallToolResult;
  return {
    client,
    async call(name, input) {
      const result = await ask(name, input);
      if (result.isError) throw new Error(textOf(result));
      const list = LISTS[name];
      const told = list === undefined ? result.structuredContent : result.structuredContent?.[list];
      if (JSON.stringify(told) !== textOf(result)) throw new Error(`${name}: text and structuredContent differ`);
      return result.structuredContent;
    },
    async refusal(name, input) {
      const result = await ask(name, input);
      if (!result.isError) throw new Error(`${name} did not fail: ${textOf(result)}`);
      return textOf(result);
    },
    close: () => client.close(),
  };
}

function textOf({ content }: CallToolResult): string {
  const [part] = content;
  return part?.type === 'text' ? part.text : '';
}
