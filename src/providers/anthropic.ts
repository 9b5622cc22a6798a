import type Anthropic from '@anthropic-ai/sdk';
import type { CompletionChunk, CompletionOptions, Message } from '../core/provider.ts';
import { ANTHROPIC_NAMES, anthropicParams } from './anthropic-request.ts';
import { anthropicEvents, foldAnthropic } from './anthropic-stream.ts';
import { drainStream, guardStream, promptChars } from './completion.ts';
import { createModelList } from './model-list.ts';
import { knownModelIds } from './prices.ts';
import { type Parameter, RefusedParameters } from './refused-parameters.ts';
import { faultContext, type ProbedProvider, type ProviderSettings, requireKey } from './settings.ts';
import { cutAtStop } from './stop-sequences.ts';
import { createWatchedFetch } from './transport.ts';

export const ANTHROPIC_MODEL = 'claude-sonnet-5-5';
const ANTHROPIC_URL = 'https://api.anthropic.com';
const API_VERSION = '2023-06-01';

interface Loaded {
  readonly client: Anthropic;
  readonly outputFormat: (schema: Record<string, unknown>) => Record<string, unknown>;
}

/** The Anthropic Messages API through its SDK, which is loaded at the first call. Retries of the SDK are off. */
export function createAnthropicProvider(settings: ProviderSettings): ProbedProvider {
  // The SDK adds /v1 itself; people copy addresses with and without it.
  const baseUrl = (settings.baseUrl ?? ANTHROPIC_URL).replace(/\/+$/, '').replace(/\/v1$/, '');
  const context = faultContext(settings, baseUrl);
  const defaultModel = settings.model ?? ANTHROPIC_MODEL;
  const list = createModelList({
    settings,
    context,
    url: `${baseUrl}/v1/models?limit=1000`,
    headers: { 'anthropic-version': API_VERSION, ...(settings.apiKey ? { 'x-api-key': settings.apiKey } : {}), ...settings.headers },
    known: knownModelIds(/^claude-/),
  });
  const refused = new RefusedParameters({ provider: settings.id, names: ANTHROPIC_NAMES, warn: settings.warn ?? (() => undefined) });
  let loading: Promise<Loaded> | undefined;

  const stream = (messages: readonly Message[], options: CompletionOptions = {}): AsyncIterable<CompletionChunk> =>
    guardStream(context, options.signal, async function* (signal) {
      requireKey(settings);
      loading ??= load(settings, baseUrl, createWatchedFetch(context));
      const { client, outputFormat } = await loading;
      const model = options.model ?? defaultModel;
      const headers = options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : undefined;
      const leftOut = (parameter: Parameter) => refused.leftOut(model, parameter);
      const { answer: response, sent } = await refused.ask(model, options, (adapted) => {
        const override = settings.models?.[model];
        const params = anthropicParams({ model, messages, options: adapted, override, outputFormat, leftOut });
        options.onSend?.();
        // Decoded here: the SDK's decoder adds two layers of streams to every small piece.
        return client.messages.create(params, { signal, headers }).asResponse();
      });
      const fold = { context, model, promptChars: promptChars(messages, options.systemPrompt), onUsage: options.onUsage };
      const { stopSequences: sequences = [] } = options;
      const open = (onUsage: typeof fold.onUsage) => foldAnthropic({ ...fold, onUsage }, anthropicEvents(context, response));
      if (sent.stopSequences || sequences.length === 0) yield* open(options.onUsage);
      else yield* cutAtStop({ model, sequences, onUsage: options.onUsage }, open);
    });

  return {
    id: settings.id,
    kind: 'anthropic',
    defaultModel,
    tellsSend: true,
    stream,
    complete: (messages, options) => drainStream(stream(messages, options)),
    available: async () => (await list.probe()).available,
    probe: list.probe,
    models: list.models,
  };
}

async function load(settings: ProviderSettings, baseURL: string, fetch: ReturnType<typeof createWatchedFetch>): Promise<Loaded> {
  const [{ default: Client }, { transformJSONSchema }] = await Promise.all([
    import('@anthropic-ai/sdk'),
    import('@anthropic-ai/sdk/lib/transform-json-schema'),
  ]);
  const client = new Client({
    apiKey: settings.apiKey ?? 'none',
    authToken: null,
    baseURL,
    fetch,
    maxRetries: 0,
    // The stall limit of the transport is the only clock; this one must never be the first.
    timeout: 2_147_483_647,
    // The SDK would print pieces of the conversation when a stream is broken.
    logLevel: 'off',
    // The key goes as the HTTP API documents it; the SDK's own Bearer form is not taken by every gateway.
    defaultHeaders: { authorization: null, ...(settings.apiKey ? { 'x-api-key': settings.apiKey } : {}), ...settings.headers },
  });
  return { client, outputFormat: (schema) => adaptSchema(schema, transformJSONSchema) };
}

function adaptSchema(
  schema: Record<string, unknown>,
  transform: (schema: Record<string, unknown>) => Record<string, unknown>,
): Record<string, unknown> {
  try {
    return transform(schema);
  } catch {
    // A schema outside the supported part is for the API to judge; its answer names the place.
    return schema;
  }
}
