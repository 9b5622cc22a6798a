import type { Pending } from '../../machines/session-context.ts';
import type { SessionSnapshot } from './session-state.ts';

export interface OwedTimer {
  readonly id: string;
  readonly dueAt: number;
  /** An approval nobody decided is decided by its policy. */
  readonly fires: 'timer:fired' | 'approval:allow' | 'approval:deny';
}

export interface Obligations {
  /** Work that must be under way: started when it is not, aborted when it is and no longer stands here. */
  readonly effects: readonly Pending[];
  /** Work that must come to an end: aborted when it runs, reported as aborted when it does not. */
  readonly settle: readonly Pending[];
  readonly timers: readonly OwedTimer[];
}

const NOTHING: Obligations = { effects: [], settle: [], timers: [] };

/**
 * What a session owes in its present state; pure. Everything the runtime does for a session follows from this,
 * so a session that was restored from its log goes on where it stood.
 */
export function obligationsOf(snapshot: SessionSnapshot): Obligations {
  const { context, value } = snapshot;
  if (snapshot.status !== 'active' || value === 'passivated') return NOTHING;
  if (value === 'aborting')
    return { ...NOTHING, settle: context.pending, timers: [timer('abort', context.abort!.at + context.limits.abortGraceMs)] };
  if (value === 'idle') return { ...NOTHING, timers: [timer('idle', context.idleSince + context.limits.idleTtlMs)] };
  const timers = [];
  if (context.turn) timers.push(timer('turn', context.turn.deadlineAt));
  if (context.dueAt !== null) timers.push(timer('backoff', context.dueAt));
  for (const call of context.calls) {
    if (call.state === 'waiting')
      timers.push({ id: call.id, dueAt: call.expiresAt, fires: `approval:${call.onExpiry ?? 'deny'}` as const });
  }
  return { effects: context.pending, settle: [], timers };
}

function timer(id: string, dueAt: number) {
  return { id, dueAt, fires: 'timer:fired' as const };
}
