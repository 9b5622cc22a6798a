import type { Job, JobCounts, JobKind, JobState } from '../contract/jobs.ts';
import type { Provider } from './provider.ts';

/** Attempts of one job before it is put aside for a person. */
export const JOB_ATTEMPTS_MAX = 6;
/** Ends of the process while a job ran, before it is put aside: one that takes the process down must not do so for ever. */
export const JOB_INTERRUPTIONS_MAX = 50;
/** A job belongs to the process that runs it for this long; longer than a job may take. Unit: milliseconds. */
export const JOB_LEASE_MS = 10 * 60_000;
/** First wait before another attempt, and the longest one; each is four times the one before. Unit: milliseconds. */
const BACKOFF_MS = 10_000;
const BACKOFF_MS_MAX = 3_600_000;
/** Jobs that are not done or dead; beyond it the daemon takes no more and says so. */
export const JOBS_OPEN_MAX = 100_000;

/** Ends of the sentence "the job waits: …". */
export const WAITS_FOR_PROVIDER = 'no provider';
/** The daily budget of background work is spent. */
export const WAITS_FOR_BUDGET = 'daily budget';
export const WAITS_FOR_ATTEMPT = 'next attempt';

/** How long a job that has failed `attempts` times rests; longer when the provider asked for it. */
export function backoffMs(attempts: number, retryAfterMs = 0): number {
  return Math.max(Math.min(BACKOFF_MS * 4 ** Math.max(0, attempts - 1), BACKOFF_MS_MAX), Math.min(retryAfterMs, BACKOFF_MS_MAX));
}

export type JobPayload = Readonly<Record<string, unknown>>;

export interface JobDraft {
  readonly kind: JobKind;
  readonly agentId: string;
  readonly sessionKey?: string | null;
  readonly payload: JobPayload;
  readonly delayMs?: number;
}

/** A job that this process holds. Every method that ends it names the lease, so that a process that lost it changes nothing. */
export interface LeasedJob {
  readonly id: string;
  readonly kind: JobKind;
  readonly agentId: string;
  readonly sessionKey: string | null;
  readonly payload: JobPayload;
  /** This one included. */
  readonly attempts: number;
  /** What the model answered in an earlier attempt: it is not asked again. */
  readonly answer: string | null;
  /** What came of the parts that are done. */
  readonly result: JobPayload | null;
  readonly createdAtMs: number;
  readonly owner: string;
}

/** The queue of background work. It outlives the process: what is queued stays queued, what ran is given out again when its lease is over. */
export interface JobStore {
  /** Undefined when the queue is full. One that waits for the same thing is returned instead, as it is. */
  add(draft: JobDraft): Promise<{ id: string; added: boolean } | undefined>;
  /**
   * A job for the turns of a line that none has been queued for yet; one that has not begun is extended to them.
   *
   * @returns undefined when there are none, or the queue is full
   */
  addForLine(draft: JobDraft & { kind: 'extraction'; sessionKey: string }): Promise<{ id: string; full: boolean } | undefined>;
  /**
   * The next one of these kinds that is due, leased to `owner`. Jobs of other kinds wait from now on, and say why.
   *
   * @param reason  why they wait: WAITS_FOR_PROVIDER, when left out, or WAITS_FOR_BUDGET
   */
  lease(owner: string, kinds: readonly JobKind[], reason?: string): Promise<LeasedJob | undefined>;
  /** Give leases of other owners back: they are dead, because a workspace has one daemon. Answers how many. */
  reclaim(owner: string): Promise<number>;
  /** Keep what the model answered before anything is done with it. False when the lease is lost, as below. */
  keepAnswer(job: LeasedJob, answer: string): Promise<boolean>;
  finish(job: LeasedJob, result: JobPayload): Promise<boolean>;
  /** One part of it is done: the rest is a job again, with all its attempts. */
  advance(job: LeasedJob, payload: JobPayload, result: JobPayload): Promise<boolean>;
  /** Another attempt later, or dead when there is none left. */
  fail(job: LeasedJob, error: { code: string; message: string; retryAfterMs?: number; final?: boolean }): Promise<boolean>;
  /** The process ends: the attempt does not count. */
  release(job: LeasedJob): Promise<boolean>;
  /** @throws AppError job_not_found, job_not_retryable */
  retry(id: string): Promise<Job>;
  list(filter: JobFilter): Promise<Job[]>;
  /** Over all jobs, or those of an agent or a session. */
  counts(filter?: Pick<JobFilter, 'agentId' | 'sessionKey'>): Promise<JobCounts>;
  /** When the next one becomes due, ms since 1970; undefined when none will. */
  nextDueMs(): Promise<number | undefined>;
  /** Forget what ended long ago. Answers how many. */
  purge(): Promise<number>;
}

export interface JobFilter {
  readonly state?: JobState;
  readonly kind?: JobKind;
  readonly agentId?: string;
  readonly sessionKey?: string;
  readonly before?: string;
  readonly limit: number;
}

/** Which of `runtime.routing` a job's model is chosen by. */
export type ModelRoute = 'extraction' | 'synthesis';

/**
 * The model for background work. Undefined when no provider is configured: the offline demo counts as none, it makes answers up.
 *
 * @param model  asked for when the route names no model
 */
export type ModelFor = (route: ModelRoute, model?: string) => { readonly provider: Provider; readonly model: string } | undefined;
