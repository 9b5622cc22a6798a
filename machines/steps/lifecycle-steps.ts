import { estimateTokens, type OutputEvent } from '../session-context.ts';
import { payloadOf, type Step, settleEvent } from './step.ts';

const ASK_START: readonly OutputEvent[] = [
  { type: 'session:starting', payload: {} },
  { type: 'hook:start', payload: { hook: 'session-start', key: 'start' } },
];

const askStart: Step = (context) => ({
  set: { pending: [...context.pending, { kind: 'hook', key: 'start', hook: 'session-start' }] },
  say: ASK_START,
});

const keepStart: Step = (context, event) => {
  const reply = payloadOf(event, 'hook:end');
  const systemTokens = context.systemTokens + estimateTokens(reply.inject?.length ?? 0);
  return {
    set: {
      pending: settleEvent(context, event),
      bypassed: reply.bypassed || context.bypassed,
      systemTokens,
      contextTokens: context.contextTokens + systemTokens - context.systemTokens,
    },
  };
};

const startDegraded: Step = (context, event) => ({ set: { pending: settleEvent(context, event), degraded: true } });

const enterIdle: Step = (_context, event) => ({
  set: { idleSince: event.at, abort: null, compaction: null, dueAt: null },
  say: [{ type: 'session:idle', payload: {} }],
});

const leaveMemory: Step = () => ({ say: [{ type: 'session:passivated', payload: {} }] });

const keepSettings: Step = (context, event) => {
  const { provider, model, contextLimit } = payloadOf(event, 'session:updated');
  return {
    set: { provider: provider ?? context.provider, model: model ?? context.model, contextLimit: contextLimit ?? context.contextLimit },
  };
};

const keepBypass: Step = (_context, event) => ({ set: { bypassed: payloadOf(event, 'session:bypass:changed').bypassed } });

const rememberEnd: Step = (_context, event) => ({ set: { endReason: payloadOf(event, 'session:end').reason } });

const askEnd: Step = (context) => ({
  set: { pending: [{ kind: 'hook', key: 'end', hook: 'session-end' }], mailbox: [], turn: null, calls: [], steers: [] },
  say: [
    ...context.mailbox.map(({ promptId }) => ({ type: 'turn:rejected', payload: { promptId, reason: 'ended' } }) as const),
    { type: 'session:ending', payload: { reason: context.endReason ?? 'client' } },
    { type: 'hook:start', payload: { hook: 'session-end', key: 'end' } },
  ],
});

const enterEnded: Step = (context, event) => ({
  set: { pending: [] },
  say: [
    {
      type: 'session:ended',
      payload: {
        reason: context.endReason ?? 'client',
        turns: context.turns,
        usage: context.usage,
        costUsd: context.costUsd,
        durationMs: event.at - context.createdAt,
      },
    },
    { type: 'supervisor:child:stopped', payload: { session: context.session, reason: 'ended' } },
  ],
});

export const lifecycleSteps = {
  askStart,
  keepStart,
  startDegraded,
  enterIdle,
  leaveMemory,
  keepSettings,
  keepBypass,
  rememberEnd,
  askEnd,
  enterEnded,
};
