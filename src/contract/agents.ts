import { z } from 'zod';
import { NewAgentName, PolicyGroup, ReadPolicy } from './agent-config.ts';
import { AgentLimits } from './config.ts';
import { GenerationFields } from './generation.ts';
import { CutFile } from './hooks.ts';
import { AgentName } from './ids.ts';
import { defineOperation, flag } from './operation.ts';
import { NEUTRAL, WHOLE_WORKSPACE } from './scope.ts';

/** Text of a SOUL.md that is handed in, in characters. */
export const SOUL_CHARS_MAX = 32_768;
/** Skills an agent may be allowed. */
const SKILLS_MAX = 1_000;

export const AgentListing = z.object({
  /** The same as `name`. */
  id: AgentName,
  name: AgentName,
  /** `built-in`, `roster`, or `folder` for one that has a folder alone. */
  source: z.string(),
  /** It has a folder `agents/<name>`. */
  folder: z.boolean(),
  model: z.string().optional(),
  provider: z.string().optional(),
  ...GenerationFields,
  limits: AgentLimits.optional(),
  /** What it may use of the skills of the workspace. */
  skills: z.array(z.string()),
  read_policy: ReadPolicy,
  policy_group: z.string().nullable(),
});
export type AgentListing = z.output<typeof AgentListing>;

export const AgentIdentityFile = z.object({
  name: z.string(),
  /** `agent` overrides, `workspace` is inherited. */
  origin: z.enum(['agent', 'workspace']),
  /** Within the workspace. */
  path: z.string(),
  content: z.string(),
});

export const AgentDetail = AgentListing.extend({
  identity: z.object({
    /** What it calls itself; null when nothing says so. */
    name: z.string().nullable(),
    description: z.string().nullable(),
    files: z.array(AgentIdentityFile),
    /** Files that neither the agent nor the workspace has. */
    missing: z.array(z.string()),
    /** Files a session may begin without a part of, by who gets them. `given` holds when all else in the inject is as long as it may be. */
    cuts: z.array(CutFile.extend({ receiver: z.string() })),
  }),
  /** As the roster has it; null means all. */
  skills_allowed: z.array(z.string()).nullable(),
  /** Living memories by scope. */
  memories: z.object({ global: z.int(), private: z.int(), archived: z.int() }),
  /** What is odd about it but keeps nothing from working. */
  warnings: z.array(z.string()),
});
export type AgentDetail = z.output<typeof AgentDetail>;

const agents = { tag: 'agents', unknownFields: 'ignore', source: 'spec/multi-agent' } as const;

export const agentOperations = {
  listAgents: defineOperation({
    ...agents,
    id: 'listAgents',
    method: 'GET',
    path: '/api/agents',
    scope: NEUTRAL,
    role: 'readonly',
    summary: 'Agents with a folder or a place in the roster; `default` is always there.',
    input: z.object({}),
    output: z.object({
      agents: z.array(AgentListing),
      count: z.int(),
      /** Folders below agents/ that are no agents, and why. */
      problems: z.array(z.string()),
    }),
    errors: [],
  }),
  getAgent: defineOperation({
    ...agents,
    id: 'getAgent',
    method: 'GET',
    path: '/api/agents/:name',
    scope: { agent: ['name'], project: 'refused' },
    role: 'readonly',
    summary: 'One agent: its identity files, inherited or its own, its skills, and how many memories it has.',
    input: z.object({ name: AgentName }),
    output: AgentDetail,
    errors: ['agent_not_found'],
  }),
  createAgent: defineOperation({
    ...agents,
    id: 'createAgent',
    method: 'POST',
    path: '/api/agents',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary:
      'Set an agent up: its folder with SOUL.md and IDENTITY.md, files that are there stay, and its place in the roster of agent.yaml.',
    input: z.object({
      name: NewAgentName,
      /** Text of SOUL.md; a template when left out. */
      soul: z.string().trim().min(1).max(SOUL_CHARS_MAX).optional(),
      model: z.string().min(1).max(256).optional(),
      provider: z.string().min(1).max(256).optional(),
      /** Left out means all, an empty list none. */
      skills: z.array(z.string().min(1).max(256)).max(SKILLS_MAX).optional(),
      read_policy: ReadPolicy.optional(),
      policy_group: PolicyGroup.optional(),
      /** False leaves agent.yaml alone. */
      roster: flag.default(true),
    }),
    output: AgentDetail.extend({ created: z.array(z.string()) }),
    status: 201,
    errors: ['agent_exists', 'config_invalid', 'workspace_unwritable', 'storage_failed'],
  }),
  deleteAgent: defineOperation({
    ...agents,
    id: 'deleteAgent',
    method: 'DELETE',
    path: '/api/agents/:name',
    scope: { agent: ['name'], project: 'refused' },
    role: 'operator',
    summary:
      'Take an agent out of the roster. Its memories are archived and its folder stays; with purge memories, transcripts and folder are deleted for good.',
    input: z.object({
      name: AgentName,
      purge: flag.default(false),
      /** Delete the folder, also without purge. */
      folder: flag.default(false),
    }),
    output: z.object({
      success: z.literal(true),
      name: z.string(),
      /** Memories that were archived. */
      archived: z.int(),
      /** Memories that were deleted for good. */
      purged: z.int(),
      /** It stood in the roster. */
      roster: z.boolean(),
      /** Its folder was deleted. */
      folder: z.boolean(),
    }),
    errors: ['agent_not_found', 'agent_protected', 'config_invalid', 'workspace_unwritable', 'storage_failed'],
  }),
};
