import type { PayloadOf, SignalName } from '../contract/catalog.ts';
import type { Usage } from '../contract/provider.ts';
import type { CallerLimit } from '../contract/scope.ts';
import type { PromptState, PromptStatus, Session, SessionState } from '../contract/session.ts';
import type { Signal } from '../contract/signal.ts';
import { applyGeneration, mergeGeneration } from './generation.ts';

/** Transitions kept for `GET /session/:id/machine`; older ones stand in the log. */
export const HISTORY_TRANSITIONS_MAX = 50;
/** Characters of the first prompt that become the title of a session without one. */
const TITLE_CHARS_MAX = 80;

export interface PromptView extends PromptState {
  readonly bodyDigest: string;
  /** Session whose log has it from beginning to end, when that is not this one: a fork knows the prompts of its parent. */
  readonly log?: string;
  /** Signal its turn began with, when it joined one that was running. */
  readonly turnSeq?: number;
  /** Of the token that sent it. */
  readonly limit?: CallerLimit;
}

export interface ApprovalView {
  readonly id: string;
  readonly tool: string;
  readonly input: unknown;
  readonly reason: string;
  readonly requestedAt: string;
  readonly expiresAt: string;
}

/** Everything clients are shown of a session besides its messages; folded from all of its signals, owned and changed by the fold alone. */
export interface SessionView {
  session: Session;
  bodyDigest: string | null;
  /** Of the token that opened the session. */
  limit?: CallerLimit;
  machine: { id: string; version: string; digest: string };
  prompts: Map<string, PromptView>;
  approvals: Map<string, ApprovalView>;
  decided: Map<string, string>;
  transitions: (PayloadOf<'session:transition'> & { seq: number; at: string })[];
  active: string[];
  since: string;
  /** Keys of model calls in flight: what comes for another one came too late to count. */
  calls: string[];
  lastCompaction:
    | { seq: number; tokensBefore: number; tokensAfter: number; memoryId: string | null }
    | { seq: number; code: string; message: string }
    | null;
}

function count({ session }: SessionView, usage: Usage, costUsd: number | null): void {
  const sum = session.usage;
  sum.inputTokens += usage.inputTokens;
  sum.outputTokens += usage.outputTokens;
  if (usage.cacheReadTokens) sum.cacheReadTokens = (sum.cacheReadTokens ?? 0) + usage.cacheReadTokens;
  if (usage.cacheWriteTokens) sum.cacheWriteTokens = (sum.cacheWriteTokens ?? 0) + usage.cacheWriteTokens;
  if (usage.estimated) sum.estimated = true;
  session.costUsd = session.costUsd === null || costUsd === null ? null : session.costUsd + costUsd;
}

type SignalFacts = Pick<Signal, 'seq' | 'timestamp'>;
type Folds = { readonly [N in SignalName]?: (view: SessionView, payload: PayloadOf<N>, signal: SignalFacts) => void };

const enter =
  (state: SessionState) =>
  (view: SessionView): void => {
    view.session.state = state;
  };

/** Model calls that were in flight are given up: also those of a compaction, which has no turn that could end. */
const enterQuiet =
  (state: SessionState) =>
  (view: SessionView): void => {
    view.session.state = state;
    view.calls = [];
  };

