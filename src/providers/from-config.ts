import type { ProviderConfig, RuntimeConfig } from '../contract/config.ts';
import { AppError } from '../core/errors.ts';
import type { Provider } from '../core/provider.ts';
import { createAnthropicProvider } from './anthropic.ts';
import { createDemoProvider, DEMO_ID } from './demo.ts';
import { createOpenaiProvider } from './openai.ts';
import { createOpenaiCompatibleProvider, OLLAMA_URL } from './openai-compatible.ts';
import { createProviderRegistry, type ProviderRegistry } from './registry.ts';
import type { ProviderSettings } from './settings.ts';

/** The part of `runtime:` in agent.yaml that names providers. */
export type ProvidersConfig = Partial<Pick<RuntimeConfig, 'default' | 'model' | 'providers'>>;
export type Environment = Readonly<Record<string, string | undefined>>;

/** One provider before it is built: from agent.yaml, or as the environment implies it. */
interface Plan {
  readonly id: string;
  readonly origin: string;
  readonly config: ProviderConfig;
}

/** Where keys and addresses stand when the configuration names no other place. */
const ENVIRONMENT: Readonly<Record<string, { readonly key: string; readonly baseUrl: string }>> = {
  anthropic: { key: 'ANTHROPIC_API_KEY', baseUrl: 'ANTHROPIC_BASE_URL' },
  openai: { key: 'OPENAI_API_KEY', baseUrl: 'OPENAI_BASE_URL' },
  'openai-compatible': { key: 'OPENAI_API_KEY', baseUrl: 'OPENAI_BASE_URL' },
};

/**
 * The providers that agent.yaml names and those the environment implies; the configuration wins where both name one id.
 * The default is SIGNET_PROVIDER, then `default`, then the first of the configuration, then what the environment implies, then the demo,
 * which is always there. SIGNET_MODEL, then `model`, is the model of the default provider. Nothing is called and no SDK is loaded.
 *
 * @throws AppError `config_invalid` when the default names a provider that is not there
 */
export function createConfiguredProviders(
  config: ProvidersConfig,
  env: Environment,
  warn: (fields: object, message: string) => void = () => undefined,
  wrap?: (provider: Provider) => Provider,
): ProviderRegistry {
  const configured = Object.entries(config.providers ?? {}).map(([id, provider]): Plan => ({ id, origin: 'agent.yaml', config: provider }));
  const ids = new Set(configured.map((plan) => plan.id));
  const wanted = set(env.SIGNET_PROVIDER) ?? config.default;
  const source = set(env.SIGNET_PROVIDER) ? 'SIGNET_PROVIDER' : 'runtime.default';
  const plans = [...configured, ...impliedPlans(env, wanted, source).filter((plan) => !ids.has(plan.id))];
  if (!plans.some((plan) => plan.id === DEMO_ID)) plans.push({ id: DEMO_ID, origin: 'built in', config: { kind: 'demo' } });

  const chosen = wanted === undefined ? plans[0]! : plans.find((plan) => plan.id === wanted);
  if (!chosen) {
    throw new AppError('config_invalid', {
      detail: `${source} names "${wanted}"; known providers: ${plans.map((plan) => plan.id).join(', ')}`,
    });
  }
  const model = set(env.SIGNET_MODEL) ?? config.model;
  const registry = createProviderRegistry(wrap);
  for (const plan of plans) {
    const built = buildProvider(plan, plan === chosen ? model : undefined, env, warn);
    if (built.keyEnvUnset) {
      const fields = { provider: plan.id, variable: built.keyEnvUnset };
      warn(fields, 'apiKeyEnv names a variable that is not set; calls to this provider have no key');
    }
    registry.register(built.provider, { origin: plan.origin, baseUrl: built.baseUrl, default: plan === chosen });
  }
  return registry;
}

/** A kind that is asked for by name is there even without a key: its calls then say which variable is missing. */
function impliedPlans(env: Environment, wanted: string | undefined, source: string): Plan[] {
  const plans: Plan[] = [];
  const add = (kind: ProviderConfig['kind'], origin: string): void => void plans.push({ id: kind, origin, config: { kind } });
  if (set(env.ANTHROPIC_API_KEY)) add('anthropic', 'ANTHROPIC_API_KEY');
  else if (set(env.ANTHROPIC_BASE_URL)) add('anthropic', 'ANTHROPIC_BASE_URL');
  else if (wanted === 'anthropic') add('anthropic', source);
  if (set(env.OPENAI_API_KEY)) add('openai', 'OPENAI_API_KEY');
  else if (wanted === 'openai') add('openai', source);
  if (wanted === 'openai-compatible') add('openai-compatible', source);
  else if (set(env.OPENAI_BASE_URL) && !set(env.OPENAI_API_KEY)) add('openai-compatible', 'OPENAI_BASE_URL');
  return plans;
}

interface Built {
  readonly provider: Provider;
  readonly baseUrl: string | null;
  readonly keyEnvUnset?: string | undefined;
}

function buildProvider({ id, config }: Plan, model: string | undefined, env: Environment, warn: ProviderSettings['warn']): Built {
  if (config.kind === 'demo') return { provider: createDemoProvider({ id }), baseUrl: null };
  const names = ENVIRONMENT[config.kind]!;
  const keyName = config.apiKeyEnv ?? names.key;
  const baseUrl = config.baseUrl ?? set(env[names.baseUrl]);
  // The key of the official service is not handed to another address unless the configuration names it.
  const elsewhere = config.apiKeyEnv === undefined && (config.baseUrl !== undefined || (config.kind === 'openai-compatible' && !baseUrl));
  const apiKey = set(config.apiKey) ?? (elsewhere ? undefined : set(env[keyName]));
  const keyEnvUnset = config.apiKeyEnv !== undefined && !apiKey ? config.apiKeyEnv : undefined;
  const settings = {
    id,
    keyHint: `set ${keyName}, or apiKeyEnv of runtime.providers.${id} in agent.yaml`,
    ...(apiKey ? { apiKey } : {}),
    ...(keyEnvUnset ? { keyEnvUnset } : {}),
    ...(baseUrl ? { baseUrl } : {}),
    ...((model ?? config.model) ? { model: model ?? config.model } : {}),
    ...(config.stallTimeoutMs === undefined ? {} : { stallTimeoutMs: config.stallTimeoutMs }),
    ...(config.headers ? { headers: config.headers } : {}),
    ...(config.models ? { models: config.models } : {}),
    ...(warn ? { warn } : {}),
  };
  if (config.kind === 'anthropic') return { provider: createAnthropicProvider(settings), baseUrl: baseUrl ?? null, keyEnvUnset };
  if (config.kind === 'openai') return { provider: createOpenaiProvider(settings), baseUrl: baseUrl ?? null, keyEnvUnset };
  return { provider: createOpenaiCompatibleProvider(settings), baseUrl: baseUrl ?? OLLAMA_URL, keyEnvUnset };
}

/** An empty variable counts as not set. */
function set(value: string | undefined): string | undefined {
  return value === undefined || value.trim() === '' ? undefined : value.trim();
}
