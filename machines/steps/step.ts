import type { PayloadOf } from '../../src/contract/catalog.ts';
import type { InputEvent, OutputEvent, Pending, SessionContext, Turn } from '../session-context.ts';

/** What an action does: a new context, and signals to record with the event that caused it. */
export interface StepResult {
  readonly set?: Partial<SessionContext>;
  readonly say?: readonly OutputEvent[];
}

export type Step = (context: SessionContext, event: InputEvent) => StepResult;

/** The event's payload when it is of this name; an action that meets another event is a bug of the chart. */
export function payloadOf<T extends InputEvent['type']>(event: InputEvent, type: T): PayloadOf<T> {
  if (event.type !== type) throw new Error(`the session machine met ${event.type} where only ${type} can be`);
  return event.payload as PayloadOf<T>;
}

/** Formats a time it is given; reads no clock. */
export function isoAt(ms: number): string {
  return new Date(ms).toISOString();
}

export function withTurn(context: SessionContext, change: Partial<Turn>): Partial<SessionContext> {
  return context.turn === null ? {} : { turn: { ...context.turn, ...change } };
}

export function settle(pending: readonly Pending[], key: string): readonly Pending[] {
  return pending.filter((entry) => entry.key !== key);
}

/** The event answers work in flight: it is in flight no more. */
export function settleEvent(context: SessionContext, event: InputEvent): readonly Pending[] {
  return 'key' in event.payload ? settle(context.pending, event.payload.key) : context.pending;
}
