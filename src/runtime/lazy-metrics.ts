import type { LiveHub } from './live/live-hub.ts';
import type { MetricSources, Metrics } from './metrics.ts';

export interface LazyMetrics {
  /** Prometheus text. Counting begins with the first call: the library costs 20 MiB, which only those who scrape should pay. */
  text(): Promise<string>;
  close(): void;
}

export function createLazyMetrics(hub: LiveHub, sources: MetricSources): LazyMetrics {
  let loading: Promise<Metrics> | null = null;
  const load = async () => {
    const { createMetrics } = await import('./metrics.ts');
    const metrics = createMetrics(sources);
    hub.observe(metrics);
    return metrics;
  };
  return {
    text: async () => {
      loading ??= load();
      return (await loading).text();
    },
    close: () => void loading?.then((metrics) => metrics.close()),
  };
}
