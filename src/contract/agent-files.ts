import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { ONE_AGENT } from './scope.ts';

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

export type Skill = z.output<typeof Skill>;

/** One page of what a skill says; unit of lengths: characters. */
export const SkillBody = Skill.extend({
  content: z.string(),
  /** Length of the whole text. */
  total: z.int(),
  /** `offset` of the next page; null at the end. */
  next: z.int().nullable(),
});
export type SkillBody = z.output<typeof SkillBody>;

export const agentFileOperations = {
  identityFiles: defineOperation({
    ...reading,
    id: 'identityFiles',
    path: '/api/identity/files',
    scope: ONE_AGENT,
    summary: 'The identity files of an agent and its MEMORY.md, as its sessions begin with them; absent and empty ones are left out.',
    input: z.object({ agentId: AskingAgent, content: flag.default(true) }),
    output: z.object({ agentId: z.string(), name: z.string().nullable(), files: z.array(IdentityFileEntry) }),
    errors: [],
  }),
  listSkills: defineOperation({
    ...reading,
    id: 'listSkills',
    path: '/api/skills',
    scope: ONE_AGENT,
    summary: 'Skills in `skills/` of the workspace that an agent may use: all of them, unless the roster names some.',
    input: z.object({ agentId: AskingAgent }),
    output: z.object({ skills: z.array(Skill), count: z.int() }),
    errors: [],
    source: 'spec/mcp-server',
  }),
  getSkill: defineOperation({
    ...reading,
    id: 'getSkill',
    path: '/api/skills/:name',
    scope: ONE_AGENT,
    summary: 'What a skill says, page by page: its SKILL.md. Only of skills the agent may use.',
    input: z.object({ name: z.string().min(1).max(256), offset: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0), agentId: AskingAgent }),
    output: SkillBody,
    errors: ['skill_not_found', 'payload_too_large'],
    source: 'spec/multi-agent',
  }),
};
