import { type Call, estimateTokens, type OutputEvent, type Pending } from '../session-context.ts';
import { isoAt, payloadOf, type Step, settleEvent, withTurn } from './step.ts';
import { countSpent } from './turn-steps.ts';

const planCalls: Step = (context, event) => {
  const { toolCalls } = payloadOf(event, 'harness:end');
  const turn = context.turn;
  if (turn === null) return {};
  const calls = toolCalls.map((call, index): Call => {
    const allowed = call.approval === 'ask' && context.allowedTools.includes(call.name);
    const approval = allowed ? 'allow' : call.approval;
    return {
      ...call,
      approval,
      key: `t${turn.number}.r${turn.round}.c${index}`,
      state: approval === 'deny' ? 'done' : approval === 'allow' ? 'allowed' : 'planned',
      expiresAt: 0,
    };
  });
  return { set: { calls, ...withTurn(context, { toolCalls: turn.toolCalls + calls.length }) } };
};

const enterToolLooping: Step = (context) => ({
  say: [{ type: 'session:tool-looping', payload: { turn: context.turn?.number ?? 0, round: context.turn?.round ?? 0 } }],
});

const askApprovals: Step = (context, event) => {
  const expiresAt = event.at + context.limits.approvalTimeoutMs;
  const asked = context.calls.filter((call) => call.state === 'planned' && call.approval === 'ask');
  return {
    set: { calls: context.calls.map((call) => (asked.includes(call) ? { ...call, state: 'waiting', expiresAt } : call)) },
    say: asked.map(({ id, name, input, reason }) => ({
      type: 'tool:approval:requested',
      payload: { id, name, input, reason: reason ?? 'this tool asks before it runs', expiresAt: isoAt(expiresAt) },
    })),
  };
};

const keepDecision: Step = (context, event) => {
  const { id, decision } = payloadOf(event, 'tool:approval:resolved');
  const name = context.calls.find((call) => call.id === id)?.name;
  // "always" speaks for the tool, so it also answers the other calls of it that wait.
  const fits = (call: Call) => call.state === 'waiting' && (call.id === id || (decision === 'always' && call.name === name));
  return {
    set: {
      calls: context.calls.map((call) => (fits(call) ? { ...call, state: decision === 'deny' ? 'done' : 'allowed' } : call)),
      allowedTools: decision === 'always' && name ? [...context.allowedTools, name] : context.allowedTools,
    },
  };
};

const runCalls: Step = (context) => {
  const ready = context.calls.filter((call) => call.state === 'allowed');
  const say = ready.map(
    ({ id, name, input, key, class: toolClass, origin }): OutputEvent => ({
      type: 'tool:call',
      payload: { id, name, input, key, class: toolClass, origin, phase: 'turn' },
    }),
  );
  const pending = ready.map(
    ({ id, name, key, class: toolClass }): Pending => ({ kind: 'tool', key, id, name, class: toolClass, phase: 'turn' }),
  );
  return {
    set: {
      calls: context.calls.map((call) => (call.state === 'allowed' ? { ...call, state: 'running' } : call)),
      pending: [...context.pending, ...pending],
    },
    say,
  };
};

const keepResult: Step = (context, event) => {
  const { key, bytes } = payloadOf(event, 'tool:result');
  return {
    set: {
      ...countSpent(context, event),
      calls: context.calls.map((call) => (call.key === key ? { ...call, state: 'done', input: null } : call)),
      pending: settleEvent(context, event),
      messages: context.messages + 1,
      contextTokens: context.contextTokens + estimateTokens(bytes),
    },
  };
};

const clearCalls: Step = () => ({ set: { calls: [] } });

export const toolSteps = { planCalls, enterToolLooping, askApprovals, keepDecision, runCalls, keepResult, clearCalls };
