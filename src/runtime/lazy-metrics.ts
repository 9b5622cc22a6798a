import type { LiveHub } from './live/live-hub.ts';
import type { MetricSources, Metrics } from './metrics.ts';
import { createTally } from './tally.ts';

export interface LazyMetrics {
  /** Prometheus text. Counts are since the start; the library and the watch on the event loop, 20 MiB, come with the first call. */
  text(): Promise<string>;
  close(): void;
}

export function createLazyMetrics(hub: LiveHub, sources: MetricSources): LazyMetrics {
  const tally = createTally();
  hub.observe(tally);
  let loading: Promise<Metrics> | null = null;
  const load = async () => (await import('./metrics.ts')).createMetrics(tally, sources);
  return {
    text: async () => {
      loading ??= load();
      return (await loading).text();
    },
    close: () => void loading?.then((metrics) => metrics.close()),
  };
}
