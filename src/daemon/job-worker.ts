import { randomUUID } from 'node:crypto';
import type { JobKind } from '../contract/jobs.ts';
import { createDeadline } from '../core/deadline.ts';
import { AppError } from '../core/errors.ts';
import { type LeasedJob, type ModelRoute, WAITS_FOR_BUDGET } from '../core/job.ts';
import { runContinuity } from './continuity-job.ts';
import { runExtraction } from './extraction-job.ts';
import { runCondensation } from './job-condensation.ts';
import { type Answer, JOB_CALL_TIMEOUT_MS, type JobBody, type JobDeps, type Outcome, type Question } from './job-deps.ts';
import { runSynthesis } from './synthesis-job.ts';
import { addDueSynthesis } from './synthesis-schedule.ts';

/** Longest wait between two looks at the queue; a provider that was configured in the meantime is found by it. Unit: milliseconds. */
const POLL_MS_MAX = 30_000;
const POLL_MS_MIN = 20;
/** What the log files these entries under. */
const CATEGORY = 'jobs';
/** How often old jobs are forgotten; unit: milliseconds. */
const PURGE_EVERY_MS = 3_600_000;

const BODIES: Readonly<Record<JobKind, { readonly route: ModelRoute; readonly run: JobBody }>> = {
  extraction: { route: 'extraction', run: runExtraction },
  continuity: { route: 'extraction', run: runContinuity },
  condensation: { route: 'synthesis', run: runCondensation },
  synthesis: { route: 'synthesis', run: runSynthesis },
};
const KINDS = Object.keys(BODIES) as JobKind[];

export interface JobWorker {
  /** Give the leases of the last process back and begin. */
  start(): void;
  /** Look at the queue now. */
  wake(): void;
  /** Abort what runs; its job is queued again. Resolves when nothing runs any more. */
  stop(): Promise<void>;
}

/** Runs the jobs of the queue, one after the other: background work must not slow down what somebody waits for. */
export function createJobWorker(deps: JobDeps): JobWorker {
  const owner = randomUUID();
  const stopping = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let wanted = false;
  let purgedAtMs = 0;
  const budget = watchBudget(deps, owner);

  const pass = async (): Promise<void> => {
    const nowMs = deps.clock.now();
    if (nowMs - purgedAtMs > PURGE_EVERY_MS) {
      purgedAtMs = nowMs;
      await deps.jobs.purge();
    }
    while (!stopping.signal.aborted) {
      await addDueSynthesis(deps);
      if (await budget.isSpent()) return;
      const job = await deps.jobs.lease(owner, kindsWithModel(deps));
      if (!job) return;
      await runJob(deps, job, stopping.signal);
    }
  };
  const run = (): void => {
    clearTimeout(timer);
    wanted = true;
    running ??= loop().finally(() => {
      running = undefined;
    });
  };
  const loop = async (): Promise<void> => {
    while (wanted && !stopping.signal.aborted) {
      wanted = false;
      try {
        await pass();
      } catch (error) {
        deps.log.error({ category: CATEGORY, err: error }, 'the queue of background work failed; it is looked at again later');
      }
    }
    if (stopping.signal.aborted) return;
    const due = await deps.jobs.nextDueMs().catch(() => undefined); // Logged above if the store is at fault.
    const waitMs = due === undefined ? POLL_MS_MAX : due - deps.clock.now();
    timer = setTimeout(run, Math.min(Math.max(waitMs, POLL_MS_MIN), POLL_MS_MAX)).unref();
  };
  return {
    start: () => {
      deps.jobs
        .reclaim(owner)
        .then(run, (error: unknown) => deps.log.error({ category: CATEGORY, err: error }, 'the queue of background work cannot be read'));
    },
    wake: () => {
      if (timer !== undefined) run();
    },
    stop: async () => {
      stopping.abort(new AppError('draining', { detail: 'the daemon is shutting down' }));
      clearTimeout(timer);
      await running;
    },
  };
}

function kindsWithModel({ modelFor }: JobDeps): JobKind[] {
  return KINDS.filter((kind) => modelFor(BODIES[kind].route) !== undefined);
}

/** While the daily budget is met, all jobs wait and say so; the log says it once a day. */
function watchBudget(deps: JobDeps, owner: string): { isSpent(): Promise<boolean> } {
  let loggedDay = '';
  return {
    isSpent: async () => {
      const budget = deps.budget();
      if (!budget.met) return false;
      if (loggedDay !== budget.day)
        deps.log.warn({ category: CATEGORY, ...budget }, 'the daily budget of background work is spent; its jobs wait');
      loggedDay = budget.day;
      await deps.jobs.lease(owner, [], WAITS_FOR_BUDGET);
      return true;
    },
  };
}

async function runJob(deps: JobDeps, job: LeasedJob, stop: AbortSignal): Promise<void> {
  const { id, kind, attempts } = job;
  try {
    const outcome: Outcome = await BODIES[kind].run(deps, job, (question) => ask(deps, job, question, stop));
    if ('done' in outcome) await deps.jobs.finish(job, outcome.done);
    else await deps.jobs.advance(job, outcome.more, outcome.result);
    deps.log.info({ category: CATEGORY, job: id, kind, attempts }, 'background job done');
  } catch (error) {
    if (stop.aborted) return void (await deps.jobs.release(job));
    const fault = describe(error);
    if (fault.code === 'internal')
      deps.log.error({ category: CATEGORY, job: id, kind, err: error }, 'a background job failed by a fault of this program');
    else deps.log.warn({ category: CATEGORY, job: id, kind, attempts, code: fault.code }, 'background job failed');
    await deps.jobs.fail(job, fault);
  }
}

async function ask(deps: JobDeps, job: LeasedJob, question: Question, stop: AbortSignal): Promise<Answer> {
  if (job.answer !== null) return JSON.parse(job.answer) as Answer;
  const chosen = deps.modelFor(question.route, question.model);
  if (!chosen) throw new AppError('unknown_provider', { detail: 'the provider went away while the job was prepared' });
  const deadline = createDeadline('the question of a background job', JOB_CALL_TIMEOUT_MS, stop);
  const asked = chosen.provider.complete([{ role: 'user', content: [{ type: 'text', text: question.prompt }] }], {
    model: chosen.model,
    maxTokens: question.maxTokens,
    systemPrompt: question.system,
    idempotencyKey: `${job.id}:${job.attempts}`,
    signal: deadline.signal,
    account: { purpose: job.kind, agent: job.agentId, attempt: job.attempts, ...(job.sessionKey ? { session: job.sessionKey } : {}) },
    ...(question.schema ? { outputSchema: question.schema } : {}),
  });
  const result = await asked.finally(deadline.clear);
  if (result.stopReason === 'refusal') throw new AppError('provider_refused', { detail: 'the model refused to answer' });
  const answer = { text: result.content, context: question.context };
  if (!(await deps.jobs.keepAnswer(job, JSON.stringify(answer)))) {
    throw new AppError('timeout', { detail: `job ${job.id} took longer than its lease` });
  }
  return answer;
}

function describe(error: unknown): { code: string; message: string; retryAfterMs?: number; final?: boolean } {
  if (error instanceof AppError) {
    const { code, detail: message, retryAfterMs } = error;
    return { code, message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }), final: code === 'context_overflow' };
  }
  return { code: 'internal', message: 'a fault of this program; the log has the cause' };
}
