import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { WHOLE_WORKSPACE } from './scope.ts';

/**
 * Work the daemon does in the background, with a model: facts and a summary of what a session said, how well it was served by its memories,
 * summaries of summaries, MEMORY.md.
 */
export const JobKind = z.enum(['extraction', 'continuity', 'condensation', 'synthesis']);
export type JobKind = z.output<typeof JobKind>;

/** `waiting` waits for a provider or for its next attempt, `dead` has used up its attempts and waits for a person. */
export const JobState = z.enum(['queued', 'waiting', 'running', 'done', 'dead']);
export type JobState = z.output<typeof JobState>;

export const JOBS_LISTED_MAX = 500;
export const JOBS_LISTED = 50;

export const Job = z.object({
  id: z.string(),
  kind: JobKind,
  state: JobState,
  /** Why it waits: `no provider`, `daily budget` or `next attempt`. */
  reason: z.string().nullable(),
  agentId: z.string(),
  sessionKey: z.string().nullable(),
  /** What it is to work on, such as the numbers of the turns. */
  payload: z.record(z.string(), z.unknown()),
  attempts: z.int(),
  attemptsMax: z.int(),
  /** When it may run next. */
  dueAt: z.string(),
  /** Until when it belongs to the process that runs it. */
  leaseUntil: z.string().nullable(),
  /** How the last attempt failed. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** What came of it. */
  result: z.record(z.string(), z.unknown()).nullable(),
  createdAt: z.string(),
  updatedAt: z.string(),
});
export type Job = z.output<typeof Job>;

export const JobCounts = z.object({ queued: z.int(), waiting: z.int(), running: z.int(), done: z.int(), dead: z.int() });
export type JobCounts = z.output<typeof JobCounts>;

const jobs = { tag: 'jobs', unknownFields: 'ignore' } as const;

export const jobOperations = {
  listJobs: defineOperation({
    ...jobs,
    id: 'listJobs',
    method: 'GET',
    path: '/api/jobs',
    scope: { agent: ['agentId'], project: 'owner', keys: ['sessionKey'] },
    role: 'readonly',
    summary: 'The queue of background work, newest first, with what became of each job.',
    input: z.object({
      state: JobState.optional(),
      kind: JobKind.optional(),
      agentId: AskingAgent,
      sessionKey: z.string().max(600).optional(),
      limit: wholeNumber(1, JOBS_LISTED_MAX).default(JOBS_LISTED),
      /** Id of the last job of the page before. */
      before: z.string().max(64).optional(),
    }),
    output: z.object({ jobs: z.array(Job), counts: JobCounts, next: z.string().nullable() }),
    errors: [],
  }),
  retryJob: defineOperation({
    ...jobs,
    id: 'retryJob',
    method: 'POST',
    path: '/api/jobs/:id/retry',
    scope: WHOLE_WORKSPACE,
    role: 'operator',
    summary: 'Run a dead or waiting job now, with all its attempts again.',
    input: z.object({ id: z.string().min(1).max(64) }),
    output: Job,
    errors: ['job_not_found', 'job_not_retryable'],
  }),
};
