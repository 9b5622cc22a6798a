import type OpenAI from 'openai';
import type { CompletionChunk, CompletionOptions, Message } from '../core/provider.ts';
import { drainStream, guardStream, promptChars } from './completion.ts';
import { createModelList } from './model-list.ts';
import { bearerHeaders, loadOpenaiClient, openaiEvents } from './openai-client.ts';
import { openaiParams, RESPONSES_NAMES } from './openai-request.ts';
import { foldOpenai, hasContent } from './openai-stream.ts';
import { knownModelIds } from './prices.ts';
import { type Parameter, RefusedParameters } from './refused-parameters.ts';
import { faultContext, type ProbedProvider, type ProviderSettings, requireKey } from './settings.ts';
import { cutAtStop } from './stop-sequences.ts';

export const OPENAI_MODEL = 'gpt-6-sol';
export const OFFICIAL_URL = 'https://api.openai.com/v1';

/** The official list also holds models that draw, speak or embed. */
const CONVERSES = /^(gpt-|o\d|chatgpt|codex)(?!.*(audio|realtime|image|tts|transcribe|search|instruct))/;

/** The OpenAI Responses API through its SDK, which is loaded at the first call. */
export function createOpenaiProvider(settings: ProviderSettings): ProbedProvider {
  const baseUrl = (settings.baseUrl ?? OFFICIAL_URL).replace(/\/+$/, '');
  const context = faultContext(settings, baseUrl);
  const defaultModel = settings.model ?? OPENAI_MODEL;
  const list = createModelList({
    settings,
    context,
    url: `${baseUrl}/models`,
    headers: bearerHeaders(settings),
    known: knownModelIds(/^(gpt-|o\d)/),
    keep: (id) => settings.baseUrl !== undefined || CONVERSES.test(id),
  });
  const refused = new RefusedParameters({ provider: settings.id, names: RESPONSES_NAMES, warn: settings.warn ?? (() => undefined) });
  let loading: Promise<OpenAI> | undefined;

  const stream = (messages: readonly Message[], options: CompletionOptions = {}): AsyncIterable<CompletionChunk> =>
    guardStream(context, options.signal, async function* (signal) {
      requireKey(settings);
      loading ??= loadOpenaiClient(settings, baseUrl, context);
      const client = await loading;
      const model = options.model ?? defaultModel;
      const headers = options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : undefined;
      const leftOut = (parameter: Parameter) => refused.leftOut(model, parameter);
      const { answer: response } = await refused.ask(model, options, (adapted) => {
        const params = openaiParams({ model, messages, options: adapted, override: settings.models?.[model], leftOut });
        options.onSend?.();
        return client.responses.create(params, { signal, headers }).asResponse();
      });
      const fold = { context, model, promptChars: promptChars(messages, options.systemPrompt), onUsage: options.onUsage };
      const { stopSequences: sequences = [] } = options;
      const open = (onUsage: typeof fold.onUsage) => foldOpenai({ ...fold, onUsage }, openaiEvents(context, response, hasContent));
      if (sequences.length === 0) yield* open(options.onUsage);
      else yield* cutAtStop({ model, sequences, onUsage: options.onUsage }, open);
    });

  return {
    id: settings.id,
    kind: 'openai',
    defaultModel,
    tellsSend: true,
    stream,
    complete: (messages, options) => drainStream(stream(messages, options)),
    available: async () => (await list.probe()).available,
    probe: list.probe,
    models: list.models,
  };
}
