import type { Pending } from '../../../machines/session-context.ts';
import type { PayloadOf } from '../../contract/catalog.ts';
import type { CrossAgentMessage } from '../../contract/cross-agent.ts';
import { daemonOperations } from '../../contract/daemon.ts';
import type { HookName } from '../../contract/signal-spec.ts';
import { AppError } from '../../core/errors.ts';
import type { Call, CallOptions } from '../../core/operation-call.ts';
import { workLimit } from '../caller-limit.ts';
import type { SessionHost } from '../session-host.ts';
import type { InputDraft } from '../session-state.ts';
import { ABORTED, type EffectDeps } from './effect-deps.ts';

/** The smallest window the hook takes; unit: tokens. */
const CONTEXT_TOKENS_MIN = 1_000;

type ShownMessage = Pick<CrossAgentMessage, 'id' | 'type' | 'fromAgentId' | 'fromSessionKey' | 'broadcast'>;
type HookReply = Omit<PayloadOf<'hook:end'>, 'hook' | 'key' | 'durationMs'>;

/** Calls one hook of the daemon within its budget. A hook that fails or is late is an outcome like any other. */
export async function runHook(
  deps: EffectDeps,
  host: SessionHost,
  pending: Pending & { kind: 'hook' },
  signal: AbortSignal,
): Promise<InputDraft[]> {
  const { hook, key } = pending;
  const started = performance.now();
  const durationMs = () => Math.round(performance.now() - started);
  try {
    signal.throwIfAborted();
    const reply = await callHook(deps, host, pending, {
      signal,
      timeoutMs: budgetOf(deps, hook),
      headers: { 'x-signet-runtime-path': 'plugin' },
      limit: workLimit(host),
    });
    return [{ name: 'hook:end', payload: { hook, key, durationMs: durationMs(), ...reply } }];
  } catch (error) {
    return [{ name: 'hook:error', payload: { hook, key, durationMs: durationMs(), ...describe(deps, host, pending, error, signal) } }];
  }
}

function describe(
  { logger, faults }: EffectDeps,
  host: SessionHost,
  { hook, key }: Pending & { kind: 'hook' },
  error: unknown,
  signal: AbortSignal,
): { code: string; message: string } {
  if (signal.aborted) return { code: ABORTED, message: 'the session stopped waiting for it' };
  if (error instanceof AppError) return { code: error.code, message: error.detail };
  logger.error({ err: error, ...faults.keep(host, key, error), hook }, 'a hook failed by a fault of this server');
  return { code: 'internal', message: 'the hook failed; the log has the cause' };
}

function budgetOf({ config: { limits } }: EffectDeps, hook: HookName): number {
  switch (hook) {
    case 'session-start':
      return limits.startTimeoutMs;
    case 'session-end':
      return limits.endTimeoutMs;
    default:
      return limits.researchTimeoutMs;
  }
}

async function callHook(
  deps: EffectDeps,
  host: SessionHost,
  { hook, key }: Pending & { kind: 'hook' },
  options: CallOptions,
): Promise<HookReply> {
  const { session } = host.view;
  const caller = {
    harness: session.harness,
    sessionKey: session.sessionKey,
    agentId: session.agent,
    runtimePath: 'plugin' as const,
    // Two sessions may run under one key: the end of one must not end the claim, and the bypass, of the other.
    holder: session.id,
    ...(session.project ? { project: session.project } : {}),
  };
  return HOOKS[hook]({ call: deps.daemon.call, host, key, caller, readsWorkflows: deps.config.background.workflows, options });
}

interface HookCall {
  readonly call: Call;
  readonly host: SessionHost;
  /** Of the work in hand, the same after a restart. */
  readonly key: string;
  readonly caller: { harness: string; sessionKey: string; agentId: string; runtimePath: 'plugin'; holder: string; project?: string };
  /** Sessions of workflow activations are read for memories too. */
  readonly readsWorkflows: boolean;
  readonly options: CallOptions;
}

const HOOKS: Readonly<Record<HookName, (hook: HookCall) => Promise<HookReply>>> = {
  'session-start': callSessionStart,
  'user-prompt-submit': callPromptSubmit,
  'pre-compaction': callPreCompaction,
  'compaction-complete': callCompactionComplete,
  'session-end': callSessionEnd,
};

