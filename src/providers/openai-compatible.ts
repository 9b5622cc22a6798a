import type OpenAI from 'openai';
import { AppError } from '../core/errors.ts';
import type { CompletionChunk, CompletionOptions, Message } from '../core/provider.ts';
import { CHAT_NAMES, chatParams } from './chat-request.ts';
import { foldChat, hasContent } from './chat-stream.ts';
import { drainStream, guardStream, promptChars } from './completion.ts';
import { createModelList } from './model-list.ts';
import { bearerHeaders, loadOpenaiClient, openaiEvents } from './openai-client.ts';
import { RefusedParameters } from './refused-parameters.ts';
import { faultContext, type ProbedProvider, type ProviderSettings } from './settings.ts';
import { cutAtStop } from './stop-sequences.ts';

/** Where Ollama answers when nothing else is configured. */
export const OLLAMA_URL = 'http://127.0.0.1:11434/v1';
/** Default model when none is configured: the first one the server lists. */
export const AUTO_MODEL = 'auto';

/** Any server with POST /chat/completions: Ollama, llama.cpp, vLLM, gateways. The OpenAI SDK is loaded at the first call. */
export function createOpenaiCompatibleProvider(given: ProviderSettings): ProbedProvider {
  const baseUrl = (given.baseUrl ?? OLLAMA_URL).replace(/\/+$/, '');
  const settings = { ...given, baseUrl };
  const context = faultContext(settings, baseUrl);
  const defaultModel = settings.model ?? AUTO_MODEL;
  const list = createModelList({ settings, context, url: `${baseUrl}/models`, headers: bearerHeaders(settings), known: [] });
  const refused = new RefusedParameters({ provider: settings.id, names: CHAT_NAMES, warn: settings.warn ?? (() => undefined) });
  let loading: Promise<OpenAI> | undefined;

  const chooseModel = async (wanted: string): Promise<string> => {
    if (wanted !== AUTO_MODEL) return wanted;
    const first = (await list.models())[0];
    if (first) return first.id;
    throw new AppError('provider_failed', {
      detail: `${settings.id}: ${context.origin} lists no model; name one in agent.yaml or SIGNET_MODEL`,
    });
  };

  const stream = (messages: readonly Message[], options: CompletionOptions = {}): AsyncIterable<CompletionChunk> =>
    guardStream(context, options.signal, async function* (signal) {
      loading ??= loadOpenaiClient(settings, baseUrl, context);
      const [client, model] = await Promise.all([loading, chooseModel(options.model ?? defaultModel)]);
      const headers = options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : undefined;
      const { answer: response, sent } = await refused.ask(model, options, (adapted) => {
        const completionTokens = refused.wantsCompletionTokens(model);
        const params = chatParams({ model, messages, options: adapted, override: settings.models?.[model], completionTokens });
        options.onSend?.();
        return client.chat.completions.create(params, { signal, headers }).asResponse();
      });
      const fold = { context, model, promptChars: promptChars(messages, options.systemPrompt), onUsage: options.onUsage };
      const { stopSequences: sequences = [] } = options;
      const open = (onUsage: typeof fold.onUsage) => foldChat({ ...fold, onUsage }, openaiEvents(context, response, hasContent));
      if (sent.stopSequences || sequences.length === 0) yield* open(options.onUsage);
      else yield* cutAtStop({ model, sequences, onUsage: options.onUsage }, open);
    });

  return {
    id: settings.id,
    kind: 'openai-compatible',
    defaultModel,
    tellsSend: true,
    stream,
    complete: (messages, options) => drainStream(stream(messages, options)),
    available: async () => (await list.probe()).available,
    probe: list.probe,
    models: list.models,
  };
}
