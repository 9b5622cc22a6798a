import type Anthropic from '@anthropic-ai/sdk';
import type { CompletionChunk, CompletionOptions, Message } from '../core/provider.ts';
import { anthropicParams } from './anthropic-request.ts';
import { anthropicEvents, foldAnthropic } from './anthropic-stream.ts';
import { drainStream, guardStream, promptChars } from './completion.ts';
import { createModelList } from './model-list.ts';
import { knownModelIds } from './prices.ts';
import { faultContext, type ProbedProvider, type ProviderSettings, requireKey } from './settings.ts';
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
  let loading: Promise<Loaded> | undefined;

  const stream = (messages: readonly Message[], options: CompletionOptions = {}): AsyncIterable<CompletionChunk> =>
    guardStream(context, options.signal, async function* (signal) {
      requireKey(settings);
      loading ??= load(settings, baseUrl, createWatchedFetch(context));
      const { client, outputFormat } = await loading;
      const model = options.model ?? defaultModel;
      const params = anthropicParams({ model, messages, options, override: settings.models?.[model], outputFormat });
      const headers = options.idempotencyKey ? { 'idempotency-key': options.idempotencyKey } : undefined;
      // Decoded here: the SDK's decoder adds two layers of streams to every small piece.
      options.onSend?.();
      const response = await client.messages.create(params, { signal, headers }).asResponse();
      const sent = promptChars(messages, options.systemPrompt);
      yield* foldAnthropic({ context, model, promptChars: sent, onUsage: options.onUsage }, anthropicEvents(context, response));
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
