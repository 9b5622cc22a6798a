import type { ModelInfo } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
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
