import { EMBEDDING_MODEL, type EmbeddingConfig } from '../contract/embedding-config.ts';
import { createDeadline } from '../core/deadline.ts';
import type { Embedder } from '../core/embedder.ts';
import { AppError } from '../core/errors.ts';
import type { Environment } from './from-config.ts';
import { OFFICIAL_URL } from './openai.ts';
import { OLLAMA_URL } from './openai-compatible.ts';

/** Characters of an error body that go into a message. */
const FAULT_CHARS_MAX = 200;
/** Bytes an answer may have: 64 vectors of 8,192 numbers are less. */
const ANSWER_BYTES_MAX = 32 * 1_048_576;

/** What OpenAI is asked for when no model is named, and the variable its key is looked for in. */
const OPENAI_MODEL = 'text-embedding-3-small';
const OPENAI_KEY_ENV = 'OPENAI_API_KEY';

/** List prices in US dollars per million tokens, November 2026. */
const PRICES: Readonly<Record<string, number>> = {
  'text-embedding-3-small': 0.02,
  'text-embedding-3-large': 0.13,
  'text-embedding-ada-002': 0.1,
};

interface Wire {
  readonly provider: 'openai-compatible' | 'ollama';
  readonly url: string;
  vectorsOf(answer: unknown): unknown;
}

/** The embedder agent.yaml asks for; undefined for none. Nothing is called. */
export function createEmbedder(config: EmbeddingConfig, env: Environment): Embedder | undefined {
  const wire = wireOf(config);
  if (!wire) return undefined;
  const { dimensions } = config;
  const isOpenAi = wire.url === embeddingsOf(OFFICIAL_URL);
  // The default is a model for one's own machine, which OpenAI does not have.
  const model = isOpenAi && config.model === EMBEDDING_MODEL ? OPENAI_MODEL : config.model;
  const keyEnv = config.apiKeyEnv ?? (isOpenAi ? OPENAI_KEY_ENV : undefined);
  const key = (config.apiKeyEnv === undefined && (config.apiKey || config.api_key)) || (keyEnv === undefined ? undefined : env[keyEnv]);
  return {
    provider: wire.provider,
    model,
    async embed(texts, { signal, timeoutMs, onTokens }) {
      const deadline = createDeadline(wire.url, timeoutMs, signal);
      const answer = await post(wire, { model, input: texts }, key, deadline.signal).finally(deadline.clear);
      const tokens = tokensOf(answer);
      if (tokens !== undefined) onTokens?.(tokens);
      return checked(wire, wire.vectorsOf(answer), texts.length, dimensions);
    },
  };
}

/** OpenAI and what speaks its API says `usage`, Ollama a number of its own. */
function tokensOf(answer: unknown): number | undefined {
  const { usage, prompt_eval_count } = (answer ?? {}) as {
    usage?: { prompt_tokens?: unknown; total_tokens?: unknown };
    prompt_eval_count?: unknown;
  };
  const tokens = usage?.prompt_tokens ?? usage?.total_tokens ?? prompt_eval_count;
  return typeof tokens === 'number' && Number.isSafeInteger(tokens) && tokens >= 0 ? tokens : undefined;
}

function wireOf({ provider, baseUrl, base_url }: EmbeddingConfig): Wire | undefined {
  const base = (baseUrl ?? base_url)?.replace(/\/+$/, '');
  const asked = provider === 'auto' ? (base === undefined ? 'ollama' : 'openai-compatible') : provider;
  if (asked === 'ollama') {
    const root = (base ?? OLLAMA_URL).replace(/\/v1$/, '');
    return { provider: 'ollama', url: `${root}/api/embed`, vectorsOf: (answer) => (answer as { embeddings?: unknown }).embeddings };
  }
  if (asked !== 'openai-compatible' && asked !== 'openai') return undefined;
  if (base === undefined && asked === 'openai-compatible') {
    throw new AppError('config_invalid', {
      detail: 'agent.yaml: embedding.baseUrl is required for openai-compatible, such as http://127.0.0.1:8080/v1',
    });
  }
  return {
    provider: 'openai-compatible',
    url: embeddingsOf(base ?? OFFICIAL_URL),
    vectorsOf: (answer) => (answer as { data?: { embedding?: unknown }[] }).data?.map(({ embedding }) => embedding),
  };
}

/** US dollars per million tokens; null when unknown. */
export function embeddingPrice({ price }: EmbeddingConfig, { provider, model }: Embedder): number | null {
  return price ?? PRICES[model] ?? (provider === 'ollama' ? 0 : null);
}

function embeddingsOf(root: string): string {
  return `${root}/embeddings`;
}

async function post(wire: Wire, body: object, key: string | undefined, signal: AbortSignal): Promise<unknown> {
  try {
    const response = await fetch(wire.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
      body: JSON.stringify(body),
      redirect: 'error',
      signal,
    });
    if (Number(response.headers.get('content-length') ?? 0) > ANSWER_BYTES_MAX) throw malformed(wire, 'sent more than it may');
    const text = await response.text();
    if (response.ok) return parsed(wire, text);
    const isOurs = response.status === 400 || response.status === 413 || response.status === 422;
    const detail = `${wire.url} answered ${response.status}: ${text.slice(0, FAULT_CHARS_MAX)}`;
    throw new AppError(isOurs ? 'provider_refused' : 'provider_failed', { detail });
  } catch (error) {
    if (error instanceof AppError) throw error;
    if (signal.aborted) throw new AppError('provider_timeout', { detail: `${wire.url} did not answer in time`, cause: error });
    throw new AppError('provider_failed', { detail: `${wire.url} does not answer`, cause: error });
  }
}

function parsed(wire: Wire, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new AppError('provider_malformed', { detail: `${wire.url} answered with something that is not JSON`, cause: error });
  }
}

function checked(wire: Wire, vectors: unknown, count: number, dimensions: number | undefined): number[][] {
  if (!Array.isArray(vectors) || vectors.length !== count) throw malformed(wire, `did not answer with ${count} vectors`);
  const wanted = dimensions ?? (vectors[0] as unknown[] | undefined)?.length;
  for (const vector of vectors as unknown[]) {
    if (!Array.isArray(vector) || !vector.every((part) => typeof part === 'number'))
      throw malformed(wire, 'answered with something else than numbers');
    if (vector.length !== wanted) throw malformed(wire, `answered with ${vector.length} numbers instead of ${wanted}`);
    // The text is to blame as far as we know: the others of a batch go on without it.
    const norm = Math.hypot(...(vector as number[]));
    if (norm === 0 || !Number.isFinite(norm))
      throw new AppError('provider_refused', { detail: `${wire.url} answered with a vector of length ${norm}, which points nowhere` });
  }
  return vectors as number[][];
}

function malformed(wire: Wire, what: string): AppError {
  return new AppError('provider_malformed', { detail: `${wire.url} ${what}` });
}
