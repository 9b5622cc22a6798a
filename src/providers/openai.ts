import type OpenAI from 'openai';
import type { CompletionChunk, CompletionOptions, Message } from '../core/provider.ts';
import { drainStream, guardStream, promptChars } from './completion.ts';
import { createModelList } from './model-list.ts';
import { bearerHeaders, loadOpenaiClient, openaiEvents } from './openai-client.ts';
import { openaiParams } from './openai-request.ts';
import { foldOpenai } from './openai-stream.ts';
import { knownModelIds } from './prices.ts';
import { faultContext, type ProbedProvider, type ProviderSettings, requireKey } from './settings.ts';

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
  let loading: Promise<OpenAI> | undefined;

  const stream = (messages: readonly Message[], options: CompletionOptions = {}): AsyncIterable<CompletionChunk> =>
    guardStream(context, options.signal, async function* (signal) {
      requireKey(settings);
      loading ??= loadOpenaiClient(settings, baseUrl, context);
      const client = await loading;
      const model = options.model ?? defaultModel;
      const params = openaiParams({ model, messages, options, override: settings.models?.[model] });
      const headers = options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : undefined;
      options.onSend?.();
      const response = await client.responses.create(params, { signal, headers }).asResponse();
      const sent = promptChars(messages, options.systemPrompt);
      yield* foldOpenai({ context, model, promptChars: sent, onUsage: options.onUsage }, openaiEvents(context, response));
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
