import { monitorEventLoopDelay } from 'node:perf_hooks';

/** How often the delay is sampled; unit: milliseconds. */
const RESOLUTION_MS = 20;
const NANOSECONDS_PER_MS = 1e6;

/** How late the event loop runs: one watch for all who ask, each costs a timer and 400 KiB. */
export interface EventLoopDelay {
  /** Of all samples since the start; a sample is the whole time between two ticks of the sampler. Unit: milliseconds, NaN without a sample. */
  percentile(percentile: number): number;
  /** Starts a measurement; each call of what it returns answers the mean lateness since the call before, unit: milliseconds. */
  meanWindow(): () => number;
  close(): void;
}

export function watchEventLoop(): EventLoopDelay {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  const totals = () => ({ count: histogram.count, sum: histogram.count === 0 ? 0 : histogram.mean * histogram.count });
  return {
    percentile: (percentile) => histogram.percentile(percentile) / NANOSECONDS_PER_MS,
    meanWindow: () => {
      let before = totals();
      return () => {
        const now = totals();
        const samples = now.count - before.count;
        const mean = samples === 0 ? RESOLUTION_MS : (now.sum - before.sum) / samples / NANOSECONDS_PER_MS;
        before = now;
        // Late is what exceeds the sampler's own rhythm.
        return Math.max(0, mean - RESOLUTION_MS);
      };
    },
    close: () => void histogram.disable(),
  };
}
