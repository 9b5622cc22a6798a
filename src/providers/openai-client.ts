import type OpenAI from 'openai';
import type { SseEvent } from '../core/sse-parser.ts';
import { type FaultContext, streamFault } from './errors.ts';
import type { ProviderSettings } from './settings.ts';
import { EventReader } from './streamed-answer.ts';
import { createWatchedFetch } from './transport.ts';

/** A client of the OpenAI SDK, which is loaded here, at the first call. Retries of the SDK are off, and it reads no environment. */
export async function loadOpenaiClient(settings: ProviderSettings, baseURL: string, context: FaultContext): Promise<OpenAI> {
  const { default: Client } = await import('openai');
  return new Client({
    // The SDK insists on a key; without one the header is left out.
    apiKey: settings.apiKey ?? 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    baseURL,
    fetch: createWatchedFetch(context),
    maxRetries: 0,
    // The stall limit of the transport is the only clock; this one must never be the first.
    timeout: 2_147_483_647,
    // The SDK would print pieces of the conversation when a stream is broken.
    logLevel: 'off',
    defaultHeaders: { ...(settings.apiKey ? {} : { authorization: null }), ...settings.headers },
  });
}

/** The events of a streamed answer of either OpenAI API, without the word that ends it; nothing after that counts. */
export function openaiEvents<T>(context: FaultContext, response: Response, isContent: (event: T) => boolean): EventReader<T> {
  let done = false;
  const parse = ({ event, data }: SseEvent): T | undefined => {
    done ||= data === '[DONE]';
    if (done) return undefined;
    const parsed = JSON.parse(data) as T & { error?: unknown };
    if (event === 'error' || parsed?.error) throw streamFault(parsed, context);
    return parsed;
  };
  return new EventReader(response, parse, isContent);
}

/** Headers of requests that do not go through the SDK. */
export function bearerHeaders(settings: ProviderSettings): Record<string, string> {
  return { ...(settings.apiKey ? { authorization: `Bearer ${settings.apiKey}` } : {}), ...settings.headers };
}
