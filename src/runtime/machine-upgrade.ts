import { SESSION_MACHINE_VERSION, sessionMachine } from '../../machines/session.machine.ts';
import {
  addCost,
  addUsage,
  estimateTokens,
  initialContext,
  type OutputEvent,
  type QueuedPrompt,
  type SessionContext,
} from '../../machines/session-context.ts';
import { waitingPrompt } from '../../machines/steps/turn-steps.ts';
import type { PayloadOf, SignalName } from '../contract/catalog.ts';
import type { MachineRef } from '../contract/runtime.ts';
import type { Signal } from '../contract/signal.ts';
import { sessionMachineRef } from './machine-service.ts';
import type { FoldedSession, ForeignPart, InputDraft, SessionSnapshot } from './session-state.ts';

type Created = PayloadOf<'session:created'>;
type Upgraded = PayloadOf<'session:upgraded'>;

const NO_WORK = { toolCalls: 0, usage: { inputTokens: 0, outputTokens: 0 }, costUsd: 0 } as const;

/** Set when another version of the machine wrote the log that begins so. */
export function foreignFrom(created: Created): { foreign?: ForeignPart } {
  return isOwn(created.machine) ? {} : { foreign: boundaryFrom(created) };
}

/** What the last turn boundary needs at the beginning of a log. */
export function boundaryFrom(created: Created): ForeignPart {
  const before = created.seed?.context as Partial<SessionContext> | undefined;
  const { compactions = 0, allowedTools = [] } = before ?? {};
  return { ...NO_WORK, machine: created.machine, created, prompts: [], asked: {}, allowedTools, compactions, end: null };
}

/** The same one signal later, whoever wrote it: kept with a checkpoint, for the versions that come after this one. */
export function boundaryAfter(part: ForeignPart, signal: Signal): ForeignPart {
  if (signal.name === 'session:upgraded') return { ...part, machine: (signal.payload as unknown as Upgraded).machine.to };
  return foldForeign(part, signal);
}

/** Undefined once the log was upgraded to the version of this program. */
export function foreignAfter(part: ForeignPart | undefined, { machine: { to } }: Upgraded): ForeignPart | undefined {
  return isOwn(to) || !part ? undefined : { ...part, machine: to };
}

type Folds = { readonly [N in SignalName]?: (part: ForeignPart, payload: PayloadOf<N>) => Partial<ForeignPart> };

const FOLDS: Folds = {
  'prompt:received': ({ prompts }, prompt) => ({ prompts: [...prompts, prompt] }),
  'turn:rejected': (part, { promptId }) => ({ prompts: without(part, [promptId]) }),
  'prompt:cancelled': (part, { promptId }) => ({ prompts: without(part, [promptId]) }),
  'turn:start': () => NO_WORK,
  'turn:end': (part, { promptIds }) => ({ prompts: without(part, promptIds), asked: {} }),
  'harness:end': ({ usage, costUsd }, call) => ({ usage: addUsage(usage, call.usage), costUsd: addCost(costUsd, call.costUsd) }),
  'tool:call': ({ toolCalls }, { phase }) => ({ toolCalls: toolCalls + (phase === 'turn' ? 1 : 0) }),
  'tool:approval:requested': ({ asked }, { id, name }) => ({ asked: { ...asked, [id]: name } }),
  'tool:approval:resolved': ({ asked, allowedTools }, { id, decision }) => {
    const tool = asked[id];
    return decision === 'always' && tool !== undefined ? { allowedTools: [...allowedTools, tool] } : {};
  },
  'compaction:start': ({ compactions }) => ({ compactions: compactions + 1 }),
  'session:end': (_part, end) => ({ end }),
};

/** Keeps what the last turn boundary needs; signals say that in every version, and the machine is not asked. */
export function foldForeign(part: ForeignPart, { name, payload }: Signal): ForeignPart {
  const fold = FOLDS[name as SignalName] as ((part: ForeignPart, payload: unknown) => Partial<ForeignPart>) | undefined;
  return fold ? { ...part, ...fold(part, payload) } : part;
}

/**
 * The fold of a log that another version wrote, in a state of this one: that of the last turn boundary. Between two turns, or not started
 * yet; the queue is kept. A log of this version is left as it is.
 */
export function atBoundary(folded: FoldedSession): FoldedSession {
  const { foreign } = folded.core;
  if (!foreign) return folded;
  const value = folded.view.session.state === 'starting' ? 'starting' : 'idle';
  const snapshot = resolve(value, boundaryContext(folded, foreign));
  return { core: { ...folded.core, snapshot }, view: folded.view };
}

