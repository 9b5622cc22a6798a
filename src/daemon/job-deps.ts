import type { AgentYaml } from '../contract/config.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { BackgroundBudget } from '../contract/usage.ts';
import type { Clock } from '../core/clock.ts';
import type { JobPayload, LeasedJob, ModelFor, ModelRoute } from '../core/job.ts';
import type { Logger } from '../core/logger.ts';
import { type MemoryStore, type Reader, scopeOf } from '../core/memory-store.ts';
import type { TranscriptStores } from '../store/transcript-stores.ts';

/** Longest model call; shorter than a job's lease, and than that of MEMORY.md. Unit: milliseconds. */
export const JOB_CALL_TIMEOUT_MS = 5 * 60_000;

/** What background work may reach: the stores, the workspace, a model. */
export interface JobDeps extends TranscriptStores {
  readonly memories: MemoryStore;
  readonly folder: string;
  readonly config: AgentYaml;
  readonly clock: Clock;
  readonly log: Logger;
  readonly modelFor: ModelFor;
  /** What background work has spent today, and whether it may go on. */
  readonly budget: () => BackgroundBudget;
}

export interface Question {
  readonly route: ModelRoute;
  readonly system: string;
  readonly prompt: string;
  readonly maxTokens: number;
  /** The answer must be JSON of this schema. */
  readonly schema?: Readonly<Record<string, unknown>>;
  /** Asked for when the route names no model. */
  readonly model?: string;
  /** Kept with the answer, for a later attempt that does not ask again: what the prompt showed. */
  readonly context: Readonly<Record<string, unknown>>;
}

export interface Answer {
  readonly text: string;
  readonly context: Readonly<Record<string, unknown>>;
}

/** Ask the model, once per job: what it answered is kept before it is used. @throws AppError as the Provider port says */
export type Ask = (question: Question) => Promise<Answer>;

/** Done with it, or with one part of it. */
export type Outcome = { readonly done: JobPayload } | { readonly more: JobPayload; readonly result: JobPayload };

export type JobBody = (deps: JobDeps, job: LeasedJob, ask: Ask) => Promise<Outcome>;

/** `default` stands for nobody in particular: what is made for it is seen by all, and made from what all may see. */
export function readerOf(agentId: string): Reader {
  return scopeOf(agentId === DEFAULT_AGENT ? null : agentId);
}
