import { type Compaction, estimateTokens, type SessionContext } from '../session-context.ts';
import { fail, planWait } from './model-steps.ts';
import { payloadOf, type Step, settleEvent } from './step.ts';
import { countSpent, countUsage } from './turn-steps.ts';

const HOOK_FAILED = 'compaction_failed';

const openCompaction: Step = (context, event) => {
  const reason = reasonOf(context, event.type);
  const number = context.compactions + 1;
  const compaction: Compaction = { reason, tokensBefore: context.contextTokens, attempt: 0, summaryChars: 0 };
  return {
    set: {
      compaction,
      compactions: number,
      compactedRound: (context.turn?.round ?? 0) + 1,
      pending: [{ kind: 'hook', key: `c${number}.pre`, hook: 'pre-compaction' }],
    },
    say: [
      { type: 'session:compacting', payload: { reason } },
      { type: 'compaction:start', payload: { reason, tokens: context.contextTokens } },
      { type: 'hook:start', payload: { hook: 'pre-compaction', key: `c${number}.pre` } },
    ],
  };
};

function reasonOf(context: SessionContext, eventType: string): Compaction['reason'] {
  if (eventType === 'compaction:requested') return 'manual';
  // A second try keeps the reason of the first.
  if (context.compaction !== null) return context.compaction.reason;
  return eventType === 'harness:error' ? 'overflow' : 'threshold';
}

const keepGuidelines: Step = (context, event) => ({ set: { pending: settleEvent(context, event) } });

const callSummary: Step = (context) => {
  const compaction = context.compaction;
  if (compaction === null) return {};
  const attempt = compaction.attempt + 1;
  const { provider, model } = context.summary ?? context.turn ?? context;
  const key = `c${context.compactions}.a${attempt}`;
  return {
    set: {
      compaction: { ...compaction, attempt },
      dueAt: null,
      pending: [{ kind: 'model', key, purpose: 'summary', provider, model, attempt, fallbacks: 0 }],
    },
    say: [{ type: 'harness:start', payload: { key, provider, model, round: 0, attempt, purpose: 'summary', inputDigest: '', tools: 0 } }],
  };
};

const planSummaryRetry: Step = (context, event) => planWait(context, event, context.compaction?.attempt ?? 1);

const keepSummary: Step = (context, event) => {
  const reply = payloadOf(event, 'harness:end');
  const compaction = context.compaction;
  if (compaction === null) return {};
  const key = `c${context.compactions}.save`;
  return {
    set: {
      ...countUsage(context, reply.usage, reply.costUsd),
      compaction: { ...compaction, summaryChars: reply.content.length },
      pending: [{ kind: 'hook', key, hook: 'compaction-complete' }],
    },
    say: [
      { type: 'compaction:summary', payload: { chars: reply.content.length } },
      { type: 'hook:start', payload: { hook: 'compaction-complete', key } },
    ],
  };
};

const closeCompaction: Step = (context, event) => {
  const compaction = context.compaction;
  if (compaction === null) return {};
  const tokensAfter = context.systemTokens + estimateTokens(compaction.summaryChars);
  const memoryId = event.type === 'hook:end' ? (event.payload.memoryId ?? null) : null;
  return {
    set: {
      compaction: null,
      compactionFailures: 0,
      contextTokens: tokensAfter,
      messages: 1,
      pending: settleEvent(context, event),
    },
    say: [{ type: 'compaction:complete', payload: { memoryId, tokensBefore: compaction.tokensBefore, tokensAfter } }],
  };
};

const failCompaction: Step = (context, event) => {
  const error =
    event.type === 'harness:error'
      ? { code: event.payload.code, message: event.payload.message }
      : { code: HOOK_FAILED, message: 'the model wrote an empty summary' };
  const failures = context.compactionFailures + 1;
  return {
    set: {
      // An empty summary was paid for as well.
      ...countSpent(context, event),
      compactionFailures: failures,
      pending: settleEvent(context, event),
      dueAt: null,
    },
    say: [{ type: 'compaction:error', payload: { ...error, failures } }],
  };
};

const failTurnCompaction: Step = (context, event) =>
  fail(context, event.at, HOOK_FAILED, `the conversation could not be compacted: ${context.compactionFailures} tries in a row failed`);

export const compactionSteps = {
  openCompaction,
  keepGuidelines,
  callSummary,
  planSummaryRetry,
  keepSummary,
  closeCompaction,
  failCompaction,
  failTurnCompaction,
};
