import { z } from 'zod';

export const Usage = z.object({
  inputTokens: z.int().min(0),
  outputTokens: z.int().min(0),
  /** Part of inputTokens that came from the provider's cache. */
  cacheReadTokens: z.int().min(0).optional(),
  cacheWriteTokens: z.int().min(0).optional(),
  /** What the provider did not tell is in it, estimated by the length of the texts. */
  estimated: z.literal(true).optional(),
});
export type Usage = z.output<typeof Usage>;

/** US dollars per million tokens. */
export const Price = z.strictObject({
  input: z.number().min(0),
  output: z.number().min(0),
  cacheRead: z.number().min(0).optional(),
  cacheWrite: z.number().min(0).optional(),
});
export type Price = z.output<typeof Price>;

export const ModelInfo = z.object({
  id: z.string(),
  provider: z.string(),
  /** Tokens the model takes in, answer included; null when unknown. */
  contextTokens: z.int().nullable(),
  outputTokensMax: z.int().nullable(),
  price: Price.nullable(),
  thinking: z.boolean(),
  images: z.boolean(),
});
export type ModelInfo = z.output<typeof ModelInfo>;

export const ProviderInfo = z.object({
  id: z.string(),
  kind: z.string(),
  defaultModel: z.string(),
  baseUrl: z.string().nullable(),
  /** The provider that answers when a session names none. */
  isDefault: z.boolean(),
  /** Why it is there: configuration, an environment variable, or because nothing else was (demo). */
  origin: z.string(),
});
export type ProviderInfo = z.output<typeof ProviderInfo>;

export const ProviderStatus = z.object({ id: z.string(), available: z.boolean(), checkedInMs: z.number(), detail: z.string().optional() });
export type ProviderStatus = z.output<typeof ProviderStatus>;
