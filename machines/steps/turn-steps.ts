import type { PayloadOf } from '../../src/contract/catalog.ts';
import {
  addCost,
  addUsage,
  estimateTokens,
  type InputEvent,
  type OutputEvent,
  type Pending,
  type QueuedPrompt,
  researchInput,
  type SessionContext,
} from '../session-context.ts';
import { newOf, shownOf } from './message-steps.ts';
import { isoAt, payloadOf, type Step, settleEvent, withTurn } from './step.ts';

/** Characters of a prompt kept in the context as the research tools' query; the whole text stands in the log. */
const QUERY_CHARS_MAX = 2_000;

/** Characters of the reason why a research tool failed that a turn keeps. */
const FAULT_CHARS_MAX = 500;

const queuedPrompt = (event: Parameters<Step>[1]): QueuedPrompt => waitingPrompt(payloadOf(event, 'prompt:received'));

/** What the context keeps of a prompt that waits. */
export function waitingPrompt(prompt: PayloadOf<'prompt:received'>): QueuedPrompt {
  return {
    promptId: prompt.promptId,
    provider: prompt.provider ?? null,
    model: prompt.model ?? null,
    contextLimit: prompt.contextLimit ?? null,
    timeoutMs: prompt.timeoutMs ?? null,
    tools: prompt.tools,
    preTools: prompt.preTools,
    chars: prompt.content.length,
    query: prompt.content.slice(0, QUERY_CHARS_MAX),
  };
}

/** Idle sessions take a prompt at once; there is no wait to speak of. */
const takePrompt: Step = (context, event) => ({ set: { mailbox: [...context.mailbox, queuedPrompt(event)] } });

const queuePrompt: Step = (context, event) => {
  const mailbox = [...context.mailbox, queuedPrompt(event)];
  return { set: { mailbox }, say: [{ type: 'turn:queued', payload: { promptId: mailbox.at(-1)!.promptId, position: mailbox.length } }] };
};

const queuePromptFirst: Step = (context, event) => {
  const mailbox = [queuedPrompt(event), ...context.mailbox];
  return { set: { mailbox }, say: [{ type: 'turn:queued', payload: { promptId: mailbox[0]!.promptId, position: 1 } }] };
};

const refuse =
  (reason: 'ended' | 'queue-full' | 'busy'): Step =>
  (_context, event) => ({ say: [{ type: 'turn:rejected', payload: { promptId: payloadOf(event, 'prompt:received').promptId, reason } }] });

const dropQueued: Step = (context, event) => {
  const { promptId } = payloadOf(event, 'prompt:cancelled');
  return { set: { mailbox: context.mailbox.filter((queued) => queued.promptId !== promptId) } };
};

const keepSteer: Step = (context, event) => {
  const { promptId, content } = payloadOf(event, 'prompt:received');
  return { set: { steers: [...context.steers, { promptId, chars: content.length }] } };
};

const openTurn: Step = (context, event) => {
  const [prompt, ...mailbox] = context.mailbox;
  if (!prompt) return {};
  const number = context.turns + 1;
  const deadlineAt = event.at + (prompt.timeoutMs ?? context.limits.turnTimeoutMs);
  return {
    set: {
      mailbox,
      turns: number,
      messages: context.messages + 1,
      contextTokens: context.contextTokens + estimateTokens(prompt.chars),
      compactedRound: 0,
      compactionFailures: 0,
      calls: [],
      turn: {
        number,
        promptId: prompt.promptId,
        promptIds: [prompt.promptId],
        startedAt: event.at,
        deadlineAt,
        provider: prompt.provider ?? context.provider,
        model: prompt.model ?? context.model,
        contextLimit: prompt.contextLimit ?? context.contextLimit,
        tools: prompt.tools,
        query: prompt.query,
        round: 0,
        attempt: 0,
        fallbacks: 0,
        toolCalls: 0,
        usage: { inputTokens: 0, outputTokens: 0 },
        costUsd: 0,
        researchAt: event.at,
        memories: 0,
        researched: 0,
        researchFailed: 0,
      },
      pending: [
        { kind: 'hook', key: `t${number}.hook`, hook: 'user-prompt-submit' },
        ...prompt.preTools.map((name, index) => researchCall(name, number, index, prompt)),
      ],
    },
    say: [
      { type: 'turn:start', payload: { turn: number, promptId: prompt.promptId, deadlineAt: isoAt(deadlineAt) } },
      ...askResearch(prompt, number),
    ],
  };
};

function researchCall(name: string, turn: number, index: number, prompt: QueuedPrompt): Pending {
  const offered = prompt.tools.find((tool) => tool.name === name);
  return {
    kind: 'tool',
    key: `t${turn}.p${index}`,
    id: `pre_${turn}_${index}`,
    name,
    class: offered?.class ?? 'unsafe',
    phase: 'research',
  };
}

