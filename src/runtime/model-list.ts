import type { ModelInfo } from '../contract/provider.ts';
import { AppError } from '../core/errors.ts';
import type { ProviderRegistry } from '../providers/registry.ts';

/** Models of one provider or of all, asked in parallel. @throws AppError `provider_not_found` */
export async function listModels(providers: ProviderRegistry, only?: string): Promise<{ models: ModelInfo[]; count: number }> {
  const ids = providers.list().map((provider) => provider.id);
  if (only !== undefined && !ids.includes(only))
    throw new AppError('provider_not_found', { detail: `no provider "${only}"; known: ${ids.join(', ')}` });
  const wanted = only === undefined ? ids : [only];
  const models = (await Promise.all(wanted.map((id) => providers.get(id).models()))).flat();
  return { models, count: models.length };
}
