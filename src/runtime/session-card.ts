import { SessionState } from '../contract/session.ts';
import type { SealedSignal } from '../contract/signal.ts';
import { isoTime } from '../core/clock.ts';
import { type SessionView, titleOf } from '../core/session-view.ts';
import type { SessionCard } from '../core/signal-log.ts';
import type { SessionCore } from './session-state.ts';

/** States in which nothing is owed. */
export const SETTLED_STATES: ReadonlySet<string> = new Set(['idle', 'passivated', 'ended']);

const ENTERED: ReadonlyMap<string, SessionState> = new Map(SessionState.options.map((state) => [`session:${state}`, state]));

/** The listing row as it will be once these signals are committed. */
export function cardAfter({ session }: SessionView, core: SessionCore, signals: readonly SealedSignal[]): SessionCard {
  const { context } = core.snapshot;
  const entered = signals.findLast((signal) => ENTERED.has(signal.name));
  const state = entered ? ENTERED.get(entered.name)! : session.state;
  return {
    id: session.id,
    key: session.sessionKey,
    agent: session.agent,
    state,
    open: !SETTLED_STATES.has(state),
    title: session.title || titleFrom(signals),
    project: session.project,
    parent: session.parentId,
    harness: session.harness,
    provider: context.provider,
    model: context.model,
    turns: context.turns,
    inputTokens: context.usage.inputTokens,
    outputTokens: context.usage.outputTokens,
    costUsd: context.costUsd,
    createdAt: session.createdAt,
    updatedAt: isoTime(core.at),
  };
}

function titleFrom(signals: readonly SealedSignal[]): string {
  const prompt = signals.find((signal) => signal.name === 'prompt:received');
  return prompt ? titleOf(String(prompt.payload.content)) : '';
}
