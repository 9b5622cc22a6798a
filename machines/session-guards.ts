import type { InputEvent, SessionContext } from './session-context.ts';

export type Guard = (args: { context: SessionContext; event: InputEvent }) => boolean;

/** A turn's model call may be compacted away this many times in a row before the turn fails. */
export const COMPACTION_FAILURES_MAX = 2;

const named = (guard: Guard): Guard => guard;
/** Only for the outcome of work in flight: one that was given up and comes after all must not pass for that of other work. */
const answering =
  (guard: Guard): Guard =>
  (args) =>
    answersPending(args.context, args.event) && guard(args);
const turnOpen = ({ context }: { context: SessionContext }) => context.turn !== null;

/** Every branch of the session machine, by the name its graph shows. */
export const sessionGuards = {
  hasPrompt: named(({ context }) => context.mailbox.length > 0),
  mailboxFull: named(({ context }) => context.mailbox.length >= context.limits.mailboxTurnsMax),
  steersOpenTurn: named(
    ({ context, event }) => event.type === 'prompt:received' && event.payload.delivery === 'steer' && turnOpen({ context }),
  ),
  steersFull: named(
    ({ context, event }) =>
      event.type === 'prompt:received' &&
      event.payload.delivery === 'steer' &&
      turnOpen({ context }) &&
      context.steers.length >= context.limits.mailboxTurnsMax,
  ),
  refusesToWait: named(({ event }) => event.type === 'prompt:received' && event.payload.delivery === 'reject'),
  interrupts: named(
    ({ context, event }) => event.type === 'prompt:received' && event.payload.delivery === 'interrupt' && !mailboxFull(context),
  ),
  endWanted: named(({ context }) => context.endReason !== null),
  turnOpen: named(turnOpen),
  settled: named(({ context }) => context.pending.length === 0),
  settledAndEnding: named(({ context }) => context.pending.length === 0 && context.endReason !== null),
  isTurnTimer: named(({ event }) => event.type === 'timer:fired' && event.payload.id === 'turn'),
  isAbortTimer: named(({ event }) => event.type === 'timer:fired' && event.payload.id === 'abort'),
  isAbortTimerAndEnding: named(
    ({ context, event }) => event.type === 'timer:fired' && event.payload.id === 'abort' && context.endReason !== null,
  ),
  isBackoffTimer: named(({ event }) => event.type === 'timer:fired' && event.payload.id === 'backoff'),
  isIdleTimer: named(({ event }) => event.type === 'timer:fired' && event.payload.id === 'idle'),
  answersPending: named(({ context, event }) => answersPending(context, event)),
  roundsExhausted: named(({ context }) => (context.turn?.round ?? 0) >= context.limits.roundsMax && (context.turn?.attempt ?? 0) === 0),
  overThreshold: named(
    ({ context }) =>
      context.turn !== null &&
      context.messages > 1 &&
      context.compactedRound !== context.turn.round + 1 &&
      context.contextTokens > context.turn.contextLimit * context.limits.compactAtShare,
  ),
  wantsTools: answering(({ event }) => event.type === 'harness:end' && event.payload.toolCalls.length > 0),
  wasSteered: answering(({ context }) => context.steers.length > 0),
  outputInvalid: answering(({ event }) => event.type === 'harness:end' && event.payload.outputValid === false),
  overflowsAndCompactable: answering(
    ({ context, event }) =>
      event.type === 'harness:error' &&
      event.payload.code === 'context_overflow' &&
      context.messages > 1 &&
      context.compactionFailures < COMPACTION_FAILURES_MAX &&
      context.compactedRound !== context.turn?.round,
  ),
  mayRetry: answering(
    ({ context, event }) =>
      event.type === 'harness:error' && event.payload.recoverable && (context.turn?.attempt ?? 0) < context.limits.attemptsMax,
  ),
  hasFallback: answering(({ event }) => event.type === 'harness:error' && event.payload.fallback !== undefined),
  mayRetrySummary: answering(
    ({ context, event }) =>
      event.type === 'harness:error' && event.payload.recoverable && (context.compaction?.attempt ?? 0) < context.limits.attemptsMax,
  ),
  summaryEmpty: answering(({ event }) => event.type === 'harness:end' && event.payload.content.trim() === ''),
  savedInTurn: answering(turnOpen),
  compactionHopeless: named(({ context }) => context.turn !== null && context.compactionFailures >= COMPACTION_FAILURES_MAX),
  needsApproval: named(({ context }) => context.calls.some((call) => call.state === 'planned' && call.approval === 'ask')),
  awaitsApproval: named(({ context }) => context.calls.some((call) => call.state === 'waiting')),
  allCallsDone: named(({ context }) => context.calls.every((call) => call.state === 'done')),
  decidesWaiting: named(
    ({ context, event }) =>
      event.type === 'tool:approval:resolved' && context.calls.some((call) => call.id === event.payload.id && call.state === 'waiting'),
  ),
  isQueued: named(
    ({ context, event }) =>
      event.type === 'prompt:cancelled' && context.mailbox.some((queued) => queued.promptId === event.payload.promptId),
  ),
};

function answersPending(context: SessionContext, event: InputEvent): boolean {
  const key = 'key' in event.payload ? event.payload.key : null;
  return context.pending.some((pending) => pending.key === key);
}

function mailboxFull(context: SessionContext): boolean {
  return context.mailbox.length >= context.limits.mailboxTurnsMax;
}
