import { estimateTokens, type InputEvent, type OutputEvent, type SessionContext } from '../session-context.ts';
import { isoAt, payloadOf, type Step, settleEvent, withTurn } from './step.ts';
import { closeTurn, countSpent, countUsage, TURN_CLOSED } from './turn-steps.ts';

const enterGenerating: Step = (context) => ({
  say: [{ type: 'session:generating', payload: { turn: context.turn?.number ?? 0, round: (context.turn?.round ?? 0) + 1 } }],
});

/** A new round takes in the messages steered into the turn; a further attempt of the same round does not. */
const callModel: Step = (context) => {
  const turn = context.turn;
  if (turn === null) return {};
  const opensRound = turn.attempt === 0;
  const round = opensRound ? turn.round + 1 : turn.round;
  const attempt = turn.attempt + 1;
  const steered = opensRound ? context.steers : [];
  // A round asked again after its compaction is another request: under the old key a provider may answer what it answered before.
  const compacted = context.compactedRound === round ? `.c${context.compactions}` : '';
  const key = `t${turn.number}.r${round}.a${attempt}${turn.fallbacks > 0 ? `.f${turn.fallbacks}` : ''}${compacted}`;
  const steerTokens = steered.reduce((sum, { chars }) => sum + estimateTokens(chars), 0);
  const say: OutputEvent[] = [
    ...steered.map(({ promptId }): OutputEvent => ({ type: 'turn:steered', payload: { turn: turn.number, promptId } })),
    { type: 'context:assembled', payload: { sections: [], tokens: 0, limit: turn.contextLimit, messages: 0, digest: '' } },
    {
      type: 'harness:start',
      payload: {
        key,
        provider: turn.provider,
        model: turn.model,
        round,
        attempt,
        purpose: 'answer',
        inputDigest: '',
        tools: turn.tools.length,
      },
    },
  ];
  return {
    set: {
      ...withTurn(context, { round, attempt, promptIds: [...turn.promptIds, ...steered.map(({ promptId }) => promptId)] }),
      steers: opensRound ? [] : context.steers,
      messages: context.messages + steered.length,
      contextTokens: context.contextTokens + steerTokens,
      dueAt: null,
      pending: [{ kind: 'model', key, purpose: 'answer', provider: turn.provider, model: turn.model, attempt, fallbacks: turn.fallbacks }],
    },
    say,
  };
};

const keepAnswer: Step = (context, event) => {
  const reply = payloadOf(event, 'harness:end');
  const counted = countUsage(context, reply.usage, reply.costUsd);
  return {
    set: {
      ...counted,
      turn: counted.turn ? { ...counted.turn, attempt: 0 } : null,
      messages: context.messages + 1,
      contextTokens: reply.usage.inputTokens + reply.usage.outputTokens,
      pending: settleEvent(context, event),
    },
  };
};

const endTurn: Step = (context, event) => ({
  set: TURN_CLOSED,
  say: closeTurn(context, event.at, payloadOf(event, 'harness:end').stopReason),
});

const endTurnOutOfRounds: Step = (context, event) => ({ set: TURN_CLOSED, say: closeTurn(context, event.at, 'max_rounds') });

const failTurnOutput: Step = (context, event) => {
  const why = payloadOf(event, 'harness:end').outputFault ?? 'no reason given';
  return fail(context, event.at, 'output_invalid', `the answer does not fit output.schema: ${why}`);
};

const failTurnModel: Step = (context, event) => {
  const { code, message } = payloadOf(event, 'harness:error');
  const spent = countSpent(context, event);
  const { set, say = [] } = fail({ ...context, ...spent }, event.at, code, message);
  return { set: { ...spent, ...set }, say };
};

export function fail(context: SessionContext, at: number, code: string, message: string): ReturnType<Step> {
  if (context.turn === null) return {};
  return {
    set: TURN_CLOSED,
    say: [
      { type: 'session:failed', payload: { code, message, state: 'turn', recoverable: true } },
      ...closeTurn(context, at, 'error', { code, message }),
    ],
  };
}

const noteOverflow: Step = (context, event) => ({
  set: {
    pending: settleEvent(context, event),
    ...counted(context, event, (now) => withTurn(now, { attempt: 0, round: Math.max(0, (now.turn?.round ?? 1) - 1) })),
  },
  say: [
    { type: 'context:overflow', payload: { tokens: context.contextTokens, limit: context.turn?.contextLimit ?? context.contextLimit } },
  ],
});

/** A change of what is left when the event has been paid for. */
function counted(context: SessionContext, event: InputEvent, change: (now: SessionContext) => Partial<SessionContext>) {
  const spent = countSpent(context, event);
  return { ...spent, ...change({ ...context, ...spent }) };
}

/** Wait before attempt `attempt + 1`: what the provider asked for, else doubling from backoffMs, spread by the recorded jitter. */
function backoffDelay(context: SessionContext, attempt: number, retryAfterMs: number | undefined, jitter: number): number {
  const { backoffMs, retryAfterMsMax } = context.limits;
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, retryAfterMsMax);
  return Math.round(Math.min(backoffMs * 2 ** (attempt - 1), retryAfterMsMax) * (0.5 + jitter / 2));
}

/** The wait before a model call is made again: an answer's or a summary's, which count their attempts in different places. */
export function planWait(context: SessionContext, event: InputEvent, attempt: number): ReturnType<Step> {
  const { code, message, retryAfterMs, jitter } = payloadOf(event, 'harness:error');
  const delayMs = backoffDelay(context, attempt, retryAfterMs, jitter);
  return {
    set: { ...countSpent(context, event), pending: settleEvent(context, event), dueAt: event.at + delayMs },
    say: [
      { type: 'harness:retry', payload: { attempt: attempt + 1, delayMs, code, message } },
      { type: 'timer:set', payload: { id: 'backoff', ms: delayMs, dueAt: isoAt(event.at + delayMs) } },
    ],
  };
}

const planRetry: Step = (context, event) => planWait(context, event, context.turn?.attempt ?? 1);

const takeFallback: Step = (context, event) => {
  const { fallback, code, message } = payloadOf(event, 'harness:error');
  const spent = countSpent(context, event);
  const turn = spent.turn ?? context.turn;
  if (!fallback || turn === null) return {};
  return {
    set: {
      ...spent,
      pending: settleEvent(context, event),
      // The round stays open: its next attempt goes to another model. Attempt 1 of it must not count as a new round.
      turn: {
        ...turn,
        provider: fallback.provider,
        model: fallback.model,
        fallbacks: turn.fallbacks + 1,
        attempt: 0,
        round: turn.round - 1,
      },
    },
    say: [{ type: 'harness:retry', payload: { attempt: 1, delayMs: 0, code, message } }],
  };
};

export const modelSteps = {
  enterGenerating,
  callModel,
  keepAnswer,
  endTurn,
  endTurnOutOfRounds,
  failTurnOutput,
  failTurnModel,
  noteOverflow,
  planRetry,
  takeFallback,
};