/** What takes a session that `atBoundary` left there over to this version; the turn that was open fails. None for a log of this version. */
export function upgradeDrafts({ core, view }: FoldedSession): InputDraft[] {
  const { foreign, snapshot } = core;
  if (!foreign || view.session.state === 'ended') return [];
  const { state, turn, queue } = view.session;
  const joined = foreign.prompts.map(({ promptId }) => promptId).filter((id) => id !== turn?.promptId && !queue.includes(id));
  const upgraded: Upgraded = {
    machine: { from: foreign.machine, to: sessionMachineRef() },
    value: snapshot.value as Upgraded['value'],
    context: { ...snapshot.context },
    open: turn && {
      turn: turn.number,
      promptId: turn.promptId,
      promptIds: [turn.promptId, ...joined],
      rounds: turn.round,
      startedAt: turn.startedAt,
      toolCalls: foreign.toolCalls,
      usage: foreign.usage,
      costUsd: foreign.costUsd,
    },
    compacting: state === 'compacting',
  };
  return [
    { name: 'session:upgraded', payload: upgraded },
    ...(foreign.end ? [{ name: 'session:end' as const, payload: foreign.end }] : []),
  ];
}

/** From what the signals say. */
function boundaryContext({ core, view: { session } }: FoldedSession, foreign: ForeignPart): SessionContext {
  return {
    ...initialContext({ at: Date.parse(session.createdAt), created: foreign.created }),
    provider: session.provider,
    model: session.model,
    contextLimit: session.context.limit,
    bypassed: session.bypassed,
    degraded: session.degraded,
    turns: session.turns,
    mailbox: session.queue.flatMap((id) => queued(core.snapshot.context, foreign, id)),
    pending: session.state === 'starting' ? [{ kind: 'hook', key: 'start', hook: 'session-start' }] : [],
    allowedTools: foreign.allowedTools,
    usage: session.usage,
    costUsd: session.costUsd,
    contextTokens: session.context.tokens,
    systemTokens: estimateTokens(core.conversation.system.length),
    messages: core.conversation.entries.filter((entry) => !entry.compacted).length,
    compactions: foreign.compactions,
    idleSince: core.at,
  };
}

/** A prompt that came before a checkpoint stands in the context that was kept there. */
function queued(kept: SessionContext, { prompts }: ForeignPart, id: string): QueuedPrompt[] {
  const prompt = prompts.find(({ promptId }) => promptId === id);
  return prompt ? [waitingPrompt(prompt)] : kept.mailbox.filter(({ promptId }) => promptId === id);
}

/** The state the session goes on from. */
export function upgradedSnapshot({ value, context }: Upgraded): SessionSnapshot {
  return resolve(value, context as unknown as SessionContext);
}

function resolve(value: Upgraded['value'], context: SessionContext): SessionSnapshot {
  return sessionMachine.resolveState({ value, context }) as SessionSnapshot;
}

/** What the log says of the boundary, before the machine says anything. @param at  time of the upgrade in ms */
export function upgradeOutputs({ machine: { from, to }, value, open, compacting }: Upgraded, at: number): OutputEvent[] {
  const error = {
    code: 'machine_upgraded',
    message: `the turn was open when the session went over from version ${from.version} of its machine to ${to.version}; send the prompt again`,
  };
  const ended = open && {
    turn: open.turn,
    promptId: open.promptId,
    promptIds: open.promptIds,
    stopReason: 'error',
    rounds: open.rounds,
    toolCalls: open.toolCalls,
    usage: open.usage,
    costUsd: open.costUsd,
    durationMs: Math.max(0, at - Date.parse(open.startedAt)),
    error,
  };
  return [
    ...(compacting ? [{ type: 'compaction:error' as const, payload: { ...error, failures: 1 } }] : []),
    ...(ended ? [{ type: 'turn:end' as const, payload: ended }] : []),
    ...(value === 'idle'
      ? [{ type: 'session:idle' as const, payload: {} }]
      : [
          { type: 'session:starting' as const, payload: {} },
          { type: 'hook:start' as const, payload: { hook: 'session-start' as const, key: 'start' } },
        ]),
  ];
}

export function isOwn({ version }: MachineRef): boolean {
  return version === SESSION_MACHINE_VERSION;
}

function without({ prompts }: ForeignPart, ids: readonly string[]): ForeignPart['prompts'] {
  return prompts.filter(({ promptId }) => !ids.includes(promptId));
}
