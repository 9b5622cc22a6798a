import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { defineOperation, wholeNumber } from './operation.ts';

/**
 * What a call of a provider was for: a turn of a session, a turn of a workflow's activation, the summary of a compaction, one of the
 * background jobs, vectors for recall, or a call that names no purpose.
 */
export const UsagePurpose = z.enum([
  'chat',
  'workflow',
  'compaction',
  'extraction',
  'continuity',
  'condensation',
  'synthesis',
  'embedding',
  'other',
]);
export type UsagePurpose = z.output<typeof UsagePurpose>;

export const USAGE_ROWS_MAX = 1_000;
const USAGE_ROWS = 100;

/** What rows may be summed by. */
export const UsageKey = z.enum(['day', 'purpose', 'agent', 'session', 'workflow', 'provider', 'model']);
export type UsageKey = z.output<typeof UsageKey>;

const Day = z.string().regex(/^\d{4}-\d{2}-\d{2}$/, 'must be a day such as 2026-11-22');
const count = z.int().min(0);

export const UsageCounts = z.object({
  /** Requests that were sent, also those that failed, were stopped or run now. */
  calls: count,
  /** Of them: those that asked again after one that failed. */
  retries: count,
  /** Of them: those that failed, were stopped by us, ended with the process that made them, or run now. */
  failed: count,
  aborted: count,
  interrupted: count,
  open: count,
  /** All input, the cached part included. */
  inputTokens: count,
  outputTokens: count,
  cacheReadTokens: count,
  cacheWriteTokens: count,
  /** Calls whose tokens the provider did not tell, or not all of them: what is missing is estimated by the length of the texts. */
  estimated: count,
  /** US dollars, of the calls with a known price. */
  costUsd: z.number().min(0),
  /** Calls that used tokens and have no known price. */
  unpriced: count,
});
export type UsageCounts = z.output<typeof UsageCounts>;

export const UsageRow = UsageCounts.extend({
  day: z.string().optional(),
  purpose: UsagePurpose.optional(),
  agent: z.string().optional(),
  /** Key of the session; empty for work that is no session's. */
  session: z.string().optional(),
  workflow: z.string().optional(),
  provider: z.string().optional(),
  model: z.string().optional(),
});
export type UsageRow = z.output<typeof UsageRow>;

/** The daily budget of background work. Days are those of UTC. */
export const BackgroundBudget = z.object({
  day: z.string(),
  spentUsd: z.number(),
  dailyUsd: z.number(),
  spentTokens: count,
  dailyTokens: count,
  /** Background jobs wait for the next day. */
  met: z.boolean(),
  /** When they go on; null while the budget is not met. */
  resumesAt: z.string().nullable(),
});
export type BackgroundBudget = z.output<typeof BackgroundBudget>;

export const usageOperations = {
  usage: defineOperation({
    id: 'usage',
    method: 'GET',
    path: '/api/usage',
    tag: 'usage',
    role: 'readonly',
    scope: { agent: ['agentId'], project: 'owner', keys: ['sessionKey'] },
    unknownFields: 'ignore',
    summary:
      'Calls of model and embedding providers with tokens and cost, summed by day, purpose, agent, session, workflow, provider or model.',
    input: z.object({
      /** What the rows are summed by, separated by commas; `day,purpose` when left out. */
      by: z.string().max(200).optional(),
      /** First and last day, both included; today when left out. */
      from: Day.optional(),
      to: Day.optional(),
      agentId: AskingAgent,
      sessionKey: z.string().max(600).optional(),
      purpose: UsagePurpose.optional(),
      limit: wholeNumber(1, USAGE_ROWS_MAX).default(USAGE_ROWS),
    }),
    output: z.object({
      from: z.string(),
      to: z.string(),
      /** Dearest first. */
      rows: z.array(UsageRow),
      /** There are more rows than `limit`. */
      more: z.boolean(),
      /** Over all rows, also those that are not shown. */
      total: UsageCounts,
      /** Absent for a token of one agent or project. */
      budget: BackgroundBudget.optional(),
    }),
    errors: ['invalid_request'],
  }),
};
