import type { Pending } from '../../../machines/session-context.ts';
import type { PayloadOf } from '../../contract/catalog.ts';
import type { Generation } from '../../contract/generation.ts';
import type { Usage } from '../../contract/provider.ts';
import type { RequestedCall } from '../../contract/signal-spec.ts';
import { assembleContext, assembleSummaryRequest } from '../../core/context.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { mergeGeneration } from '../../core/generation.ts';
import { parseJsonAnswer } from '../../core/json-answer.ts';
import type { CompletionOptions, CompletionResult, ToolCall } from '../../core/provider.ts';
import type { CallAccount } from '../../core/usage.ts';
import { costOf } from '../../providers/metered.ts';
import { modelInfo } from '../../providers/prices.ts';
import { compileAcceptedOutput } from '../../tools/tool-input.ts';
import { callPolicy, type PolicyAnswer } from '../approval-policy.ts';
import type { SessionHost } from '../session-host.ts';
import type { InputDraft } from '../session-state.ts';
import type { LimitMet } from '../slots.ts';
import { classOf } from './call-class.ts';
import { ABORTED, type EffectDeps } from './effect-deps.ts';
import { workflowOf } from './hook-effect.ts';

/** What every provider takes back; an id that is sent anew is cut to it. */
const CALL_ID_CHARS_MAX = 64;
/** Of them, what may tell two calls of one id apart: `_` and a number. */
const CALL_NUMBER_CHARS_MAX = 8;

/** What the conversation is taken to have more than was counted or estimated of it. */
const USED_TOKENS_MARGIN = 1.05;
/** Asked for whatever the estimate says: the provider knows better, and its answer tells when there is no room. */
const ROOM_TOKENS_MIN = 1_024;

type ModelPending = Pending & { kind: 'model' };

/** Calls the model once. Text goes to live readers as it comes; the log gets the whole, or how it failed. */
export async function runModel(deps: EffectDeps, host: SessionHost, pending: ModelPending, signal: AbortSignal): Promise<InputDraft[]> {
  const watch = new CallWatch();
  try {
    signal.throwIfAborted();
    const release = await deps.providerSlots.take(host.core.agent, signal, (met) => noteQueued(host, met));
    try {
      const result = await stream(deps, host, pending, signal, watch);
      return succeeded(deps, host, pending, result, watch);
    } finally {
      release();
    }
  } catch (error) {
    return failed(deps, host, pending, error, signal, watch);
  }
}

/** A call that waits its turn says so in its session's log. The wait does not depend on it: a session that is gone by then says nothing. */
function noteQueued(host: SessionHost, { scope, limit, current }: LimitMet): void {
  const kind = scope === 'key' ? 'agent-provider-calls' : 'provider-calls';
  host.note({ name: 'supervisor:limit', payload: { kind, limit, current, action: 'queued' } });
}

class CallWatch {
  readonly #started = performance.now();
  text = '';
  /** As far as the provider has told it. */
  usage: Usage | null = null;
  firstTokenMs: number | null = null;

