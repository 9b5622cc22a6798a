import type { SealedSignal, Signal } from '../contract/signal.ts';
import type { Clock } from '../core/clock.ts';
import { foldView } from '../core/session-view.ts';
import type { SignalLog } from '../core/signal-log.ts';
import type { LiveHub } from './live/live-hub.ts';
import { cardAfter } from './session-card.ts';
import { advance, note } from './session-core.ts';
import { type FoldedSession, type InputDraft, isInput, type SystemFact } from './session-state.ts';

interface NoteDeps {
  readonly log: SignalLog;
  readonly clock: Clock;
  readonly hub: LiveHub;
}

/**
 * What the supervisor has to say of a session that is not in memory, in one commit. The given view is moved on with it.
 *
 * @param epoch  of the stream, claimed by the caller
 * @throws AppError `session_fenced`, `storage_failed`, `overloaded`
 */
export async function appendNoted(
  { log, clock, hub }: NoteDeps,
  { core: before, view }: FoldedSession,
  epoch: number,
  drafts: readonly (InputDraft | SystemFact)[],
): Promise<FoldedSession> {
  const now = clock.now();
  const signals: SealedSignal[] = [];
  let core = before;
  for (const draft of drafts) {
    const step = isInput(draft) ? advance(core, draft, now) : note(core, draft, now);
    core = step.core;
    signals.push(...step.signals);
  }
  const moved = drafts.some(isInput) ? { card: cardAfter(view, core, signals) } : {};
  const { firstGseq } = await log.append({ stream: `session:${core.id}`, epoch, expected: before.seq, signals, ...moved });
  const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
  for (const signal of stored) foldView(view, signal);
  hub.publish(core.id, stored);
  return { core, view };
}
