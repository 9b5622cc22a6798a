import type { Usage } from '../contract/provider.ts';
import type { CallerLimit } from '../contract/scope.ts';

/** What a session asks of a child session. */
export interface SpawnWish {
  /** Session that asks. */
  readonly parent: string;
  /** Of the call; the same key is the same child. */
  readonly callKey: string;
  /** Under which the call is made; the child is opened under it as well. */
  readonly limit?: CallerLimit | undefined;
  readonly prompt: string;
  readonly agent?: string;
  readonly model?: string;
  readonly title?: string;
  /** Resolve with the answer; otherwise as soon as the child has the prompt. */
  readonly wait: boolean;
  /** Longest wait for the answer. */
  readonly timeoutMs: number;
  /** Told what a child that was waited for has used. */
  readonly used?: (usage: Usage, costUsd: number | null) => void;
}

export interface SpawnedSession {
  readonly session: string;
  readonly status: string;
  /** What the child answered, when it was waited for. */
  readonly content?: string;
}

/**
 * Begins a child session and prompts it. One that was waited for is ended when its answer is there, or nobody waits for it any more.
 *
 * @param signal  aborts when the call is given up: the child is stopped, unless its parent only left memory
 * @throws AppError `invalid_request` (no session asks), `spawn_forbidden`, `too_deep`, `too_many_children`, what creating and prompting a session throw
 */
export type SpawnSession = (wish: SpawnWish, signal: AbortSignal) => Promise<SpawnedSession>;
