import type { ModelInfo } from '../contract/provider.ts';
import type { FaultContext } from './errors.ts';
import { type ListedModel, modelInfo } from './prices.ts';
import { missingKey, type Probe, type ProviderSettings, unsetKey } from './settings.ts';

/** How long a provider may take to say that it is there, in ms. */
export const AVAILABILITY_TIMEOUT_MS = 2_000;
/** How long a list of models stays valid, in ms. */
const MODELS_CACHE_MS = 300_000;
/** Models of one list that are kept. */
const MODELS_MAX = 1_000;

interface ModelListOptions {
  readonly settings: ProviderSettings;
  readonly context: FaultContext;
  /** GET answers `{data: [{id, …}]}`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Models the table knows, for when the list cannot be had. */
  readonly known: readonly string[];
  /** Leaves out what cannot hold a conversation. */
  readonly keep?: (id: string) => boolean;
}

export interface ModelList {
  probe(): Promise<Probe>;
  models(): Promise<ModelInfo[]>;
}

/** The provider's own list of models with limits and prices from the table; also its sign of life. Plain fetch, so that asking loads no SDK. */
export function createModelList(options: ModelListOptions): ModelList {
  const { settings } = options;
  let cached: { readonly listed: readonly ListedModel[]; readonly at: number } | undefined;

  const models = async (): Promise<ModelInfo[]> => {
    if (!cached || Date.now() - cached.at > MODELS_CACHE_MS) {
      const listed = missingKey(settings) ? undefined : await fetchList(options);
      if (listed) cached = { listed, at: Date.now() };
    }
    const listed = new Map<string, ListedModel>((cached?.listed ?? options.known.map((id) => ({ id }))).map((one) => [one.id, one]));
    for (const id of Object.keys(settings.models ?? {})) if (!listed.has(id)) listed.set(id, { id });
    return [...listed.values()].map((one) => modelInfo(settings.id, one, settings.models?.[one.id]));
  };

  return { models, probe: () => probe(options) };
}

async function probe({ settings, context, url, headers }: ModelListOptions): Promise<Probe> {
  const missing = missingKey(settings);
  if (missing) return { available: false, detail: missing };
  const unset = unsetKey(settings);
  try {
    const response = await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(AVAILABILITY_TIMEOUT_MS) });
    await response.body?.cancel();
    // A server without a list of models is still there.
    if (response.ok || response.status === 404 || response.status === 405) return { available: true, ...(unset ? { detail: unset } : {}) };
    return { available: false, detail: [`HTTP ${response.status} from ${context.origin}`, ...(unset ? [unset] : [])].join('; ') };
  } catch (error) {
    const late = error instanceof Error && error.name === 'TimeoutError';
    return {
      available: false,
      detail: late ? `no answer from ${context.origin} within ${AVAILABILITY_TIMEOUT_MS} ms` : `no connection to ${context.origin}`,
    };
  }
}

async function fetchList({ url, headers, keep = () => true }: ModelListOptions): Promise<ListedModel[] | undefined> {
  try {
    const response = await fetch(url, { headers, redirect: 'manual', signal: AbortSignal.timeout(AVAILABILITY_TIMEOUT_MS) });
    if (!response.ok) {
      await response.body?.cancel();
      return undefined;
    }
    const body = (await response.json()) as { data?: unknown } | null;
    if (!Array.isArray(body?.data)) return undefined;
    return body.data.slice(0, MODELS_MAX).flatMap((entry: unknown) => {
      const listed = listedModel(entry);
      return listed && keep(listed.id) ? [listed] : [];
    });
  } catch {
    // The list is a convenience: without it the table answers.
    return undefined;
  }
}

/** Anthropic names max_input_tokens and max_tokens, vLLM max_model_len, llama.cpp meta.n_ctx; others only the id. */
function listedModel(entry: unknown): ListedModel | undefined {
  const row = entry as {
    id?: unknown;
    max_input_tokens?: unknown;
    max_tokens?: unknown;
    max_model_len?: unknown;
    meta?: { n_ctx?: unknown };
  } | null;
  if (typeof row?.id !== 'string') return undefined;
  const contextTokens = wholeNumber(row.max_input_tokens) ?? wholeNumber(row.max_model_len) ?? wholeNumber(row.meta?.n_ctx);
  const outputTokensMax = wholeNumber(row.max_tokens);
  return { id: row.id, ...(contextTokens ? { contextTokens } : {}), ...(outputTokensMax ? { outputTokensMax } : {}) };
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : undefined;
}
