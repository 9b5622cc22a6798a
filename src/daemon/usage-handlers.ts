import type { BackgroundConfig } from '../contract/config.ts';
import { type BackgroundBudget, type UsageKey, UsageKey as UsageKeys, type UsagePurpose, type usageOperations } from '../contract/usage.ts';
import { isScoped } from '../core/caller-scope.ts';
import type { Clock } from '../core/clock.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { Handlers } from '../core/operation-call.ts';
import { dayOf, type UsageLedger } from '../core/usage.ts';
import { agentOf, plainKey } from './hook-session.ts';

/** What the daily budget is spent on. */
const BACKGROUND: readonly UsagePurpose[] = ['extraction', 'continuity', 'condensation', 'synthesis'];
const BY: readonly UsageKey[] = ['day', 'purpose'];

export interface BudgetDeps {
  readonly usage: UsageLedger;
  readonly clock: Clock;
  /** Read at each look, so that a changed budget counts at once. */
  readonly background: () => BackgroundConfig;
}

/** What background work has spent today, and whether it may go on. Days are those of UTC. */
export function backgroundBudget({ usage, clock, background }: BudgetDeps): BackgroundBudget {
  const nowMs = clock.now();
  const day = dayOf(nowMs);
  const { dailyUsd, dailyTokens } = background();
  const { costUsd: spentUsd, inputTokens, outputTokens } = usage.total({ from: day, to: day, purposes: BACKGROUND });
  const spentTokens = inputTokens + outputTokens;
  const met = spentUsd >= dailyUsd || spentTokens >= dailyTokens;
  return { day, spentUsd, dailyUsd, spentTokens, dailyTokens, met, resumesAt: met ? nextDay(nowMs) : null };
}

function nextDay(nowMs: number): string {
  const date = new Date(nowMs);
  return isoTime(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 1));
}

/** Handler of /api/usage. */
export function createUsageHandlers(deps: BudgetDeps): Handlers<typeof usageOperations> {
  return {
    usage: ({ by, from: first, to: last, agentId: named, sessionKey, purpose, limit }, context) => {
      const today = dayOf(deps.clock.now());
      const [from, to] = [first ?? last ?? today, last ?? today];
      if (from > to) throw invalid('/from', `from ${from} is after to ${to}`);
      const filter = {
        from,
        to,
        agent: agentOf(named, context),
        session: sessionKey === undefined ? undefined : plainKey(sessionKey),
        purposes: purpose === undefined ? undefined : [purpose],
      };
      const rows = deps.usage.rows(filter, keysOf(by), limit + 1);
      return {
        from,
        to,
        rows: rows.slice(0, limit),
        more: rows.length > limit,
        total: deps.usage.total(filter),
        // What all agents together have spent is not shown to a token of one.
        ...(isScoped(context.caller) ? {} : { budget: backgroundBudget(deps) }),
      };
    },
  };
}

/** @throws AppError `invalid_request` */
function keysOf(by: string | undefined): readonly UsageKey[] {
  if (by === undefined) return BY;
  const names = [...new Set(by.split(',').map((name) => name.trim()))];
  for (const name of names) {
    if (!UsageKeys.options.includes(name as UsageKey)) {
      throw invalid('/by', `by: ${JSON.stringify(name.slice(0, 64))} is not one of ${UsageKeys.options.join(', ')}`);
    }
  }
  return names as UsageKey[];
}

function invalid(pointer: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, errors: [{ pointer, detail }] });
}
