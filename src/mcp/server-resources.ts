import { ErrorCode, type ListResourcesResult, McpError, type ReadResourceResult } from '@modelcontextprotocol/sdk/types.js';
import { agentFileOperations, type IdentityFileEntry } from '../contract/agent-files.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { isAppError } from '../core/errors.ts';
import type { DaemonCalls } from './server-caller.ts';

/** Of the MCP specification; the SDK has no name for it. */
const RESOURCE_NOT_FOUND = -32_002;
const MARKDOWN = 'text/markdown';
const ABOUT: Readonly<Record<string, string>> = {
  'AGENTS.md': 'How the agent works: its standing instructions',
  'SOUL.md': 'Character and tone of the agent',
  'IDENTITY.md': 'Name and role of the agent',
  'USER.md': 'What the agent knows of its user',
  'TOOLS.md': 'Notes on the tools of the agent',
  'MEMORY.md': 'What the agent remembers, in one page',
};

export function resourceUri(agentId: string, name: string): string {
  return `signet://agents/${agentId}/${name}`;
}

/** The identity files of the caller's agent, and its MEMORY.md. @throws McpError when the daemon does not answer */
export async function listResources(daemon: DaemonCalls): Promise<ListResourcesResult> {
  const { agentId, files } = await asked(() => daemon.call(agentFileOperations.identityFiles, { content: false }));
  return {
    resources: files.map(({ name, origin }) => ({
      uri: resourceUri(agentId, name),
      name,
      title: name,
      description: `${ABOUT[name] ?? 'A file of the agent'}${origin === 'workspace' && agentId !== DEFAULT_AGENT ? ' (shared by all agents)' : ''}`,
      mimeType: MARKDOWN,
    })),
  };
}

/** @throws McpError for a file that is not there or belongs to another agent */
export async function readResource(daemon: DaemonCalls, uri: string): Promise<ReadResourceResult> {
  const { agentId, files } = await asked(() => daemon.call(agentFileOperations.identityFiles, {}));
  const found: IdentityFileEntry | undefined = files.find(({ name }) => resourceUri(agentId, name) === uri);
  if (!found) throw new McpError(RESOURCE_NOT_FOUND, 'Resource not found; resources/list names those of this agent', { uri });
  return { contents: [{ uri, mimeType: MARKDOWN, text: found.content ?? '' }] };
}

/** Faults of the daemon in words of the protocol. */
async function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!isAppError(error)) throw error;
    const code = error.status < 500 ? ErrorCode.InvalidParams : ErrorCode.InternalError;
    throw new McpError(code, error.detail, { code: error.code });
  }
}
