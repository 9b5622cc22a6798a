import { isDeepStrictEqual } from 'node:util';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { obligationsOf } from '../../src/runtime/obligations.ts';
import { foldSession } from '../../src/runtime/session-fold.ts';
import type { SessionHost } from '../../src/runtime/session-host.ts';
import type { FoldedSession, SessionCore } from '../../src/runtime/session-state.ts';
import { verifySession } from '../../src/runtime/verify.ts';
import type { SessionLedger } from './session-ledger.ts';

type Report = (invariant: string, detail: string) => void;

/** What is shown of a session must be what it decides by, at every moment. */
export function checkCoherence({ core, view }: Pick<SessionHost, 'core' | 'view'>, report: Report): void {
  const { value, context } = core.snapshot;
  const same = (what: string, shown: unknown, held: unknown) => {
    if (!isDeepStrictEqual(shown, held))
      report('the view shows the state', `${core.id} ${what}: ${JSON.stringify(shown)}, not ${JSON.stringify(held)}`);
  };
  same('state', view.session.state, stateName(value));
  same(
    'queue',
    view.session.queue,
    context.mailbox.map(({ promptId }) => promptId),
  );
  same('turn', view.session.turn?.number ?? null, context.turn?.number ?? null);
  same('round', view.session.turn ? Math.max(view.session.turn.round, context.turn?.round ?? 0) : null, view.session.turn?.round ?? null);
  same('turns', view.session.turns, context.turns);
  same('bypassed', view.session.bypassed, context.bypassed);
  same('model', [view.session.provider, view.session.model], [context.provider, context.model]);
  const waiting = context.calls.filter((call) => call.state === 'waiting').map((call) => call.id);
  same('approvals', [...view.approvals.keys()].sort(), [...new Set(waiting)].sort());
  if (context.mailbox.length > context.limits.mailboxTurnsMax)
    report('the mailbox is bounded', `${core.id} holds ${context.mailbox.length}`);
  const models = context.pending.filter((pending) => pending.kind === 'model').length;
  if (models > 1) report('one model call at a time', `${core.id} owes ${models}`);
  if ((value === 'idle' || value === 'passivated') && (context.pending.length > 0 || context.turn !== null || context.calls.length > 0))
    report('who is idle owes nothing', `${core.id} owes ${context.pending.map(({ key }) => key).join()}`);
}

/** Nothing is under way any more: a session must have come to rest, and its log must tell the same story. */
export async function checkRest(
  log: SignalLog,
  id: string,
  host: SessionHost | undefined,
  ledger: SessionLedger,
  report: Report,
): Promise<void> {
  const whole = await foldSession(withoutSnapshot(log), id);
  const cached = await foldSession(log, id);
  const card = await log.card(id);
  const { session } = whole.view;
  if (card?.open) report('every session settles', `${id} is ${card.state}${host ? '' : ' and not in memory'}, and nothing is under way`);
  ledger.settle();
  if (card?.state !== session.state) report('the card shows the state', `${id}: ${card?.state}, not ${session.state}`);
  compare('the whole log and the snapshot', whole, cached, report);
  if (host) {
    compare('the log and the live session', whole, { core: host.core, view: host.view }, report);
    const { effects, settle } = obligationsOf(host.core.snapshot);
    if (effects.length + settle.length > 0 || !host.quiet) report('who is idle owes nothing', `${id} still has work`);
  }
  checkUsage(whole, card, ledger, report);
  checkConversation(whole.core, report);
  const { divergence } = await verifySession(log, id);
  if (divergence) report('the log verifies', `${id}: ${JSON.stringify(divergence)}`);
}

function checkUsage(
  { core, view }: FoldedSession,
  card: { inputTokens: number; outputTokens: number } | null,
  ledger: SessionLedger,
  report: Report,
): void {
  const text = ({ inputTokens, outputTokens }: { inputTokens: number; outputTokens: number }) => `${inputTokens}/${outputTokens}`;
  // A reply that came when nobody waited for it any more is in no turn.
  const owed = {
    inputTokens: ledger.usage.inputTokens - ledger.lateUsage.inputTokens,
    outputTokens: ledger.usage.outputTokens - ledger.lateUsage.outputTokens,
  };
  const same = (what: string, shown: string, sum: string) => {
    if (shown !== sum) report('usage adds up', `${core.id}: ${what} says ${shown}, the replies ${sum}`);
  };
  same('the view', text(view.session.usage), text(owed));
  same('the machine', text(core.snapshot.context.usage), text(owed));
  if (card) same('the card', text(card), text(owed));
}

/** What a call says belongs to the turn that made it, however late it comes. */
function checkConversation({ id, conversation }: SessionCore, report: Report): void {
  let turn = 0;
  for (const entry of conversation.entries) {
    if (entry.role !== 'summary' && entry.turn === 0)
      report('what is said is said in a turn', `${id}: ${entry.role} at ${entry.seq} is in none`);
    if (entry.compacted || entry.role === 'summary') continue;
    if (entry.turn < turn)
      report('what is said is said in a turn', `${id}: ${entry.role} at ${entry.seq} of turn ${entry.turn} stands after turn ${turn}`);
    turn = Math.max(turn, entry.turn);
  }
  if (conversation.waiting.size > 0) report('no prompt is kept for ever', `${id} keeps ${[...conversation.waiting.keys()].join(', ')}`);
}

function compare(what: string, a: FoldedSession, b: FoldedSession, report: Report): void {
  const left = comparable(a);
  const right = comparable(b);
  for (const key of Object.keys(left) as (keyof typeof left)[]) {
    if (isDeepStrictEqual(left[key], right[key])) continue;
    report('folding gives the state', `${a.core.id}: ${what} differ in ${key}: ${brief(left[key])} and ${brief(right[key])}`);
  }
}

function comparable({ core, view }: FoldedSession): Record<string, unknown> {
  const { snapshot, causes, ...rest } = core;
  // As JSON would hold it: members that are undefined count as absent.
  const plain = JSON.parse(
    JSON.stringify({ ...rest, value: snapshot.value, context: snapshot.context, status: snapshot.status, ...viewOf(view) }),
  );
  return { ...plain, causes: [...causes], waiting: [...core.conversation.waiting] };
}

function viewOf({ prompts, approvals, decided, ...shown }: FoldedSession['view']): object {
  return { shown, prompts: [...prompts], approvals: [...approvals], decided: [...decided] };
}

function brief(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 400);
}

function withoutSnapshot(log: SignalLog): SignalLog {
  return { read: log.read.bind(log), loadSnapshot: async () => null, loadCheckpoint: log.loadCheckpoint.bind(log) } as unknown as SignalLog;
}

/** What clients call a state of the chart. */
function stateName(value: unknown): string {
  if (typeof value === 'string') return value;
  const turn = (value as { turn: unknown }).turn;
  return typeof turn === 'string' ? turn : Object.keys(turn as object)[0]!;
}
