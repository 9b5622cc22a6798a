import type { ProviderInfo, ProviderStatus } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { Provider } from '../core/provider.ts';
import type { Probe, ProbedProvider } from './settings.ts';

/** Providers at once; names come from configuration and code, so more is a mistake. */
const PROVIDERS_MAX = 100;

export interface Registration {
  /** Why it is there: `agent.yaml`, the name of an environment variable, `built in`. */
  readonly origin: string;
  /** Shown to people; credentials in it are taken out. */
  readonly baseUrl?: string | null;
  /** Answers when a session names none. Without any, the first one registered does. */
  readonly default?: boolean;
}

export interface ResolvedModel {
  readonly provider: Provider;
  readonly model: string;
}

/** The providers of this process by id. Nothing is owned: unregistering closes nothing. */
export interface ProviderRegistry {
  /** Takes the place of one with the same id. */
  register(provider: Provider, registration: Registration): void;
  /** False when there was none. */
  unregister(id: string): boolean;
  /** @throws AppError `unknown_provider`, naming the known ones */
  get(id: string): Provider;
  /** In order of registration. */
  list(): ProviderInfo[];
  /**
   * What a session that names a provider, a model, both or neither is given.
   *
   * @throws AppError `unknown_provider` when the provider is not registered, or none is
   */
  resolve(choice?: { readonly provider?: string | null; readonly model?: string | null }): ResolvedModel;
  /**
   * Ask one whether it would answer now; bounded by the provider.
   *
   * @throws AppError `provider_not_found`
   */
  status(id: string): Promise<ProviderStatus>;
}

interface Entry {
  readonly provider: Provider;
  readonly registration: Registration;
}

/** `wrap` is applied to each provider that is registered, such as one that counts its calls. */
export function createProviderRegistry(wrap: (provider: Provider) => Provider = (provider) => provider): ProviderRegistry {
  const entries = new Map<string, Entry>();
  let chosen: string | undefined;

  const defaultId = (): string | undefined => chosen ?? entries.keys().next().value;
  const get = (id: string): Provider => {
    const entry = entries.get(id);
    if (entry) return entry.provider;
    const known = [...entries.keys()].join(', ') || 'none';
    throw new AppError('unknown_provider', { detail: `no provider "${id}"; known: ${known}` });
  };

  return {
    get,
    register: (provider, registration) => {
      if (!entries.has(provider.id) && entries.size >= PROVIDERS_MAX) {
        throw new AppError('invalid_request', { detail: `no more than ${PROVIDERS_MAX} providers can be registered` });
      }
      entries.set(provider.id, { provider: wrap(provider), registration });
      if (registration.default) chosen = provider.id;
    },
    unregister: (id) => {
      if (chosen === id) chosen = undefined;
      return entries.delete(id);
    },
    list: () => [...entries.values()].map((entry) => toInfo(entry, defaultId())),
    resolve: ({ provider: id, model } = {}) => {
      const provider = get(id ?? defaultId() ?? '');
      return { provider, model: model ?? provider.defaultModel };
    },
    status: async (id) => {
      const entry = entries.get(id);
      if (!entry) throw new AppError('provider_not_found', { detail: `no provider "${id}"` });
      const started = performance.now();
      const probe = await ask(entry.provider);
      return { id, checkedInMs: Math.round(performance.now() - started), ...probe };
    },
  };
}

async function ask(provider: Provider): Promise<Probe> {
  if ('probe' in provider) return (provider as ProbedProvider).probe();
  return { available: await provider.available() };
}

function toInfo({ provider, registration }: Entry, defaultId: string | undefined): ProviderInfo {
  return {
    id: provider.id,
    kind: provider.kind,
    defaultModel: provider.defaultModel,
    baseUrl: publicUrl(registration.baseUrl),
    isDefault: provider.id === defaultId,
    origin: registration.origin,
  };
}

function publicUrl(url: string | null | undefined): string | null {
  if (!url) return null;
  if (!URL.canParse(url)) return null;
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname === '/' ? '' : pathname}`;
}
