import { z } from 'zod';
import { AgentLimits, RuntimeConfig } from './config.ts';
import { configOperations } from './config-operations.ts';
import { daemonLogOperations } from './daemon-logs.ts';
import { hookOperations } from './hooks.ts';
import { AgentName } from './ids.ts';
import { JobCounts, jobOperations } from './jobs.ts';
import { memoryOperations } from './memory.ts';
import { memoryLifecycleOperations } from './memory-lifecycle.ts';
import { defineOperation } from './operation.ts';
import { synthesisOperations } from './synthesis.ts';
import { transcriptOperations } from './transcript.ts';
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
  ...synthesisOperations,
  ...memoryLifecycleOperations,
  ...daemonLogOperations,
  ...configOperations,
  ...workflowConfigOperations,
  daemonHealth: defineOperation({
    ...existing,
    id: 'daemonHealth',
    method: 'GET',
    path: '/health',
    tag: 'daemon',
    role: 'readonly',
    summary: 'Is the daemon well? `status` is degraded when a store is not.',
    input: z.object({}),
    output: z.object({
      status: z.enum(['healthy', 'degraded']),
      /** Seconds since start. */
      uptime: z.number(),
      pid: z.int(),
      version: z.string(),
      port: z.int(),
      agentsDir: z.string(),
      db: z.boolean(),
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
    tag: 'daemon',
    role: 'readonly',
    summary: 'Version, paths, sizes and counts of the daemon.',
    input: z.object({}),
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
      memories: z.int(),
      /** The index of recall; while it is being built, full-text search answers. */
      index: z.object({ state: z.enum(['building', 'ready']), memories: z.int() }),
      embedding: z.object({
        provider: z.string(),
        model: z.string().nullable(),
        state: z.enum(['off', 'ready', 'failing']),
        vectors: z.int(),
      }),
      activeSessions: z.int(),
      bypassedSessions: z.int(),
      /** Background work by state; what waits and what is dead can be seen at /api/jobs. */
      jobs: JobCounts,
      config: z.object({ file: z.string().nullable(), problems: z.array(z.string()) }),
    }),
    errors: [],
  }),
  runtimeConfig: defineOperation({
    id: 'runtimeConfig',
    method: 'GET',
    path: '/api/config/runtime',
    tag: 'daemon',
    role: 'agent',
    summary: 'The `runtime:` section of agent.yaml with its defaults, as the runtime reads it at start. Keys are named, never shown.',
    input: z.strictObject({}),
    output: RuntimeConfig,
    errors: ['config_invalid'],
    source: 'spec/native-runtime',
  }),
  listAgents: defineOperation({
    ...existing,
    id: 'listAgents',
    method: 'GET',
    path: '/api/agents',
    tag: 'agents',
    role: 'readonly',
    summary: 'Agents with a folder or a place in the roster; `default` is always there.',
    input: z.object({}),
    output: z.object({
      agents: z.array(
        z.object({
          name: AgentName,
          model: z.string().optional(),
          provider: z.string().optional(),
          limits: AgentLimits.optional(),
          source: z.string(),
        }),
      ),
      count: z.int(),
    }),
    errors: [],
    source: 'spec/multi-agent',
  }),
  listClaims: defineOperation({
    ...existing,
    id: 'listClaims',
    method: 'GET',
    path: '/api/sessions',
    tag: 'sessions',
    role: 'readonly',
    summary: 'Sessions the daemon knows, of every harness, newest first.',
    input: z.object({ agentId: AgentName.optional() }),
    output: z.object({ sessions: z.array(SessionClaim), count: z.int() }),
    errors: [],
  }),
  getClaim: defineOperation({
    ...existing,
    id: 'getClaim',
    method: 'GET',
    path: '/api/sessions/:key',
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
    tag: 'daemon',
    role: 'readonly',
    summary: 'This document.',
    input: z.object({}),
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
  }),
};
export type DaemonOperations = typeof daemonOperations;