const FOLDS: Folds = {
  'session:starting': enter('starting'),
  'session:idle': enterQuiet('idle'),
  'session:researching': enter('researching'),
  'session:generating': enter('generating'),
  'session:tool-looping': enter('tool-looping'),
  'session:compacting': enter('compacting'),
  'session:aborting': enter('aborting'),
  'session:ending': enterQuiet('ending'),
  'session:passivated': enter('passivated'),
  'session:ended': (view, payload) => {
    view.session.state = 'ended';
    view.session.endReason = payload.reason;
  },
  'session:transition': (view, payload, { seq, timestamp }) => {
    view.session.value = payload.value;
    view.active = payload.to;
    view.since = timestamp;
    view.transitions.push({ ...payload, seq, at: timestamp });
    if (view.transitions.length > HISTORY_TRANSITIONS_MAX) view.transitions.shift();
  },
  'session:updated': (view, { title, provider, model, metadata, contextLimit, ...change }) => {
    Object.assign(view.session, defined({ title, provider, model, metadata }));
    applyGeneration(view.session, change);
    if (contextLimit !== undefined) view.session.context.limit = contextLimit;
  },
  'session:bypass:changed': (view, { bypassed }) => {
    view.session.bypassed = bypassed;
  },
  'hook:end': (view, { bypassed, hook, key }) => {
    // The hook of a turn that was given up may answer in the next one.
    if (hook === 'user-prompt-submit' && key !== `t${view.session.turn?.number}.hook`) return;
    if (hook === 'session-start' || hook === 'user-prompt-submit')
      view.session.bypassed = bypassed || (view.session.bypassed && hook === 'session-start');
  },
  'hook:error': (view, { hook }) => {
    if (hook === 'session-start') view.session.degraded = true;
  },
  'prompt:received': (view, payload, { seq, timestamp }) => {
    view.prompts.set(payload.promptId, {
      id: payload.promptId,
      status: 'queued',
      position: null,
      turn: null,
      seq,
      endSeq: null,
      receivedAt: timestamp,
      endedAt: null,
      error: null,
      bodyDigest: payload.bodyDigest,
      ...(payload.limit ? { limit: payload.limit } : {}),
    });
    if (view.session.title === '') view.session.title = titleOf(payload.content);
  },
  'turn:queued': (view, { promptId, position }) => {
    if (position === 1) view.session.queue.unshift(promptId);
    else view.session.queue.push(promptId);
    renumber(view);
  },
  'turn:rejected': (view, { promptId, reason }, signal) => {
    leaveQueue(view, promptId);
    endPrompt(view, promptId, 'rejected', signal, { code: reason, message: `the prompt was refused: ${reason}` });
  },
  'prompt:cancelled': (view, { promptId }, signal) => {
    leaveQueue(view, promptId);
    endPrompt(view, promptId, 'cancelled', signal, null);
  },
  'turn:start': (view, { turn, promptId, deadlineAt }, { timestamp }) => {
    leaveQueue(view, promptId);
    view.session.turns = turn;
    view.session.turn = { number: turn, promptId, round: 0, startedAt: timestamp, deadlineAt };
    startPrompt(view, promptId, turn);
  },
  'turn:steered': (view, { promptId, turn }) => {
    const first = [...view.prompts.values()].find((prompt) => prompt.turn === turn);
    startPrompt(view, promptId, turn, first?.seq);
  },
  'turn:end': (view, payload, signal) => {
    view.session.turn = null;
    view.calls = [];
    view.approvals.clear();
    const status: PromptStatus = payload.stopReason === 'error' ? 'failed' : payload.stopReason === 'cancelled' ? 'aborted' : 'completed';
    for (const promptId of payload.promptIds) endPrompt(view, promptId, status, signal, payload.error ?? null);
  },
  'context:assembled': (view, { tokens, limit }) => {
    view.session.context = { tokens, limit };
  },
  'harness:start': (view, { key, round, purpose }) => {
    view.calls.push(key);
    if (view.session.turn && purpose === 'answer') view.session.turn.round = round;
  },
  'harness:error': (view, { key, usage, costUsd = null }) => {
    if (usage && view.calls.includes(key)) count(view, usage, costUsd);
    view.calls = view.calls.filter((call) => call !== key);
  },
  'harness:end': (view, { key, usage, costUsd }) => {
    if (!view.calls.includes(key)) return;
    view.calls = view.calls.filter((call) => call !== key);
    count(view, usage, costUsd);
  },
  'tool:result': (view, { key, usage, costUsd = null }) => {
    // What an earlier turn gave up came too late to count.
    if (usage && view.session.turn && key.startsWith(`t${view.session.turn.number}.`)) count(view, usage, costUsd);
  },
  'tool:approval:requested': (view, { id, name, input, reason, expiresAt }, { timestamp }) => {
    view.approvals.set(id, { id, tool: name, input, reason, requestedAt: timestamp, expiresAt });
  },
  'tool:approval:resolved': (view, { id, decision }) => {
    const decided = view.approvals.get(id);
    for (const approval of [...view.approvals.values()]) {
      if (approval.id !== id && !(decision === 'always' && approval.tool === decided?.tool)) continue;
      view.approvals.delete(approval.id);
      view.decided.set(approval.id, decision);
    }
  },
  'compaction:complete': (view, { tokensBefore, tokensAfter, memoryId }, { seq }) => {
    view.lastCompaction = { seq, tokensBefore, tokensAfter, memoryId };
    view.session.context.tokens = tokensAfter;
  },
  'compaction:error': (view, { code, message }, { seq }) => {
    view.lastCompaction = { seq, code, message };
  },
};

/** A view as plain data: Maps stand as lists of entries. */
export function plainView({ prompts, approvals, decided, ...shown }: SessionView): Record<string, unknown> {
  return { ...shown, prompts: [...prompts], approvals: [...approvals], decided: [...decided] };
}

