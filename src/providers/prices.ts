import type { ModelInfo, Price, Usage } from '../contract/provider.ts';
import type { ModelOverride } from './settings.ts';

/** How a model is asked to think: not at all, with a budget of tokens, or by itself with a word for the effort. */
export type ThinkingMode = 'none' | 'budget' | 'adaptive' | 'effort';

export interface KnownModel {
  readonly contextTokens: number;
  readonly outputTokensMax: number;
  readonly price: Price;
  /** Price of the whole request when its input is longer than `above` tokens. */
  readonly long?: { readonly above: number; readonly price: Price };
  readonly thinking: ThinkingMode;
  /** Takes a temperature. */
  readonly sampling: boolean;
}

const price = (input: number, output: number, cacheRead?: number, cacheWrite?: number): Price => ({
  input,
  output,
  ...(cacheRead === undefined ? {} : { cacheRead }),
  ...(cacheWrite === undefined ? {} : { cacheWrite }),
});

const CLAUDE_1M = { contextTokens: 1_000_000, outputTokensMax: 128_000, thinking: 'adaptive', sampling: false } as const;
const CLAUDE_200K = { contextTokens: 200_000, outputTokensMax: 64_000, thinking: 'budget', sampling: true } as const;
const GPT_1M = { contextTokens: 1_050_000, outputTokensMax: 128_000, thinking: 'effort', sampling: false } as const;
const GPT_400K = { contextTokens: 400_000, outputTokensMax: 128_000, thinking: 'effort', sampling: false } as const;
const GPT_4_1 = { contextTokens: 1_047_576, outputTokensMax: 32_768, thinking: 'none', sampling: true } as const;
const GPT_4O = { contextTokens: 128_000, outputTokensMax: 16_384, thinking: 'none', sampling: true } as const;
const O_SERIES = { contextTokens: 200_000, outputTokensMax: 100_000, thinking: 'effort', sampling: false } as const;

/** List prices in US dollars per million tokens, November 2026. All of these models take images. */
const MODELS: Readonly<Record<string, KnownModel>> = {
  'claude-opus-5-5': { ...CLAUDE_1M, price: price(4, 20, 0.2, 5) },
  'claude-opus-5': { ...CLAUDE_1M, price: price(5, 25, 0.5, 6.25) },
  'claude-opus-4-8': { ...CLAUDE_1M, price: price(5, 25, 0.5, 6.25) },
  'claude-opus-4-7': { ...CLAUDE_1M, price: price(5, 25, 0.5, 6.25) },
  'claude-opus-4-6': { ...CLAUDE_1M, sampling: true, price: price(5, 25, 0.5, 6.25) },
  'claude-opus-4-5': { ...CLAUDE_200K, price: price(5, 25, 0.5, 6.25) },
  'claude-sonnet-5-5': { ...CLAUDE_1M, price: price(2, 10, 0.2, 2.5) },
  'claude-sonnet-5': { ...CLAUDE_1M, price: price(2, 10, 0.2, 2.5) },
  'claude-sonnet-4-6': { ...CLAUDE_1M, outputTokensMax: 64_000, sampling: true, price: price(3, 15, 0.3, 3.75) },
  'claude-sonnet-4-5': { ...CLAUDE_200K, price: price(3, 15, 0.3, 3.75) },
  'claude-haiku-5-5': {
    ...CLAUDE_1M,
    price: price(0.1, 0.5, undefined, 0.125),
    long: { above: 100_000, price: price(0.5, 2.5, undefined, 0.625) },
  },
  'claude-haiku-4-5': { ...CLAUDE_200K, price: price(1, 5, 0.1, 1.25) },
  'claude-fable-5-1': { ...CLAUDE_1M, price: price(10, 50, 0.25, 12.5) },
  'claude-fable-5': { ...CLAUDE_1M, price: price(10, 50, 1, 12.5) },
  'gpt-6-astra': { ...GPT_1M, price: price(10, 50, 1, 12.5), long: { above: 272_000, price: price(20, 75, 2, 25) } },
  'gpt-6-sol': { ...GPT_1M, price: price(2, 10, 0.2, 2.5), long: { above: 272_000, price: price(4, 15, 0.4, 5) } },
  'gpt-6-luna': { ...GPT_1M, price: price(0.1, 0.5, 0.01, 0.125), long: { above: 272_000, price: price(0.2, 0.75, 0.02, 0.25) } },
  'gpt-5.4': { ...GPT_1M, price: price(2.5, 15, 0.25), long: { above: 272_000, price: price(5, 22.5, 0.5) } },
  'gpt-5.4-mini': { ...GPT_400K, price: price(0.75, 4.5, 0.075) },
  'gpt-5.4-nano': { ...GPT_400K, price: price(0.2, 1.25, 0.02) },
  'gpt-5.2': { ...GPT_400K, price: price(1.75, 14, 0.175) },
  'gpt-5.1': { ...GPT_400K, price: price(1.25, 10, 0.125) },
  'gpt-5': { ...GPT_400K, price: price(1.25, 10, 0.125) },
  'gpt-5-mini': { ...GPT_400K, price: price(0.25, 2, 0.025) },
  'gpt-5-nano': { ...GPT_400K, price: price(0.05, 0.4, 0.005) },
  'gpt-4.1': { ...GPT_4_1, price: price(2, 8, 0.5) },
  'gpt-4.1-mini': { ...GPT_4_1, price: price(0.4, 1.6, 0.1) },
  'gpt-4.1-nano': { ...GPT_4_1, price: price(0.1, 0.4, 0.025) },
  'gpt-4o': { ...GPT_4O, price: price(2.5, 10, 1.25) },
  'gpt-4o-mini': { ...GPT_4O, price: price(0.15, 0.6, 0.075) },
  o3: { ...O_SERIES, price: price(2, 8, 0.5) },
  'o4-mini': { ...O_SERIES, price: price(1.1, 4.4, 0.275) },
};

