import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { CallTotals } from '../core/usage.ts';
import { residentBytes } from './resident-memory.ts';
import type { Distribution, Labels, Spread, Sum, Tally } from './tally.ts';

const DELAY_RESOLUTION_MS = 20;
const NANOSECONDS_PER_SECOND = 1e9;

export interface Metrics {
  /** Prometheus text. */
  text(): Promise<string>;
  close(): void;
}

export interface MetricSources {
  readonly countCards: () => Promise<Record<string, number>>;
  readonly alive: () => number;
  readonly queued: () => number;
  readonly quarantined: () => number;
  /** Since the start. */
  readonly stuck: () => number;
  /** Every request to a provider since the start, by purpose; without it, the calls of sessions are shown. */
  readonly calls?: (() => readonly CallTotals[]) | undefined;
}

/** Numbers for Prometheus: what was tallied since the start, and what is now. */
export function createMetrics(tally: Tally, sources: MetricSources): Metrics {
  const registry = new Registry();
  registerSums(registry, tally);
  registerCalls(registry, tally, sources.calls);
  const registers = [registry];
  const dwell = { name: 'signet_state_seconds', help: 'Time a session spent in a state', labelNames: ['state'], registers };
  new TalliedHistogram(dwell, tally.dwell);
  new TalliedHistogram({ name: 'signet_append_seconds', help: 'From append to fsynced', labelNames: [], registers }, tally.append);
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  registerGauges(registry, tally, sources, delay);
  return { text: () => registry.metrics(), close: () => delay.disable() };
}

function registerSums(registry: Registry, tally: Tally): void {
  const counter = (name: string, help: string, sum: Sum, labelNames: string[] = []) =>
    new Counter({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, value } of sum.entries()) this.inc(labels, value);
      },
    });
  counter('signet_turns_total', 'Turns by how they ended', tally.turns, ['outcome']);
  counter('signet_tool_calls_total', 'Tool calls by outcome', tally.tools, ['outcome']);
  counter('signet_session_restarts_total', 'Crashed sessions that were started again', tally.restarts);
  counter('signet_limits_met_total', 'Limits met by what came of it', tally.limits, ['kind', 'action']);
  counter('signet_signals_total', 'Signals committed', tally.signals);
}

function registerCalls(registry: Registry, tally: Tally, calls: MetricSources['calls']): void {
  const counter = (name: string, help: string, label: string[], lines: () => Iterable<{ labels: Labels; value: number }>) =>
    new Counter({
      name,
      help,
      labelNames: ['purpose', ...label],
      registers: [registry],
      collect() {
        this.reset();
        for (const { labels, value } of lines()) this.inc(labels, value);
      },
    });
  const totals = (values: (total: CallTotals) => { labels: Labels; value: number }[]) => calls?.().flatMap(values);
  counter(
    'signet_tokens_total',
    'Tokens of provider calls',
    ['direction'],
    () =>
      totals(({ purpose, inputTokens, outputTokens }) => [
        { labels: { purpose, direction: 'in' }, value: inputTokens },
        { labels: { purpose, direction: 'out' }, value: outputTokens },
      ]) ?? tally.tokens.entries(),
  );
  counter(
    'signet_cost_usd_total',
    'Cost of provider calls with a known price',
    [],
    () => totals(({ purpose, costUsd }) => [{ labels: { purpose }, value: costUsd }]) ?? tally.cost.entries(),
  );
  counter(
    'signet_model_calls_total',
    'Provider calls by purpose and outcome',
    ['outcome'],
    () => totals(({ purpose, outcome, calls: value }) => [{ labels: { purpose, outcome }, value }]) ?? tally.calls.entries(),
  );
}

/** Shows a distribution; prom-client's own would have to be told every observation once more. */
class TalliedHistogram extends Histogram {
  readonly #config: { readonly name: string; readonly help: string };
  readonly #distribution: Distribution;

  constructor(config: { name: string; help: string; labelNames: string[]; registers: Registry[] }, distribution: Distribution) {
    super({ ...config, buckets: [...distribution.bounds] });
    this.#distribution = distribution;
    this.#config = config;
  }

  /** What the registry and `get` ask for; its type is not among those the library declares. */
  async getForPromString() {
    const { name, help } = this.#config;
    const { bounds } = this.#distribution;
    const values = [...this.#distribution.entries()].flatMap((spread) => linesOf(name, bounds, spread));
    return { name, help, type: 'histogram', aggregator: 'sum', values };
  }
}

function linesOf(name: string, bounds: readonly number[], { labels: sharedLabels, counts, sum }: Spread) {
  let count = 0;
  const buckets = counts.map((more, place) => {
    count += more;
    return { metricName: `${name}_bucket`, labels: { le: bounds[place] ?? '+Inf' }, sharedLabels, value: count };
  });
  const line = (end: string, value: number) => ({ metricName: `${name}_${end}`, labels: {}, sharedLabels, value });
  return [...buckets, line('sum', sum), line('count', count)];
}

function registerGauges(registry: Registry, tally: Tally, sources: MetricSources, delay: ReturnType<typeof monitorEventLoopDelay>): void {
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  new Gauge({
    name: 'signet_sessions',
    help: 'Sessions by state, in memory or not',
    labelNames: ['state'],
    registers,
    async collect() {
      this.reset();
      for (const [state, count] of Object.entries(await sources.countCards())) this.set({ state }, count);
    },
  });
  gauge('signet_readers_lagging', 'Stream readers that are behind and were told so', () => tally.lagging);
  gauge('signet_sessions_in_memory', 'Sessions with an actor', sources.alive);
  gauge('signet_sessions_quarantined', 'Sessions put aside until somebody resumes them', sources.quarantined);
  gauge(
    'signet_sessions_stuck',
    'Sessions restarted since the start because a state outlived its budget; more than none is a bug',
    sources.stuck,
  );
  gauge('signet_prompts_queued', 'Prompts that wait for their turn', sources.queued);
  gauge('signet_event_loop_delay_p99_seconds', 'Event loop delay since the last look', () => {
    const seconds = delay.percentile(99) / NANOSECONDS_PER_SECOND;
    delay.reset();
    return Number.isFinite(seconds) ? seconds : 0;
  });
  gauge('process_resident_memory_bytes', 'Resident memory', residentBytes);
}
