import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { PayloadOf } from '../contract/catalog.ts';
import type { Usage } from '../contract/provider.ts';
import type { HubObserver } from './live/live-hub.ts';

const DELAY_RESOLUTION_MS = 20;
const NANOSECONDS_PER_SECOND = 1e9;
const MS_PER_SECOND = 1_000;
const DWELL_BUCKETS_SECONDS = [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1_800];
const APPEND_BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2];

export interface Metrics extends HubObserver {
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
}

/** Numbers for Prometheus, folded from the same signals everything else is. */
export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  const counters = createCounters(registry);
  const append = new Histogram({
    name: 'signet_append_seconds',
    help: 'From append to fsynced',
    buckets: APPEND_BUCKETS_SECONDS,
    registers: [registry],
  });
  const lagging = new Gauge({
    name: 'signet_readers_lagging',
    help: 'Stream readers that are behind and were told so',
    registers: [registry],
  });
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  createGauges(registry, sources, delay);
  return {
    observe: (signal) => {
      counters.signals.inc();
      OBSERVERS[signal.name]?.(counters, signal.payload as never);
    },
    appended: (seconds) => append.observe(seconds),
    lag: (readers) => lagging.inc(readers),
    text: () => registry.metrics(),
    close: () => delay.disable(),
  };
}

type Counters = ReturnType<typeof createCounters>;

function createCounters(registry: Registry) {
  const registers = [registry];
  return {
    turns: new Counter({ name: 'signet_turns_total', help: 'Turns by how they ended', labelNames: ['outcome'], registers }),
    tokens: new Counter({ name: 'signet_tokens_total', help: 'Tokens of model calls', labelNames: ['direction'], registers }),
    cost: new Counter({ name: 'signet_cost_usd_total', help: 'Cost of model calls with a known price', registers }),
    calls: new Counter({ name: 'signet_model_calls_total', help: 'Model calls by outcome', labelNames: ['outcome'], registers }),
    tools: new Counter({ name: 'signet_tool_calls_total', help: 'Tool calls by outcome', labelNames: ['outcome'], registers }),
    restarts: new Counter({ name: 'signet_session_restarts_total', help: 'Crashed sessions that were started again', registers }),
    limits: new Counter({
      name: 'signet_limits_met_total',
      help: 'Limits met by what came of it',
      labelNames: ['kind', 'action'],
      registers,
    }),
    signals: new Counter({ name: 'signet_signals_total', help: 'Signals committed', registers }),
    dwell: new Histogram({
      name: 'signet_state_seconds',
      help: 'Time a session spent in a state',
      labelNames: ['state'],
      buckets: DWELL_BUCKETS_SECONDS,
      registers,
    }),
  };
}

function createGauges(registry: Registry, sources: MetricSources, delay: ReturnType<typeof monitorEventLoopDelay>): void {
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
  gauge('process_resident_memory_bytes', 'Resident memory', () => process.memoryUsage.rss());
}

type Observer = (counters: Counters, payload: never) => void;

function countUsage({ tokens, cost }: Counters, usage: Usage, costUsd: number | null): void {
  tokens.inc({ direction: 'in' }, usage.inputTokens);
  tokens.inc({ direction: 'out' }, usage.outputTokens);
  if (costUsd !== null) cost.inc(costUsd);
}

const OBSERVERS: Readonly<Record<string, Observer>> = {
  'turn:end': (counters, { stopReason }: PayloadOf<'turn:end'>) => counters.turns.inc({ outcome: stopReason }),
  'turn:rejected': (counters) => counters.turns.inc({ outcome: 'rejected' }),
  'harness:end': (counters, { usage, costUsd }: PayloadOf<'harness:end'>) => {
    counters.calls.inc({ outcome: 'ok' });
    countUsage(counters, usage, costUsd);
  },
  'harness:error': (counters, { code, usage, costUsd = null }: PayloadOf<'harness:error'>) => {
    counters.calls.inc({ outcome: code });
    if (usage) countUsage(counters, usage, costUsd);
  },
  'tool:result': (counters, { isError }: PayloadOf<'tool:result'>) => counters.tools.inc({ outcome: isError ? 'error' : 'ok' }),
  'supervisor:child:restarted': (counters) => counters.restarts.inc(),
  'supervisor:limit': (counters, { kind, action }: PayloadOf<'supervisor:limit'>) => counters.limits.inc({ kind, action }),
  'session:transition': (counters, { from, dwellMs }: PayloadOf<'session:transition'>) => {
    if (from[0]) counters.dwell.observe({ state: from[0] }, dwellMs / MS_PER_SECOND);
  },
};