/** What may follow a name of the table: the date of a snapshot, or `-latest`. `gpt-5-pro` is another model than `gpt-5`. */
const SNAPSHOT = /^-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$/;

/** The table's row for a model id or a dated snapshot of it; undefined rather than a guess. */
export function knownModel(id: string): KnownModel | undefined {
  if (Object.hasOwn(MODELS, id)) return MODELS[id];
  const name = Object.keys(MODELS).find((known) => id.startsWith(known) && SNAPSHOT.test(id.slice(known.length)));
  return name === undefined ? undefined : MODELS[name];
}

/** Ids of the table that begin with one of the prefixes. */
export function knownModelIds(prefix: RegExp): string[] {
  return Object.keys(MODELS).filter((id) => prefix.test(id));
}

/** What a provider's own list says about a model. */
export interface ListedModel {
  readonly id: string;
  readonly contextTokens?: number;
  readonly outputTokensMax?: number;
}

/** One model from configuration, the provider's list and the table, in this order of trust. Unknown numbers are null. */
export function modelInfo(provider: string, listed: ListedModel, override: ModelOverride = {}): ModelInfo {
  const known = knownModel(listed.id);
  return {
    id: listed.id,
    provider,
    contextTokens: override.contextTokens ?? listed.contextTokens ?? known?.contextTokens ?? null,
    outputTokensMax: override.outputTokensMax ?? listed.outputTokensMax ?? known?.outputTokensMax ?? null,
    price: override.price ?? known?.price ?? null,
    thinking: override.thinking ?? (known !== undefined && known.thinking !== 'none'),
    images: override.images ?? known !== undefined,
  };
}

/** The price of a request with this much input; null when the model is not known. */
export function priceFor(modelId: string, inputTokens: number): Price | null {
  const known = knownModel(modelId);
  if (!known) return null;
  return known.long && inputTokens > known.long.above ? known.long.price : known.price;
}

/** US dollars of one call; null without a price. A missing cache price counts as the input price. */
export function estimateCost(usage: Usage, rates: Price | null): number | null {
  if (!rates) return null;
  const read = usage.cacheReadTokens ?? 0;
  const write = usage.cacheWriteTokens ?? 0;
  const fresh = Math.max(0, usage.inputTokens - read - write);
  const dollars =
    fresh * rates.input +
    read * (rates.cacheRead ?? rates.input) +
    write * (rates.cacheWrite ?? rates.input) +
    usage.outputTokens * rates.output;
  return dollars / 1_000_000;
}
