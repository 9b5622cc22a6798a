import { z } from 'zod';
import { AgentName, Metadata } from './ids.ts';
import { defineOperation, flag } from './operation.ts';
import { ModelInfo, ProviderInfo, ProviderStatus } from './provider.ts';
import { sessionOperations } from './session-operations.ts';
import { toolOperations } from './tool.ts';
import { workflowOperations } from './workflow-operations.ts';

export const GraphNode = z.object({
  id: z.string(),
  parent: z.string().nullable(),
  key: z.string(),
  type: z.enum(['atomic', 'compound', 'parallel', 'final', 'history']),
  initial: z.string().nullable(),
  tags: z.array(z.string()),
  description: z.string().nullable(),
  entry: z.array(z.string()),
  exit: z.array(z.string()),
});
export type GraphNode = z.output<typeof GraphNode>;

export const GraphEdge = z.object({
  id: z.string(),
  source: z.string(),
  /** The source itself for an internal edge. */
  target: z.array(z.string()),
  event: z.string(),
  kind: z.enum(['event', 'always', 'done']),
  guard: z.string().nullable(),
  actions: z.array(z.string()),
  description: z.string().nullable(),
});
export type GraphEdge = z.output<typeof GraphEdge>;

export const MachineRef = z.object({ id: z.string(), version: z.string(), digest: z.string() });
export type MachineRef = z.output<typeof MachineRef>;

export const MachineGraph = MachineRef.extend({ nodes: z.array(GraphNode), edges: z.array(GraphEdge) });
export type MachineGraph = z.output<typeof MachineGraph>;

const machineId = { id: z.string().max(64) };
const runtime = { tag: 'runtime' } as const;