  get durationMs(): number {
    return Math.round(performance.now() - this.#started);
  }

  seen(): void {
    this.firstTokenMs ??= this.durationMs;
  }
}

async function stream(
  deps: EffectDeps,
  host: SessionHost,
  pending: ModelPending,
  signal: AbortSignal,
  watch: CallWatch,
): Promise<CompletionResult> {
  const provider = deps.providers.get(pending.provider);
  const isSummary = pending.purpose === 'summary';
  const { conversation, snapshot } = host.core;
  const { systemPrompt, messages } = isSummary ? assembleSummaryRequest(conversation) : assembleContext(conversation);
  const offered = snapshot.context.turn?.tools.map((tool) => tool.name) ?? [];
  // After a restart servers may still be on their way; those that cannot be reached are not waited for again.
  if (!isSummary) await untilAttempted(deps, host, offered, signal);
  const outputSchema = isSummary ? undefined : openPrompt(host)?.outputSchema;
  const options: CompletionOptions = {
    model: pending.model,
    ...generationFor(deps, host, pending),
    ...roomFor(deps, host, pending),
    systemPrompt,
    signal,
    idempotencyKey: `${host.id}:${pending.key}`,
    account: accountOf(host, pending),
    onUsage: (usage) => {
      watch.usage = usage;
    },
    ...(isSummary || offered.length === 0 ? {} : { tools: deps.tools.definitions(offered) }),
    ...(outputSchema ? { outputSchema } : {}),
  };
  deps.hub.beginText(host.id, pending.key, isSummary);
  for await (const chunk of provider.stream(messages, options)) {
    if (chunk.type === 'done') return chunk.result;
    watch.seen();
    if (chunk.type === 'text') watch.text += chunk.text;
    deps.hub.addText(host.id, pending.key, chunk.type, chunk.text);
  }
  throw new AppError('provider_stream_cut', { detail: `${pending.provider} ended its answer without saying so` });
}

/**
 * How the answer is to be written: as the prompt says, else the session and its agent, else the provider, else `runtime:`. A summary is none
 * of the prompt's: it has only what the provider and the runtime say of sampling, and nothing ends it early.
 */
function generationFor({ config }: EffectDeps, host: SessionHost, { provider, purpose }: ModelPending): Generation {
  const configured = mergeGeneration(config.providers[provider], config);
  const { temperature, topP } = configured;
  const wanted =
    purpose === 'summary'
      ? mergeGeneration({ temperature, topP })
      : mergeGeneration(openPrompt(host)?.generation, host.view.session, configured);
  const { thinkingTokens, stopSequences, maxTokens, ...sampling } = wanted;
  const limit = config.limits.outputTokensMax;
  const most = maxTokens === undefined || limit === undefined ? (maxTokens ?? limit) : Math.min(maxTokens, limit);
  return {
    ...sampling,
    ...(most === undefined ? {} : { maxTokens: most }),
    ...(stopSequences && stopSequences.length > 0 ? { stopSequences } : {}),
    ...(thinkingTokens ? { thinkingTokens } : {}),
  };
}

/** Left out when nobody knows how much the model takes in. */
function roomFor({ config, providers }: EffectDeps, host: SessionHost, { provider, model }: ModelPending): { roomTokens?: number } {
  const override = config.providers[provider]?.models?.[model];
  const { contextTokens } = modelInfo(providers.get(provider).id, { id: model }, override);
  if (contextTokens === null) return {};
  const used = Math.ceil(host.core.snapshot.context.contextTokens * USED_TOKENS_MARGIN);
  return { roomTokens: Math.max(contextTokens - used, ROOM_TOKENS_MIN) };
}

async function untilAttempted({ toolService, logger }: EffectDeps, host: SessionHost, offered: readonly string[], signal: AbortSignal) {
  const awaited = offered.filter((name) => toolService.isAwaited(name));
  if (awaited.length === 0) return;
  logger.info({ session: host.id, tools: awaited }, 'a model call waits until the servers of its tools were tried once');
  await toolService.attempted(awaited, signal);
}

function openPrompt(host: SessionHost) {
  const promptId = host.core.snapshot.context.turn?.promptId;
  const entry = host.core.conversation.entries.findLast((candidate) => candidate.role === 'user' && candidate.promptId === promptId);
  return entry?.role === 'user' ? entry : undefined;
}

function succeeded(deps: EffectDeps, host: SessionHost, pending: ModelPending, result: CompletionResult, watch: CallWatch): InputDraft[] {
  const { key } = pending;
  const thinking = result.thinking?.filter((part) => part.text !== '' || part.signature) ?? [];
  const outputFault = schemaFault(deps, host, pending, result);
  const end: PayloadOf<'harness:end'> = {
    key,
    content: result.content,
    ...(thinking.length > 0 ? { thinking: thinking.map(({ text, signature }) => ({ text, ...(signature ? { signature } : {}) })) } : {}),
    toolCalls: (pending.purpose === 'answer' ? withOwnIds(result.toolCalls ?? [], host) : []).map((call) =>
      requestedCall(deps, host, call),
    ),
    stopReason: result.stopReason,
    model: result.model,
    usage: result.usage,
    costUsd: priceOf(deps, pending, result),
    durationMs: watch.durationMs,
    firstTokenMs: watch.firstTokenMs,
    ...(outputFault === undefined ? {} : { outputValid: outputFault === '', ...(outputFault ? { outputFault } : {}) }),
  };
  const thought = thinking.map((part) => part.text).join('');
  return [
    ...(thought === '' ? [] : [{ name: 'thinking:complete' as const, payload: { key, content: thought } }]),
    ...(result.content === '' ? [] : [{ name: 'text:complete' as const, payload: { key, content: result.content } }]),
    { name: 'harness:end', payload: end },
  ];
}

/**
 * Some servers send no ids, or the same ones in every answer; results and approvals of a session are told apart by them. The call gets its own
 * id before it is recorded, so the model is sent the same one in each later request.
 */
function withOwnIds(calls: readonly ToolCall[], { core, view }: SessionHost): ToolCall[] {
  if (calls.length === 0) return [];
  const asked = core.conversation.entries.flatMap((entry) => (entry.role === 'assistant' ? entry.toolCalls.map(({ id }) => id) : []));
  const taken = new Set([...asked, ...view.approvals.keys(), ...view.decided.keys()]);
  return calls.map((call, index) => {
    const id = freeId(call.id, index, taken);
    taken.add(id);
    return { ...call, id };
  });
}

function freeId(sent: string, index: number, taken: ReadonlySet<string>): string {
  const first = sent === '' ? `call_${index}` : sent;
  if (!taken.has(first)) return first;
  const base = first.slice(0, CALL_ID_CHARS_MAX - CALL_NUMBER_CHARS_MAX);
  for (let number = Math.max(index, 1); ; number += 1) {
    const id = `${base}_${number}`;
    if (!taken.has(id)) return id;
  }
}

/** What the registry and the policy say of a call now; the machine decides by it. */
function requestedCall(deps: EffectDeps, host: SessionHost, call: ToolCall): RequestedCall {
  const tool = deps.tools.get(call.name);
  const { agent } = host.view.session;
  const offered = host.core.snapshot.context.turn?.tools ?? [];
  // What a model asks for unoffered it does not get, however it came to know the name.
  const isClosed = tool && !(offered.some(({ name }) => name === call.name) && (tool.isFor?.(agent) ?? true));
  const policy: PolicyAnswer = isClosed
    ? { approval: 'deny', reason: `${call.name} is not among the tools of this session of ${agent}` }
    : callPolicy(deps.config, { tool: call.name, input: call.input, agent, needsApproval: tool?.needsApproval ?? false });
  return {
    id: call.id,
    name: call.name,
    input: call.input,
    class: classOf(deps, offered, call.name),
    origin: tool?.origin ?? 'unknown',
    ...policy,
  };
}

/** Undefined when no schema was asked for, '' when the answer fits it, else why it does not. */
function schemaFault(deps: EffectDeps, host: SessionHost, pending: ModelPending, result: CompletionResult): string | undefined {
  const schema = pending.purpose === 'answer' ? openPrompt(host)?.outputSchema : undefined;
  if (!schema || result.stopReason === 'tool_use') return undefined;
  try {
    return faultsAgainst(schema, parseJsonAnswer(result.content));
  } catch (error) {
    if (error instanceof SyntaxError) return 'it is not JSON';
    deps.logger.error({ err: error, ...deps.faults.keep(host, pending.key, error) }, 'an answer could not be checked against its schema');
    return `it could not be checked: ${isAppError(error) ? error.detail : 'a fault of this server; the log has the cause'}`;
  }
}

/** The schema was accepted with the prompt, so nothing of it is judged again. */
function faultsAgainst(schema: Readonly<Record<string, unknown>>, answer: unknown): string {
  const faults = compileAcceptedOutput(schema)(answer);
  return faults.map(({ pointer, detail }) => `${pointer || 'the answer'} ${detail}`).join('; ');
}

function priceOf(deps: EffectDeps, pending: ModelPending, { usage, model }: Pick<CompletionResult, 'usage' | 'model'>): number | null {
  const provider = deps.providers.get(pending.provider);
  return costOf(deps.config.providers, { provider, asked: pending.model, answered: model, usage });
}

/** What the call is counted under. A fallback asks again after calls that failed, like a second attempt. */
function accountOf(host: SessionHost, { purpose, attempt, fallbacks }: ModelPending): CallAccount {
  const workflow = workflowOf(host);
  const { agent, sessionKey: session } = host.view.session;
  const answer = workflow === undefined ? 'chat' : 'workflow';
  return {
    purpose: purpose === 'summary' ? 'compaction' : answer,
    agent,
    session,
    attempt: attempt + fallbacks,
    ...(workflow === undefined ? {} : { workflow }),
  };
}

function failed(
  deps: EffectDeps,
  host: SessionHost,
  pending: ModelPending,
  error: unknown,
  signal: AbortSignal,
  watch: CallWatch,
): InputDraft[] {
  const known = withinPatience(describe(deps, host, pending, error, signal), host.core.snapshot.context.limits.retryAfterMsMax);
  const fallback = known.code === ABORTED || pending.purpose === 'summary' ? undefined : nextFallback(deps, pending);
  const partial =
    signal.aborted && watch.text !== '' ? [{ name: 'text:complete' as const, payload: { key: pending.key, content: watch.text } }] : [];
  return [
    ...partial,
    {
      name: 'harness:error',
      payload: {
        key: pending.key,
        error: known.message,
        code: known.code,
        message: known.message,
        recoverable: known.recoverable,
        ...(known.retryAfterMs === undefined ? {} : { retryAfterMs: known.retryAfterMs }),
        jitter: deps.random(),
        ...(fallback ? { fallback } : {}),
        durationMs: watch.durationMs,
        partialChars: watch.text.length,
        ...(watch.usage ? { usage: watch.usage, costUsd: priceOf(deps, pending, { usage: watch.usage, model: pending.model }) } : {}),
      },
    },
  ];
}

interface Failure {
  readonly code: string;
  readonly message: string;
  readonly recoverable: boolean;
  readonly retryAfterMs?: number;
}

/** Asking again before the provider wants it would be refused again: who asks for more than a turn waits is not asked again in it. */
function withinPatience(failure: Failure, retryAfterMsMax: number): Failure {
  const { retryAfterMs, message } = failure;
  if (retryAfterMs === undefined || retryAfterMs <= retryAfterMsMax) return failure;
  const reason = `it asks to wait ${retryAfterMs} ms, more than runtime.limits.retryAfterMsMax (${retryAfterMsMax} ms)`;
  return { ...failure, recoverable: false, message: `${message}; ${reason}` };
}

function describe({ logger, faults }: EffectDeps, host: SessionHost, pending: ModelPending, error: unknown, signal: AbortSignal): Failure {
  if (signal.aborted) return { code: ABORTED, message: 'the call was stopped', recoverable: false };
  if (error instanceof AppError) {
    const { code, detail: message, retryable: recoverable, retryAfterMs } = error;
    return { code, message, recoverable, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  const { provider, model } = pending;
  logger.error({ err: error, ...faults.keep(host, pending.key, error), provider, model }, 'a provider failed in an unexpected way');
  return { code: 'provider_failed', message: 'the provider failed in an unexpected way; the log has the cause', recoverable: false };
}

function nextFallback(deps: EffectDeps, pending: ModelPending): { provider: string; model: string } | undefined {
  const choice = deps.config.fallback[pending.fallbacks];
  // The start has checked the list; a provider that was unregistered since is passed over.
  const known = deps.providers.list().some((entry) => choice?.provider === undefined || entry.id === choice.provider);
  if (!choice || !known) return undefined;
  const { provider, model } = deps.providers.resolve(choice);
  return { provider: provider.id, model };
}