function askResearch(prompt: QueuedPrompt, turn: number): OutputEvent[] {
  return [
    { type: 'session:researching', payload: { turn } },
    { type: 'research:start', payload: { promptId: prompt.promptId, tools: [...prompt.preTools] } },
    { type: 'hook:start', payload: { hook: 'user-prompt-submit', key: `t${turn}.hook` } },
    ...prompt.preTools.map((name, index): OutputEvent => {
      const offered = prompt.tools.find((tool) => tool.name === name);
      return {
        type: 'tool:call',
        payload: {
          id: `pre_${turn}_${index}`,
          name,
          input: researchInput(offered, prompt.query),
          key: `t${turn}.p${index}`,
          class: offered?.class ?? 'unsafe',
          origin: offered?.origin ?? 'custom',
          phase: 'research',
        },
      };
    }),
  ];
}

const keepFindings: Step = (context, event) => {
  const reply = payloadOf(event, 'hook:end');
  const chars = reply.inject?.length ?? 0;
  return {
    set: {
      ...withTurn(context, { memories: reply.memories ?? 0 }),
      bypassed: reply.bypassed,
      contextTokens: context.contextTokens + estimateTokens(chars),
      pending: settleEvent(context, event),
      ...shownOf(context, reply),
    },
    say: newOf(context, reply),
  };
};

/** No findings is a poorer answer, not a failed turn. */
const missFindings: Step = (context, event) => ({ set: { pending: settleEvent(context, event) } });

const keepResearch: Step = (context, event) => {
  const result = payloadOf(event, 'tool:result');
  const spent = countSpent(context, event);
  const { turn } = { ...context, ...spent };
  return {
    set: {
      ...spent,
      ...withTurn(
        { ...context, ...spent },
        {
          researched: (turn?.researched ?? 0) + 1,
          researchFailed: (turn?.researchFailed ?? 0) + (result.isError ? 1 : 0),
          ...(result.isError ? { researchFaults: [...(turn?.researchFaults ?? []), faultOf(result)] } : {}),
        },
      ),
      contextTokens: context.contextTokens + estimateTokens(result.isError ? 0 : result.bytes),
      pending: settleEvent(context, event),
    },
  };
};

/** The log holds the whole output; a turn keeps what tells a person why. */
function faultOf({ name, error }: PayloadOf<'tool:result'>): { name: string; code: string; message: string } {
  return { name, code: error?.code ?? 'tool_failed', message: (error?.message ?? 'the tool failed').slice(0, FAULT_CHARS_MAX) };
}

const endResearch: Step = (context, event) =>
  context.turn === null
    ? {}
    : {
        say: [
          {
            type: 'research:end',
            payload: {
              memories: context.turn.memories,
              tools: context.turn.researched,
              failed: context.turn.researchFailed,
              ...(context.turn.researchFaults ? { faults: [...context.turn.researchFaults] } : {}),
              tookMs: event.at - context.turn.researchAt,
            },
          },
        ],
      };

/** Writes the one end of a turn: whatever its outcome, usage and cost are counted and every prompt in it is answered. */
export function closeTurn(
  context: SessionContext,
  at: number,
  stopReason: string,
  error?: { code: string; message: string },
): OutputEvent[] {
  const turn = context.turn;
  if (turn === null) return [];
  return [
    {
      type: 'turn:end',
      payload: {
        turn: turn.number,
        promptId: turn.promptId,
        promptIds: [...turn.promptIds, ...context.steers.map(({ promptId }) => promptId)],
        stopReason,
        rounds: turn.round,
        toolCalls: turn.toolCalls,
        usage: turn.usage,
        costUsd: turn.costUsd,
        durationMs: at - turn.startedAt,
        ...(error ? { error } : {}),
      },
    },
  ];
}

export const TURN_CLOSED = { turn: null, calls: [], steers: [], pending: [], dueAt: null } as const;

/** Adds what a model call used to the turn and to the session. */
export function countUsage(
  context: SessionContext,
  usage: { inputTokens: number; outputTokens: number },
  costUsd: number | null,
): Partial<SessionContext> {
  return {
    ...withTurn(context, {
      usage: addUsage(context.turn?.usage ?? { inputTokens: 0, outputTokens: 0 }, usage),
      costUsd: addCost(context.turn ? context.turn.costUsd : 0, costUsd),
    }),
    usage: addUsage(context.usage, usage),
    costUsd: addCost(context.costUsd, costUsd),
  };
}

/** The same for what failed after it was paid for in part, and for the sessions a tool call has begun. */
export function countSpent(context: SessionContext, event: InputEvent): Partial<SessionContext> {
  if (event.type === 'harness:end') return countUsage(context, event.payload.usage, event.payload.costUsd);
  if (event.type !== 'harness:error' && event.type !== 'tool:result') return {};
  const { usage, costUsd = null } = event.payload;
  return usage ? countUsage(context, usage, costUsd) : {};
}

export const turnSteps = {
  takePrompt,
  queuePrompt,
  queuePromptFirst,
  refuseFull: refuse('queue-full'),
  refuseBusy: refuse('busy'),
  refuseEnded: refuse('ended'),
  dropQueued,
  keepSteer,
  openTurn,
  keepFindings,
  missFindings,
  keepResearch,
  endResearch,
};
