import type { SessionContext } from '../session-context.ts';
import { shownOf } from './message-steps.ts';
import { payloadOf, type Step, settleEvent } from './step.ts';
import { closeTurn, countSpent, TURN_CLOSED } from './turn-steps.ts';

const noteAbort =
  (reason: NonNullable<SessionContext['abort']>['reason']): Step =>
  (_context, event) => ({ set: { abort: { reason, at: event.at } } });

const enterAborting: Step = (context) => ({ say: [{ type: 'session:aborting', payload: { reason: context.abort?.reason ?? 'client' } }] });

/** Work that was aborted has settled, or won the race and finished: what it used is counted either way. */
const keepSettled: Step = (context, event) => ({
  set: {
    ...countSpent(context, event),
    ...(event.type === 'hook:end' && event.payload.hook === 'user-prompt-submit'
      ? { bypassed: event.payload.bypassed, ...shownOf(context, event.payload) }
      : {}),
    pending: settleEvent(context, event),
  },
});

const closeAborted: Step = (context, event) => {
  if (context.abort?.reason !== 'deadline') return { set: TURN_CLOSED, say: closeTurn(context, event.at, 'cancelled') };
  const error = {
    code: 'turn_timeout',
    message: `the turn took longer than ${(context.turn?.deadlineAt ?? 0) - (context.turn?.startedAt ?? 0)} ms`,
  };
  return {
    set: TURN_CLOSED,
    say: [
      { type: 'session:failed', payload: { ...error, state: 'aborting', recoverable: true } },
      ...closeTurn(context, event.at, 'error', error),
    ],
  };
};

const endWhenSettled: Step = (_context, event) => ({ set: { endReason: payloadOf(event, 'session:end').reason } });

export const abortSteps = {
  noteClientAbort: noteAbort('client'),
  noteInterrupt: noteAbort('interrupt'),
  noteEndAbort: noteAbort('end'),
  noteDeadline: noteAbort('deadline'),
  enterAborting,
  keepSettled,
  closeAborted,
  endWhenSettled,
};
