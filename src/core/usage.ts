import type { Usage } from '../contract/provider.ts';
import type { UsageCounts, UsageKey, UsagePurpose, UsageRow } from '../contract/usage.ts';

/** For whom a provider is called; what is left out is not known. */
export interface CallAccount {
  readonly purpose: UsagePurpose;
  readonly agent?: string;
  /** Key of the session. */
  readonly session?: string;
  readonly workflow?: string;
  /** From 1; a later one asks again after one that failed. */
  readonly attempt?: number;
}

/** One request to a provider, from before it is sent until its end is known. */
export interface CallStart extends CallAccount {
  readonly provider: string;
  /** As it was asked for. */
  readonly model: string;
}

export type CallOutcome = 'ok' | 'failed' | 'aborted' | 'interrupted';

export interface CallEnd {
  readonly outcome: CallOutcome;
  /** Null when the provider told nothing. */
  readonly usage: Usage | null;
  /** Null without a price. */
  readonly costUsd: number | null;
}

/** What ended since the process started, by purpose and outcome. */
export interface CallTotals {
  readonly purpose: UsagePurpose;
  readonly outcome: CallOutcome;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  costUsd: number;
}

export interface UsageFilter {
  /** Days of UTC, both included. */
  readonly from: string;
  readonly to: string;
  readonly agent?: string | undefined;
  readonly session?: string | undefined;
  readonly purposes?: readonly UsagePurpose[] | undefined;
}

/**
 * The book of provider calls. Methods are synchronous, so that a request is in the book before it is sent, also when the process is killed
 * right after. A book that cannot be written does not stop the call: `fault` says why.
 */
export interface UsageLedger {
  /** Returns the number of the call, for `note` and `end`. Never throws. */
  begin(call: CallStart): number;
  /** What a call has used so far, in case its end is never seen. Never throws. */
  note(call: number, usage: Usage, costUsd: number | null): void;
  /** Ends a call once; a later end does nothing. Never throws. */
  end(call: number, end: CallEnd): void;
  /** Dearest first. @throws AppError `storage_failed`, `storage_corrupt` */
  rows(filter: UsageFilter, by: readonly UsageKey[], limit: number): UsageRow[];
  /** @throws as `rows` does */
  total(filter: UsageFilter): UsageCounts;
  sinceStart(): readonly CallTotals[];
  /** Why the last write failed; null when it did not. */
  fault(): string | null;
}

const NOTHING: UsageCounts = {
  calls: 0,
  retries: 0,
  failed: 0,
  aborted: 0,
  interrupted: 0,
  open: 0,
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  estimated: 0,
  costUsd: 0,
  unpriced: 0,
};

/** A book that keeps nothing, for a daemon that calls no provider. */
export const noLedger: UsageLedger = {
  begin: () => -1,
  note: () => {},
  end: () => {},
  rows: () => [],
  total: () => ({ ...NOTHING }),
  sinceStart: () => [],
  fault: () => null,
};

/** The day of UTC a moment belongs to, such as 2026-11-22. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
