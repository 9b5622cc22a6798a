import type { ModelInfo } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import { nearestNames } from '../core/nearest-name.ts';
import { modelInfo } from '../providers/prices.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

export interface ChosenModel {
  readonly provider: string;
  readonly model: string;
  readonly contextLimit: number;
}

/**
 * The provider, model and context window a session or prompt gets. A model that only the provider can know is not questioned here: its
 * answer to the first call tells.
 *
 * @throws AppError `unknown_provider`, `unknown_model`
 */
export function chooseModel(
  deps: Pick<RuntimeDeps, 'providers' | 'config'>,
  choice: { provider?: string | null; model?: string | null },
): ChosenModel {
  const { provider, model } = deps.providers.resolve(choice);
  if (provider.kind === 'demo' && model !== provider.defaultModel) {
    throw new AppError('unknown_model', { detail: `provider ${provider.id} has one model, "${provider.defaultModel}", not "${model}"` });
  }
  const info: ModelInfo = modelInfo(provider.id, { id: model }, deps.config.providers[provider.id]?.models?.[model]);
  return { provider: provider.id, model, contextLimit: info.contextTokens ?? deps.config.limits.contextTokensMax };
}

/** Models that were warned of; beyond it all may be warned of again. */
const WARNED_MAX = 1_000;
const WARNED = new WeakMap<RuntimeDeps['providers'], Set<string>>();

/**
 * A model that the provider's own list does not have is told once in the process's log. It is not refused: lists leave out aliases and what
 * was released today, and the provider answers the first call with what is true.
 */
export async function warnOfUnlisted(
  { providers, logger }: Pick<RuntimeDeps, 'providers' | 'logger'>,
  { provider: id, model }: { readonly provider: string | null; readonly model: string | null },
): Promise<void> {
  const key = `${id} ${model}`;
  const warned = WARNED.get(providers) ?? new Set();
  WARNED.set(providers, warned);
  if (id === null || model === null || warned.has(key)) return;
  if (warned.size >= WARNED_MAX) warned.clear();
  warned.add(key);
  // Bounded and never throws; the provider may have been unregistered since.
  const listed = providers.list().some((provider) => provider.id === id) ? await providers.get(id).models() : [];
  const names = listed.map((info) => info.id);
  if (names.length === 0 || names.includes(model)) return;
  logger.warn(
    { provider: id, model, nearest: nearestNames(model, names) },
    'the list of the provider does not have this model; a session uses it',
  );
}
