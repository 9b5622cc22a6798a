import type { Price } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { Provider } from '../core/provider.ts';
import type { FaultContext } from './errors.ts';

/** Longest silence in the middle of an answer, in ms, when the configuration names none. */
export const STALL_TIMEOUT_MS = 60_000;

/** Limits and price of one model as the configuration overrides them. */
export interface ModelOverride {
  readonly contextTokens?: number;
  readonly outputTokensMax?: number;
  readonly price?: Price;
  readonly thinking?: boolean;
  readonly images?: boolean;
}

export interface ProviderSettings {
  readonly id: string;
  readonly apiKey?: string;
  /** How a person sets the key, for the message when there is none. */
  readonly keyHint?: string;
  /** A variable that the configuration names for the key and that is not set. */
  readonly keyEnvUnset?: string;
  readonly baseUrl?: string;
  readonly model?: string;
  /** Longest silence in ms, STALL_TIMEOUT_MS when absent. */
  readonly stallTimeoutMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly models?: Readonly<Record<string, ModelOverride>>;
  /** What people should know of in the log. */
  readonly warn?: (fields: object, message: string) => void;
}

/** A provider over the network can say why it is not available. */
export interface ProbedProvider extends Provider {
  /** Bounded by AVAILABILITY_TIMEOUT_MS, never throws. */
  probe(): Promise<Probe>;
}

export interface Probe {
  readonly available: boolean;
  readonly detail?: string;
}

export function faultContext(settings: ProviderSettings, baseUrl: string): FaultContext {
  return {
    id: settings.id,
    stallTimeoutMs: settings.stallTimeoutMs ?? STALL_TIMEOUT_MS,
    origin: URL.canParse(baseUrl) ? new URL(baseUrl).origin : 'the configured address',
    secrets: [settings.apiKey ?? '', ...Object.values(settings.headers ?? {})],
  };
}

/** Why the provider cannot be called at all, if so: the official services need a key, a server of one's own may not. */
export function missingKey(settings: ProviderSettings): string | undefined {
  if (settings.apiKey || settings.baseUrl || settings.headers) return undefined;
  if (settings.keyEnvUnset) return `${settings.id}: no API key; ${unsetKey(settings)}`;
  return `${settings.id}: no API key; ${settings.keyHint ?? 'set apiKeyEnv of the provider in agent.yaml'}`;
}

/** Undefined when no variable is named, or it is set. */
export function unsetKey({ keyEnvUnset }: ProviderSettings): string | undefined {
  return keyEnvUnset && `the variable ${keyEnvUnset}, which apiKeyEnv names, is not set`;
}

/** @throws AppError `provider_refused` before anything is sent */
export function requireKey(settings: ProviderSettings): void {
  const missing = missingKey(settings);
  if (missing) throw new AppError('provider_refused', { detail: missing });
}
