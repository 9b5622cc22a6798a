import type { PayloadOf } from '../../src/contract/catalog.ts';
import type { OutputEvent, SessionContext } from '../session-context.ts';
import { payloadOf, type Step } from './step.ts';

/** Ids kept of messages that wait to be shown; of more, the oldest are named again by the turn that shows them. */
const ARRIVED_MAX = 200;

const keepArrival: Step = (context, event) => {
  const message = payloadOf(event, 'message:arrived');
  return {
    set: { arrived: [...(context.arrived ?? []), message.messageId].slice(-ARRIVED_MAX) },
    say: [{ type: 'message:received', payload: message }],
  };
};

/** What a hook has put before the model waits no more. */
export function shownOf({ arrived }: SessionContext, { messages = [] }: PayloadOf<'hook:end'>): Pick<SessionContext, 'arrived'> {
  if (!arrived || messages.length === 0) return {};
  const shown = new Set(messages.map(({ messageId }) => messageId));
  return { arrived: arrived.filter((id) => !shown.has(id)) };
}

/** Of the messages a hook brought, those the log has not named. */
export function newOf({ arrived, turn }: SessionContext, { messages = [] }: PayloadOf<'hook:end'>): OutputEvent[] {
  return messages
    .filter(({ messageId }) => !arrived?.includes(messageId))
    .map((message) => ({ type: 'message:received', payload: { turn: turn?.number ?? 0, ...message } }));
}

export const messageSteps = { keepArrival };
