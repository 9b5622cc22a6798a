import { z } from 'zod';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { Usage } from './provider.ts';
import { ONE_WORKFLOW, WHOLE_WORKSPACE } from './scope.ts';
import { PAGE_LIMIT, PAGE_LIMIT_MAX } from './session.ts';
import { Signal } from './signal.ts';
import {
  WORKFLOW_AGENTS_MAX,
  WorkflowAgentSource,
  WorkflowEndReason,
  WorkflowId,
  WorkflowName,
  WorkflowSource,
  WorkflowTimeout,
  workflowTerms,
} from './workflow.ts';

export const WorkflowStatus = z.enum(['running', 'terminating', 'ended', 'damaged']);
export type WorkflowStatus = z.output<typeof WorkflowStatus>;

/** What is wrong with a stored log, and at which signal. */
export const WorkflowDamage = z.object({ code: z.string(), seq: z.int(), message: z.string() });
export type WorkflowDamage = z.output<typeof WorkflowDamage>;

export const WorkflowSummary = z.object({
  id: WorkflowId,
  name: z.string(),
  status: WorkflowStatus,
  reason: WorkflowEndReason.nullable(),
  /** Null only when the first signal cannot be read. */
  startedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
  /** Of a damaged one. */
  damage: WorkflowDamage.optional(),
});
export type WorkflowSummary = z.output<typeof WorkflowSummary>;

export const WorkflowView = WorkflowSummary.extend({
  agents: z.array(z.string()),
  input: z.unknown(),
  state: z.record(z.string(), z.unknown()),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** Activations begun, and triggers that were refused. */
  activations: z.int(),
  skipped: z.int(),
  /** What runs now. */
  live: z.array(z.object({ activation: z.int(), agent: z.string(), session: z.string(), attempt: z.int(), startedAt: z.string() })),
  /** Triggers that wait, by agent. */
  waiting: z.record(z.string(), z.int()),
  usage: Usage,
  costUsd: z.number().nullable(),
  /** Newest signal of its stream. */
  seq: z.int(),
});
export type WorkflowView = z.output<typeof WorkflowView>;

const workflowId = { id: WorkflowId };
const { limits, state, endWhen, timeoutMs, project } = workflowTerms;
const tag = { tag: 'workflows' } as const;

export const workflowOperations = {
  runWorkflow: defineOperation({
    ...tag,
    id: 'runWorkflow',
    method: 'POST',
    path: '/workflows',
    scope: { agent: 'refused', project: ['project'] },
    role: 'operator',
    summary: 'Start a workflow: one of agent.yaml by its name, or agents given here. Fields given here win over those of agent.yaml.',
    input: z.strictObject({
      id: WorkflowId.optional(),
      /** Of agent.yaml, when no agents are given. */
      name: WorkflowName.optional(),
      agents: z.array(WorkflowAgentSource).min(1).max(WORKFLOW_AGENTS_MAX).optional(),
      input: z.unknown().optional(),
      state: state.unwrap().optional(),
      endWhen,
      timeoutMs: timeoutMs.unwrap().optional(),
      limits: limits.unwrap().optional(),
      project,
    }),
    output: WorkflowView,
    errors: [
      'workflow_not_found',
      'invalid_workflow',
      'invalid_expression',
      'invalid_pattern',
      'unknown_agent',
      'unknown_tool',
      'unknown_provider',
      'unknown_model',
      'id_conflict',
      'log_divergence',
      'too_many_workflows',
      'overloaded',
      'draining',
    ],
    status: 201,
  }),
  listWorkflows: defineOperation({
    ...tag,
    id: 'listWorkflows',
    method: 'GET',
    path: '/workflows',
    scope: WHOLE_WORKSPACE,
    role: 'readonly',
    summary: 'Workflows, the newest first.',
    input: z.strictObject({
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      cursor: z
        .string()
        .regex(/^\d{1,15}$/, 'must be the `next` of another page')
        .optional(),
    }),
    output: z.object({ items: z.array(WorkflowSummary), next: z.string().nullable() }),
    errors: [],
  }),
  getWorkflow: defineOperation({
    ...tag,
    id: 'getWorkflow',
    method: 'GET',
    path: '/workflows/:id',
    scope: ONE_WORKFLOW,
    role: 'readonly',
    summary: 'Status, state and running activations of one workflow.',
    input: z.strictObject(workflowId),
    output: WorkflowView,
    errors: ['workflow_not_found'],
  }),
  abortWorkflow: defineOperation({
    ...tag,
    id: 'abortWorkflow',
    method: 'DELETE',
    path: '/workflows/:id',
    scope: ONE_WORKFLOW,
    role: 'operator',
    summary:
      'Stop a workflow: the turns of its activations are cancelled. Answers when all has settled. With purge its log is forgotten as well, also a damaged one.',
    input: z.strictObject({ ...workflowId, purge: flag.optional(), reason: z.string().max(256).optional() }),
    output: WorkflowView,
    errors: ['workflow_not_found', 'draining'],
  }),
  listWorkflowEvents: defineOperation({
    ...tag,
    id: 'listWorkflowEvents',
    method: 'GET',
    path: '/workflows/:id/events',
    scope: ONE_WORKFLOW,
    role: 'readonly',
    summary: "A page of the workflow's own signals.",
    input: z.strictObject({
      ...workflowId,
      after: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      events: z.string().max(4_096).optional(),
    }),
    output: z.object({ items: z.array(Signal), next: z.int().nullable(), head: z.int() }),
    errors: ['workflow_not_found', 'invalid_pattern', 'log_divergence'],
  }),
  streamWorkflow: defineOperation({
    ...tag,
    id: 'streamWorkflow',
    method: 'GET',
    path: '/workflows/:id/stream',
    scope: ONE_WORKFLOW,
    role: 'readonly',
    summary:
      "The workflow's own signals as server-sent events: a snapshot, what came after the cursor, then live, until workflow:end. Resumes by Last-Event-ID.",
    input: z.strictObject({
      ...workflowId,
      after: z
        .string()
        .regex(/^\d{1,15}$/, 'must be a sequence number')
        .optional(),
      events: z.string().max(4_096).optional(),
      token: z.string().optional(),
    }),
    output: z.string(),
    errors: ['workflow_not_found', 'invalid_pattern', 'invalid_cursor', 'log_divergence'],
    stream: 'sse',
  }),
};

/** Of the daemon: what agent.yaml says of workflows. */
export const workflowConfigOperations = {
  workflowConfig: defineOperation({
    id: 'workflowConfig',
    method: 'GET',
    path: '/api/workflows',
    scope: WHOLE_WORKSPACE,
    tag: 'daemon',
    role: 'readonly',
    unknownFields: 'ignore',
    summary: 'Workflows of agent.yaml by name, each with its reactive agents, as the runtime starts them.',
    input: z.object({}),
    output: z.object({
      workflows: z.array(WorkflowSource),
      fault: z.string().nullable().describe('Why agent.yaml as it stands is not taken and the last good one holds'),
      problems: z.array(z.string()).describe('All that is wrong or odd with agent.yaml as it stands'),
    }),
    errors: [],
  }),
};

/** `workflows.<name>` in agent.yaml. */
export const WorkflowEntry = z.strictObject({
  agents: z.array(z.string()).min(1).max(WORKFLOW_AGENTS_MAX).describe('Agents of the roster that have `reactive`'),
  input: z.unknown().optional().describe('What `input` is when a run gives none'),
  ...workflowTerms,
  timeout: WorkflowTimeout.optional(),
});
export type WorkflowEntry = z.output<typeof WorkflowEntry>;
