import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { defineOperation, flag } from './operation.ts';

/** Files that say who an agent is and what it may do. */
const reading = { method: 'GET', tag: 'agents', role: 'readonly', unknownFields: 'ignore' } as const;

export const IdentityFileEntry = z.object({
  name: z.string(),
  /** The agent's own folder, or the workspace for all agents. */
  origin: z.enum(['agent', 'workspace']),
  /** Changes with the text. */
  hash: z.string(),
  /** Left out when it was not asked for. */
  content: z.string().optional(),
});
export type IdentityFileEntry = z.output<typeof IdentityFileEntry>;

export const Skill = z.object({
  name: z.string(),
  description: z.string(),
  /** Below the workspace. */
  path: z.string(),
});

export const agentFileOperations = {
  identityFiles: defineOperation({
    ...reading,
    id: 'identityFiles',
    path: '/api/identity/files',
    summary: 'The identity files of an agent and its MEMORY.md, as its sessions begin with them; absent and empty ones are left out.',
    input: z.object({ agentId: AskingAgent, content: flag.default(true) }),
    output: z.object({ agentId: z.string(), name: z.string().nullable(), files: z.array(IdentityFileEntry) }),
    errors: [],
  }),
  listSkills: defineOperation({
    ...reading,
    id: 'listSkills',
    path: '/api/skills',
    summary: 'Skills in `skills/` of the workspace that an agent may use: all of them, unless the roster names some.',
    input: z.object({ agentId: AskingAgent }),
    output: z.object({ skills: z.array(Skill), count: z.int() }),
    errors: [],
    source: 'spec/mcp-server',
  }),
};
