import type { HookOutcome, ModelOutcome, RecordedError, ToolOutcome } from '../../contract/recording.ts';
import { AppError } from '../../core/errors.ts';
import type { Call } from '../../core/operation-call.ts';
import type { CompletionChunk, CompletionOptions, CompletionResult, Message, Provider } from '../../core/provider.ts';
import { failedRun, type ToolRun } from '../../tools/tool-run.ts';
import { ABORTED, ALL_TOOLS_HERE, type EffectDeps } from '../effects/effect-deps.ts';
import type { Caller, EffectRecorder } from './effect-recorder.ts';
import { modelRequest, plainResult } from './model-request.ts';

/** Fields of a hook's input that differ from run to run, or say what the log says already. */
const NOT_ASKED: ReadonlySet<string> = new Set([
  'sessionKey',
  'holder',
  'project',
  'runtimePath',
  'transcript',
  'turnKey',
  'heardMessages',
  'contextTokens',
]);

/** The same outside, answered from the recording or kept in it. */
export function recordOutside(deps: EffectDeps, recorder: EffectRecorder, caller: Caller): EffectDeps {
  const { providers, tools, daemon } = deps;
  return {
    ...deps,
    providers: { ...providers, get: (id) => recordProvider(providers.get(id), recorder, caller) },
    tools: { ...tools, run: recordTools(deps, recorder, caller) },
    ...(recorder.mode === 'replay' ? { toolService: ALL_TOOLS_HERE } : {}),
    daemon: { baseUrl: daemon.baseUrl, call: recordHooks(daemon.call, recorder, caller) },
  };
}

function recordProvider(provider: Provider, recorder: EffectRecorder, caller: Caller): Provider {
  const { id, kind, defaultModel } = provider;
  return {
    id,
    kind,
    defaultModel,
    complete: (messages, options) => provider.complete(messages, options),
    stream: (messages, options = {}) => recordStream(provider, recorder, caller, messages, options),
    available: () => provider.available(),
    models: () => provider.models(),
  };
}

async function* recordStream(
  provider: Provider,
  recorder: EffectRecorder,
  caller: Caller,
  messages: readonly Message[],
  options: CompletionOptions,
): AsyncGenerator<CompletionChunk> {
  const call = recorder.call('model', caller, modelRequest(provider.id, messages, options));
  const signal = options.signal ?? new AbortController().signal;
  const found = recorder.recorded(call);
  const chunks: ['text' | 'thinking', string][] = [];
  if (found) {
    const outcome = found.effect.outcome as ModelOutcome;
    for (const [type, text] of outcome.chunks) yield { type, text };
    await recorder.replayed(found, signal);
    if ('error' in outcome) throw thrown(outcome.error);
    if ('result' in outcome) yield { type: 'done', result: outcome.result };
    return;
  }
  const keep = (outcome: ModelOutcome) => recorder.keep<'model'>(call, outcome, { chunks, aborted: true }, signal);
  let result: CompletionResult | undefined;
  try {
    for await (const chunk of provider.stream(messages, options)) {
      if (chunk.type === 'done') {
        result = chunk.result;
        break;
      }
      chunks.push([chunk.type, chunk.text]);
      yield chunk;
    }
  } catch (error) {
    await keep({ chunks, error: recordedError(error) });
    throw error;
  }
  if (!result) return;
  await keep({ chunks, result: plainResult(result) });
  yield { type: 'done', result };
}

function recordTools({ tools, config }: EffectDeps, recorder: EffectRecorder, caller: Caller): EffectDeps['tools']['run'] {
  return async (name, input, context, limits) => {
    if (tools.get(name)?.internal) return tools.run(name, input, context, limits);
    const call = recorder.call('tool', caller, { name, input });
    const { signal } = context;
    try {
      const found = recorder.recorded(call);
      if (found) {
        await recorder.replayed(found, signal);
        return { ...(found.effect.outcome as Exclude<ToolOutcome, { aborted: true }>), value: null, durationMs: 0 };
      }
      const run = await tools.run(name, input, context, limits);
      await recorder.keep<'tool'>(call, plainRun(run), { aborted: true }, signal);
      return run;
    } catch (error) {
      if (!signal.aborted) return failedRun(error, config.limits.toolOutputBytesMax, 0);
      const message = 'the call was cancelled';
      return { output: message, value: null, isError: true, error: { code: ABORTED, message }, durationMs: 0, bytes: message.length };
    }
  };
}

function plainRun({ output, isError, error, bytes, truncated }: ToolRun): ToolOutcome {
  return { output, isError, ...(error ? { error: { ...error } } : {}), bytes, ...(truncated ? { truncated } : {}) };
}

function recordHooks(live: Call, recorder: EffectRecorder, caller: Caller): Call {
  return async (operation, input, options = {}) => {
    const asked = Object.entries(input as object).filter(([field]) => !NOT_ASKED.has(field));
    const call = recorder.call('hook', caller, { hook: operation.id, ...Object.fromEntries(asked) });
    const signal = options.signal ?? new AbortController().signal;
    const found = recorder.recorded(call);
    if (found) {
      await recorder.replayed(found, signal);
      const outcome = found.effect.outcome as Exclude<HookOutcome, { aborted: true }>;
      if ('error' in outcome) throw thrown(outcome.error);
      return outcome.reply as never;
    }
    const keep = (outcome: HookOutcome) => recorder.keep<'hook'>(call, outcome, { aborted: true }, signal);
    const answer = await live(operation, input, options).catch(async (error: unknown) => {
      await keep({ error: recordedError(error) });
      throw error;
    });
    await keep({ reply: answer as Record<string, unknown> });
    return answer;
  };
}

function recordedError(error: unknown): RecordedError {
  if (!(error instanceof AppError))
    return { code: 'internal', detail: error instanceof Error ? error.message : 'it failed without saying why' };
  const { code, detail, retryAfterMs } = error;
  return { code, detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
}

/** What was no expected failure then is none now. */
function thrown({ code, detail, retryAfterMs }: RecordedError): Error {
  return code === 'internal' ? new Error(detail) : new AppError(code, { detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}
