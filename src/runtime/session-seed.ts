import { sessionMachine } from '../../machines/session.machine.ts';
import { type OutputEvent, type Pending, researchInput, type SessionContext } from '../../machines/session-context.ts';
import type { PayloadOf } from '../contract/catalog.ts';
import type { Conversation } from '../core/conversation.ts';
import { plainView, type SessionView } from '../core/session-view.ts';
import type { FoldedSession, SessionSnapshot } from './session-state.ts';

type Created = PayloadOf<'session:created'>;
export type Seed = NonNullable<Created['seed']>;

/** What a fork changes of the session it comes from. */
export interface ForkChange {
  readonly session: string;
  readonly provider?: string;
  readonly model?: string;
  readonly contextLimit?: number;
}

/** States that lead nowhere: a fork taken there begins idle. */
const DEAD_ENDS: ReadonlySet<unknown> = new Set(['ending', 'ended', 'aborting']);
const NOTHING_OPEN = {
  turn: null,
  pending: [],
  calls: [],
  steers: [],
  mailbox: [],
  abort: null,
  endReason: null,
  compaction: null,
  dueAt: null,
} as const;
const NO_USAGE = { inputTokens: 0, outputTokens: 0 };

/**
 * The state of a session at one point, as the first signal of a fork carries it: whole, so that the fork does not need its parent any more.
 * Work that was in flight there is in flight in the fork as well, under the fork's own name; usage and cost begin at zero.
 */
export function takeSeed({ core, view }: FoldedSession, change: ForkChange): Seed {
  const dead = DEAD_ENDS.has(core.snapshot.value);
  const { arrived: _named, ...past } = core.snapshot.context;
  // The fork's log has named no message yet.
  const context = { ...past, ...(dead ? NOTHING_OPEN : {}), usage: NO_USAGE, costUsd: 0, session: change.session };
  // The fork names the work in flight anew, in its own log.
  const { waiting, ...conversation } = { ...core.conversation, open: [], entries: inheritedEntries(core.conversation) };
  return {
    value: dead ? 'idle' : core.snapshot.value,
    context: { ...withModel(context, change) },
    conversation: { ...conversation, ...(dead ? { turn: 0 } : {}), waiting: dead ? [] : [...waiting] },
    view: plainView(dead ? withoutOpenWork(view) : view),
  };
}

/** Numbered -n to -1: before all that the fork says itself, and no two alike, so that they can be paged with it. */
function inheritedEntries({ entries }: Conversation): Conversation['entries'] {
  return entries.map((entry, index) => ({ ...entry, seq: index - entries.length }));
}

/** Prompts that were given up with the work are none of the fork's: it would never say how they ended. */
function withoutOpenWork(view: SessionView): SessionView {
  return {
    ...view,
    session: { ...view.session, queue: [], turn: null },
    prompts: new Map([...view.prompts].filter(([, prompt]) => prompt.endSeq !== null)),
    approvals: new Map(),
  };
}

/** "Ask again with another model" means the call that is owed now, too. */
function withModel(context: SessionContext, { provider, model, contextLimit }: ForkChange): SessionContext {
  if (provider === undefined || model === undefined || contextLimit === undefined) return context;
  const move = (pending: Pending): Pending =>
    pending.kind === 'model' && pending.purpose === 'answer' ? { ...pending, provider, model } : pending;
  return {
    ...context,
    provider,
    model,
    contextLimit,
    turn: context.turn && { ...context.turn, provider, model, contextLimit },
    pending: context.pending.map(move),
  };
}

export function seededSnapshot(seed: Seed): SessionSnapshot {
  return sessionMachine.resolveState({ value: seed.value as never, context: seed.context as never }) as SessionSnapshot;
}

export function seededConversation(seed: Seed): Conversation {
  const { waiting, ...conversation } = seed.conversation as unknown as Omit<Conversation, 'waiting'> & { waiting: [string, never][] };
  return { ...conversation, waiting: new Map(waiting) };
}

/** What the fork's log says of the state it begins in: the state itself, and the work it owes. */
export function seededOutputs({ value, context }: SessionSnapshot): OutputEvent[] {
  const state = typeof value === 'string' ? value : Object.keys((value as { turn: object }).turn)[0]!;
  const entered =
    typeof value === 'string' ? value : typeof (value as { turn: unknown }).turn === 'string' ? (value as { turn: string }).turn : state;
  return [{ type: `session:${entered}`, payload: {} } as OutputEvent, ...context.pending.map((pending) => intentOf(pending, context))];
}

function intentOf(pending: Pending, context: SessionContext): OutputEvent {
  switch (pending.kind) {
    case 'hook':
      return { type: 'hook:start', payload: { hook: pending.hook, key: pending.key } };
    case 'model': {
      const { key, provider, model, attempt, purpose } = pending;
      const { round, tools } = context.turn ?? { round: 0, tools: [] };
      return { type: 'harness:start', payload: { key, provider, model, round, attempt, purpose, inputDigest: '', tools: tools.length } };
    }
    case 'tool': {
      const call = context.calls.find((candidate) => candidate.key === pending.key);
      const offered = context.turn?.tools.find(({ name }) => name === pending.name);
      const input = call ? call.input : researchInput(offered, context.turn?.query ?? '');
      const { id, name, key, class: toolClass, phase } = pending;
      return { type: 'tool:call', payload: { id, name, input, key, class: toolClass, origin: call?.origin ?? 'custom', phase } };
    }
  }
}