async function callSessionStart({ call, host, caller, options }: HookCall): Promise<HookReply> {
  const { bypassed: bypass, resumedFrom, context } = host.view.session;
  const resume = resumedFrom !== null;
  const reply = await call(
    daemonOperations.hookSessionStart,
    { ...caller, contextTokens: Math.max(CONTEXT_TOKENS_MIN, context.limit), ...(resume ? { resume } : {}), ...(bypass ? { bypass } : {}) },
    options,
  );
  return {
    bypassed: reply.bypassed ?? false,
    inject: reply.inject,
    memories: reply.memories.length,
    memoryIds: reply.memories.map(({ id }) => id),
    ...(reply.truncated?.length ? { truncated: reply.truncated } : {}),
  };
}

async function callPromptSubmit({ call, host, key, caller, options }: HookCall): Promise<HookReply> {
  const { entries } = host.core.conversation;
  const prompt = entries.findLast((entry) => entry.role === 'user');
  const last = entries.findLast((entry) => entry.role === 'assistant');
  const lastAssistantMessage = last?.role === 'assistant' ? last.text : '';
  const userMessage = prompt?.role === 'user' ? prompt.text : '';
  const reply = await call(
    daemonOperations.hookUserPromptSubmit,
    { ...caller, userMessage, ...(lastAssistantMessage ? { lastAssistantMessage } : {}), ...heardBefore(host, key) },
    options,
  );
  return {
    bypassed: reply.bypassed ?? false,
    inject: reply.inject,
    memories: reply.memoryCount,
    memoryIds: reply.memories.map(({ id }) => id),
    ...(reply.strong === undefined ? {} : { strong: reply.strong }),
    ...(reply.messages?.length ? { messages: reply.messages.map(messageFacts) } : {}),
  };
}

/** The log says which messages of other agents did arrive: those that were lost on the way are told again. */
function heardBefore(host: SessionHost, key: string): { turnKey: string; heardMessages?: string[] } {
  const last = host.core.conversation.entries.findLast((entry) => entry.role === 'user' && entry.messages !== undefined);
  const heard = last?.role === 'user' ? last.messages : undefined;
  return { turnKey: `${host.view.session.id}:${key}`, ...(heard ? { heardMessages: [...heard] } : {}) };
}

/** What a log says of a message; its text stands in the inject. */
export function messageFacts({ id, type, fromAgentId, fromSessionKey, broadcast }: ShownMessage) {
  return { messageId: id, type, from: fromAgentId, ...(fromSessionKey === undefined ? {} : { fromSession: fromSessionKey }), broadcast };
}

async function callPreCompaction({ call, host, caller, options }: HookCall): Promise<HookReply> {
  const messageCount = host.core.conversation.entries.filter((entry) => !entry.compacted).length;
  const reply = await call(daemonOperations.hookPreCompaction, { ...caller, messageCount }, options);
  return { bypassed: reply.bypassed ?? false, summaryPrompt: reply.summaryPrompt, guidelines: reply.guidelines };
}

async function callCompactionComplete({ call, host, caller, options }: HookCall): Promise<HookReply> {
  const summary = host.core.conversation.summaryText;
  const reply = await call(daemonOperations.hookCompactionComplete, { ...caller, summary, transcript: transcriptOf(host) }, options);
  return { bypassed: reply.bypassed ?? false, ...(reply.memoryId ? { memoryId: reply.memoryId } : {}) };
}

async function callSessionEnd({ call, host, caller, readsWorkflows, options }: HookCall): Promise<HookReply> {
  const transcript = transcriptOf(host);
  const reason = host.core.snapshot.context.endReason ?? 'client';
  const quiet = workflowOf(host) !== undefined && !readsWorkflows;
  const reply = await call(
    daemonOperations.hookSessionEnd,
    { ...caller, reason, transcript, ...(quiet ? { background: false } : {}) },
    options,
  );
  return { bypassed: reply.bypassed ?? false };
}

/** The workflow whose activation a session is; undefined for other sessions. */
export function workflowOf({ view }: SessionHost): string | undefined {
  const { workflow, workflowAgent } = view.session.metadata;
  return typeof workflow === 'string' && typeof workflowAgent === 'string' ? workflow : undefined;
}

/** What was said so far, summaries left out: the daemon keeps what it has not seen yet. */
function transcriptOf(host: SessionHost) {
  return host.core.conversation.entries
    .filter((entry) => entry.role !== 'summary')
    .map((entry) => ({ role: entry.role, content: entry.role === 'tool' ? entry.output : entry.text, at: entry.at }));
}
