import type { RuntimeConfig } from './contract/config.ts';
import type { ModelFor } from './core/job.ts';
import type { ProviderRegistry } from './providers/registry.ts';

/**
 * The models of background work, by `runtime.routing`, then `runtime.background`.
 *
 * @param providers  asked at each call: they are composed after the daemon
 */
export function createModelRoutes({ routing, background }: RuntimeConfig, providers: () => ProviderRegistry | undefined): ModelFor {
  return (route, model) => {
    const registry = providers();
    if (!registry) return undefined;
    const { provider: id, model: routed } = routing[route] ?? background;
    const chosen = registry.resolve({ provider: id, model: routed ?? (id === undefined ? model : undefined) });
    return chosen.provider.kind === 'demo' ? undefined : chosen;
  };
}