export const runtimeOperations = {
  ...sessionOperations,
  ...toolOperations,
  ...workflowOperations,
  listProviders: defineOperation({
    ...runtime,
    tag: 'providers',
    id: 'listProviders',
    method: 'GET',
    path: '/providers',
    role: 'readonly',
    summary: 'Configured model providers.',
    input: z.strictObject({}),
    output: z.object({ providers: z.array(ProviderInfo), default: z.string() }),
    errors: [],
    source: 'spec/native-runtime',
  }),
  providerStatus: defineOperation({
    ...runtime,
    tag: 'providers',
    id: 'providerStatus',
    method: 'GET',
    path: '/providers/:id/status',
    role: 'readonly',
    summary: 'Would a call reach the provider now?',
    input: z.strictObject({ id: z.string().max(128) }),
    output: ProviderStatus,
    errors: ['provider_not_found'],
    source: 'spec/native-runtime',
  }),
  listModels: defineOperation({
    ...runtime,
    tag: 'providers',
    id: 'listModels',
    method: 'GET',
    path: '/models',
    role: 'readonly',
    summary: 'Models of all providers with limits and prices as far as they are known.',
    input: z.strictObject({ provider: z.string().max(128).optional() }),
    output: z.object({ models: z.array(ModelInfo), count: z.int() }),
    errors: ['provider_not_found'],
  }),
  listMachines: defineOperation({
    ...runtime,
    tag: 'machines',
    id: 'listMachines',
    method: 'GET',
    path: '/machines',
    role: 'readonly',
    summary: 'Statecharts this server runs, with version and digest.',
    input: z.strictObject({}),
    output: z.object({ machines: z.array(MachineRef) }),
    errors: [],
  }),
  machineGraph: defineOperation({
    ...runtime,
    tag: 'machines',
    id: 'machineGraph',
    method: 'GET',
    path: '/machines/:id/graph',
    role: 'readonly',
    summary: 'All states and edges of a statechart, eventless edges, guards and actions included.',
    input: z.strictObject(machineId),
    output: MachineGraph,
    errors: ['machine_not_found'],
  }),
  machineMermaid: defineOperation({
    ...runtime,
    tag: 'machines',
    id: 'machineMermaid',
    method: 'GET',
    path: '/machines/:id/mermaid',
    role: 'readonly',
    summary: 'The statechart as a Mermaid stateDiagram-v2.',
    input: z.strictObject(machineId),
    output: z.string(),
    contentType: 'text/plain; charset=utf-8',
    errors: ['machine_not_found'],
  }),
  listRuntimeAgents: defineOperation({
    ...runtime,
    tag: 'agents',
    id: 'listRuntimeAgents',
    method: 'GET',
    path: '/agents',
    role: 'readonly',
    summary: 'Agents as the daemon knows them.',
    input: z.strictObject({}),
    output: z.object({ agents: z.array(z.looseObject({ name: AgentName })), count: z.int() }),
    errors: ['daemon_unreachable'],
  }),
  streamAll: defineOperation({
    ...runtime,
    tag: 'signals',
    id: 'streamAll',
    method: 'GET',
    path: '/events',
    role: 'readonly',
    summary:
      'Signals of all sessions as server-sent events, ids are log-wide (gseq). Resumes by Last-Event-ID; starts live without a cursor.',
    input: z.strictObject({
      after: z
        .string()
        .regex(/^\d{1,15}$/, 'must be a log-wide sequence number')
        .optional(),
      events: z.string().max(4_096).optional(),
      session: z.string().max(64).optional(),
      agent: AgentName.optional(),
      kind: z.string().max(64).optional(),
      deltas: flag.optional(),
      token: z.string().optional(),
    }),
    output: z.string(),
    errors: ['invalid_pattern', 'invalid_cursor'],
    stream: 'sse',
  }),
  socket: defineOperation({
    ...runtime,
    tag: 'signals',
    id: 'socket',
    method: 'GET',
    path: '/ws',
    role: 'readonly',
    summary: 'One WebSocket for many sessions: subscribe, prompt, abort, approve.',
    input: z.strictObject({ token: z.string().optional() }),
    output: z.string(),
    errors: [],
    stream: 'websocket',
  }),
  metrics: defineOperation({
    ...runtime,
    id: 'metrics',
    method: 'GET',
    path: '/metrics',
    role: 'readonly',
    summary: 'Sessions, turns, tokens, cost, latencies and restarts in the text format of Prometheus.',
    input: z.strictObject({}),
    output: z.string(),
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    errors: [],
  }),
  health: defineOperation({
    ...runtime,
    id: 'health',
    method: 'GET',
    path: '/health',
    role: 'readonly',
    summary: 'Health of the runtime and whether the daemon answers.',
    input: z.strictObject({}),
    output: z.object({
      status: z.enum(['healthy', 'degraded', 'draining']),
      /** Why it is degraded. */
      reasons: z.array(z.string()),
      version: z.string(),
      pid: z.int(),
      uptimeMs: z.number(),
      daemon: z.object({ url: z.string(), reachable: z.boolean() }),
      provider: z.string(),
      sessions: z.object({
        alive: z.int(),
        /** Put aside until somebody resumes them. */
        quarantined: z.int(),
        /** Restarted since the start because a state outlived its budget: a bug of this program. */
        stuck: z.int(),
        byState: z.record(z.string(), z.int()),
      }),
      /** Their logs were found damaged; they do not go on. */
      workflows: z.object({ damaged: z.int() }),
      eventLoopDelayMs: z.object({ p50: z.number(), p99: z.number() }),
      rssBytes: z.int(),
    }),
    errors: [],
    source: 'spec/native-runtime',
  }),
  healthLive: defineOperation({
    ...runtime,
    id: 'healthLive',
    method: 'GET',
    path: '/health/live',
    role: 'readonly',
    summary: 'The process answers.',
    input: z.strictObject({}),
    output: z.object({ status: z.literal('live') }),
    errors: [],
  }),
  healthReady: defineOperation({
    ...runtime,
    id: 'healthReady',
    method: 'GET',
    path: '/health/ready',
    role: 'readonly',
    summary: 'The runtime takes prompts; 503 while it drains.',
    input: z.strictObject({}),
    output: z.object({ status: z.literal('ready') }),
    errors: ['draining'],
  }),
  info: defineOperation({
    ...runtime,
    id: 'info',
    method: 'GET',
    path: '/info',
    role: 'readonly',
    summary: 'Version and configuration summary, without anything secret.',
    input: z.strictObject({}),
    output: z.object({
      name: z.literal('signet'),
      version: z.string(),
      node: z.string(),
      startedAt: z.string(),
      workspace: z.string(),
      daemonUrl: z.string(),
      provider: z.object({ id: z.string(), model: z.string(), origin: z.string(), offlineDemo: z.boolean() }),
      providers: z.array(z.string()),
      tools: z.array(z.string()),
      machines: z.array(MachineRef),
      limits: Metadata,
    }),
    errors: [],
    source: 'spec/native-runtime',
  }),
  runtimeOpenapi: defineOperation({
    ...runtime,
    id: 'runtimeOpenapi',
    method: 'GET',
    path: '/openapi.json',
    role: 'readonly',
    summary: 'This document.',
    input: z.strictObject({}),
    output: z.looseObject({ openapi: z.string() }),
    errors: [],
    source: 'spec/native-runtime',
  }),
};
export type RuntimeOperations = typeof runtimeOperations;
