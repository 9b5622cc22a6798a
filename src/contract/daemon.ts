import { z } from 'zod';
import { agentFileOperations } from './agent-files.ts';
import { agentOperations } from './agents.ts';
import { RuntimeConfig } from './config.ts';
import { configOperations } from './config-operations.ts';
import { crossAgentOperations } from './cross-agent.ts';
import { daemonLogOperations } from './daemon-logs.ts';
import { documentOperations } from './documents.ts';
import { hookOperations } from './hooks.ts';
import { AskingAgent } from './ids.ts';
import { JobCounts, jobOperations } from './jobs.ts';
import { memoryOperations } from './memory.ts';
import { memoryLifecycleOperations } from './memory-lifecycle.ts';
import { defineOperation } from './operation.ts';
import { LINE, NEUTRAL } from './scope.ts';
import { secretOperations } from './secrets.ts';
import { synthesisOperations } from './synthesis.ts';
import { tokenOperations } from './tokens.ts';
import { transcriptOperations } from './transcript.ts';
import { BackgroundBudget, usageOperations } from './usage.ts';
import { workflowConfigOperations } from './workflow-operations.ts';

export const SessionClaim = z.object({
  key: z.string(),
  harness: z.string(),
  runtimePath: z.enum(['plugin', 'legacy']),
  agentId: z.string(),
  project: z.string().nullable(),
  /** Session that began this one, as told or as inferred for a sub-agent of a harness. */
  parentKey: z.string().nullable(),
  harnessAgentId: z.string().nullable(),
  claimedAt: z.string(),
  lastSeenAt: z.string(),
  expiresAt: z.string(),
  bypassed: z.boolean(),
});
export type SessionClaim = z.output<typeof SessionClaim>;

const existing = { unknownFields: 'ignore' } as const;

export const daemonOperations = {
  ...hookOperations,
  ...memoryOperations,
  ...transcriptOperations,
  ...jobOperations,
  ...agentOperations,
  ...synthesisOperations,
  ...memoryLifecycleOperations,
  ...daemonLogOperations,
  ...configOperations,
  ...workflowConfigOperations,
  ...crossAgentOperations,
  ...documentOperations,
  ...agentFileOperations,
  ...secretOperations,
  ...tokenOperations,
  ...usageOperations,
  daemonHealth: defineOperation({
    ...existing,
    id: 'daemonHealth',
    method: 'GET',
    path: '/health',
    scope: NEUTRAL,
    tag: 'daemon',
    role: 'readonly',
    summary: 'Is the daemon well? `status` is degraded when a store is not.',
    input: z.object({}),
    output: z.object({
      status: z.enum(['healthy', 'degraded']),
      /** Why it is degraded. */
      reasons: z.array(z.string()),
      /** Seconds since start. */
      uptime: z.number(),
      pid: z.int(),
      version: z.string(),
      port: z.int(),
      agentsDir: z.string(),
      /** The memory store answers, and its last write was not refused by the disk. */
      db: z.boolean(),
      /** Background jobs run, or their daily budget is spent and they wait until then. */
      background: z.object({ state: z.enum(['running', 'budget-spent']), resumesAt: z.string().nullable() }),
      shuttingDown: z.boolean(),
    }),
    errors: [],
    source: 'spec/native-runtime',
  }),
  daemonStatus: defineOperation({
    ...existing,
    id: 'daemonStatus',
    method: 'GET',
    path: '/api/status',
    scope: { agent: ['agentId'], project: ['project'] },
    tag: 'daemon',
    role: 'readonly',
    summary:
      'Version, paths, sizes and counts of the daemon; those of one agent (field or header `x-signet-agent-id`) or project alone when it is named.',
    input: z.object({ agentId: AskingAgent, project: z.string().max(4_096).optional() }),
    output: z.object({
      status: z.literal('running'),
      version: z.string(),
      pid: z.int(),
      uptime: z.number(),
      startedAt: z.string(),
      host: z.string(),
      port: z.int(),
      agentsDir: z.string(),
      memoryDb: z.string(),
      /** All there are, or those the agent may see. */
      memories: z.int(),
      /** The index of recall; while it is being built, full-text search answers. Its size is that of all agents, and absent for one. */
      index: z.object({ state: z.enum(['building', 'ready']), memories: z.int().optional() }),
      /** While memories of an existing daemon are being taken over: rows that were read, and all there are. */
      adoption: z.object({ read: z.int(), rows: z.int() }).optional(),
      embedding: z.object({
        provider: z.string(),
        model: z.string().nullable(),
        state: z.enum(['off', 'ready', 'failing']),
        /** Of all agents; absent for one. */
        vectors: z.int().optional(),
      }),
      activeSessions: z.int(),
      bypassedSessions: z.int(),
      /** Background work by state; what waits and what is dead can be seen at /api/jobs. Absent for a project: jobs know none. */
      jobs: JobCounts.optional(),
      /** What background jobs have spent of their daily budget; absent for one agent or project. */
      background: BackgroundBudget.optional(),
      config: z.object({ file: z.string().nullable(), problems: z.array(z.string()) }),
    }),
    errors: [],
  }),
  runtimeConfig: defineOperation({
    id: 'runtimeConfig',
    method: 'GET',
    path: '/api/config/runtime',
    scope: NEUTRAL,
    tag: 'daemon',
    role: 'agent',
    summary: 'The `runtime:` section of agent.yaml with its defaults, as the runtime reads it at start. Keys are named, never shown.',
    input: z.strictObject({}),
    output: RuntimeConfig,
    errors: ['config_invalid'],
    source: 'spec/native-runtime',
  }),
  listClaims: defineOperation({
    ...existing,
    id: 'listClaims',
    method: 'GET',
    path: '/api/sessions',
    scope: LINE,
    tag: 'sessions',
    role: 'readonly',
    summary: 'Sessions the daemon knows, of every harness, newest first.',
    input: z.object({ agentId: AskingAgent }),
    output: z.object({ sessions: z.array(SessionClaim), count: z.int() }),
    errors: [],
  }),
  getClaim: defineOperation({
    ...existing,
    id: 'getClaim',
    method: 'GET',
    path: '/api/sessions/:key',
    scope: { agent: 'owner', project: 'owner', keys: ['key'] },
    tag: 'sessions',
    role: 'readonly',
    summary: 'One session by its key; `session:<key>` is the same.',
    input: z.object({ key: z.string().min(1).max(600) }),
    output: SessionClaim,
    errors: ['session_not_found'],
  }),
  setBypass: defineOperation({
    ...existing,
    id: 'setBypass',
    method: 'POST',
    path: '/api/sessions/:key/bypass',
    scope: { agent: 'owner', project: 'owner', keys: ['key'] },
    tag: 'sessions',
    role: 'operator',
    summary: 'Silence all hooks of one session, or let them speak again. Tools keep working.',
    input: z.object({ key: z.string().min(1).max(600), enabled: z.boolean({ error: 'enabled (boolean) is required' }) }),
    output: z.object({ key: z.string(), bypassed: z.boolean() }),
    errors: ['session_not_found'],
    source: 'spec/mcp-server',
  }),
  daemonOpenapi: defineOperation({
    id: 'daemonOpenapi',
    method: 'GET',
    path: '/openapi.json',
    scope: NEUTRAL,
    tag: 'daemon',
    role: 'readonly',
    summary: 'This document.',
    input: z.object({}),
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
  }),
};
export type DaemonOperations = typeof daemonOperations;