export function restoreView(plain: Record<string, unknown>): SessionView {
  const { prompts, approvals, decided, ...shown } = plain as { prompts: []; approvals: []; decided: [] };
  return { ...(shown as unknown as SessionView), prompts: new Map(prompts), approvals: new Map(approvals), decided: new Map(decided) };
}

/** The view a session begins with; a fork has the prompts of the session it comes from. */
export function createView(created: PayloadOf<'session:created'>, at: string): SessionView {
  const fresh = freshView(created, at);
  if (!created.seed) return fresh;
  const parent = restoreView(structuredClone(created.seed.view));
  const { title, queue, turn, turns, context } = parent.session;
  return {
    ...fresh,
    prompts: new Map([...parent.prompts].map(([id, prompt]) => [id, inherited(prompt, created.forkedFrom?.session)])),
    approvals: parent.approvals,
    decided: parent.decided,
    session: { ...fresh.session, title: created.title || title, queue, turn, turns, context: { ...context, limit: created.contextLimit } },
  };
}

/** What has ended stands in the log of the parent; what is under way ends in the fork's own, which begins with it. */
function inherited(prompt: PromptView, parent: string | undefined): PromptView {
  if (prompt.endSeq === null) return { ...prompt, seq: 1 };
  return prompt.log === undefined && parent !== undefined ? { ...prompt, log: parent } : prompt;
}

function freshView(created: PayloadOf<'session:created'>, at: string): SessionView {
  return {
    session: {
      id: created.session,
      sessionKey: created.key,
      agent: created.agent,
      title: created.title,
      project: created.project,
      parentId: created.parentSession,
      resumedFrom: created.resumedFrom,
      forkedFrom: created.forkedFrom ?? null,
      harness: created.harness,
      provider: created.provider,
      model: created.model,
      ...mergeGeneration(created),
      state: 'starting',
      value: 'starting',
      turn: null,
      queue: [],
      turns: 0,
      usage: { inputTokens: 0, outputTokens: 0 },
      costUsd: 0,
      context: { tokens: 0, limit: created.contextLimit },
      bypassed: created.bypassed,
      degraded: false,
      seq: 0,
      metadata: created.metadata,
      createdAt: at,
      updatedAt: at,
      endReason: null,
    },
    bodyDigest: created.bodyDigest ?? null,
    ...(created.limit ? { limit: created.limit } : {}),
    machine: created.machine,
    prompts: new Map(),
    approvals: new Map(),
    decided: new Map(),
    transitions: [],
    active: [],
    since: at,
    calls: [],
    lastCompaction: null,
  };
}

/** Changes `view` by one more signal of its session. */
export function foldView(view: SessionView, signal: Pick<Signal, 'name' | 'payload' | 'seq' | 'timestamp'>): void {
  const fold = FOLDS[signal.name as SignalName] as ((view: SessionView, payload: unknown, signal: SignalFacts) => void) | undefined;
  fold?.(view, signal.payload, signal);
  view.session.seq = signal.seq;
  view.session.updatedAt = signal.timestamp;
}

function startPrompt(view: SessionView, promptId: string, turn: number, turnSeq?: number): void {
  const prompt = view.prompts.get(promptId);
  if (!prompt) return;
  view.prompts.set(promptId, { ...prompt, status: 'running', position: null, turn, ...(turnSeq === undefined ? {} : { turnSeq }) });
}

function endPrompt(view: SessionView, promptId: string, status: PromptStatus, signal: SignalFacts, error: PromptState['error']): void {
  const prompt = view.prompts.get(promptId);
  if (prompt) view.prompts.set(promptId, { ...prompt, status, position: null, endSeq: signal.seq, endedAt: signal.timestamp, error });
}

function leaveQueue(view: SessionView, promptId: string): void {
  const index = view.session.queue.indexOf(promptId);
  if (index < 0) return;
  view.session.queue.splice(index, 1);
  renumber(view);
}

function renumber(view: SessionView): void {
  view.session.queue.forEach((promptId, index) => {
    const prompt = view.prompts.get(promptId);
    if (prompt) view.prompts.set(promptId, { ...prompt, position: index + 1 });
  });
}

/** First line of a prompt, cut to what a list can show. */
export function titleOf(content: string): string {
  const line = content.trim().split('\n')[0]!.trim();
  return line.length > TITLE_CHARS_MAX ? `${line.slice(0, TITLE_CHARS_MAX - 1)}…` : line;
}

function defined<T extends object>(fields: T): Partial<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>;
}
