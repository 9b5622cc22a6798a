import type { PayloadOf } from '../contract/catalog.ts';
import type { Usage } from '../contract/provider.ts';
import type { HubObserver } from './live/live-hub.ts';

const MS_PER_SECOND = 1_000;
const DWELL_BUCKETS_SECONDS = [0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 1_800];
const APPEND_BUCKETS_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2];
/** Between the values of labels in a key; no label has it. */
const SEPARATOR = '\0';

export type Labels = Readonly<Record<string, string>>;

interface Entry {
  readonly labels: Labels;
  value: number;
}

/** A sum for each set of labels. */
export class Sum {
  readonly #entries = new Map<string, Entry>();

  add(labels: Labels, amount = 1): void {
    const key = keyOf(labels);
    const entry = this.#entries.get(key);
    if (entry) entry.value += amount;
    else this.#entries.set(key, { labels, value: amount });
  }

  entries(): Iterable<Readonly<Entry>> {
    return this.#entries.values();
  }
}

export interface Spread {
  readonly labels: Labels;
  /** Observations up to the bound of the same place and above the one before; the last place is for those above all bounds. */
  readonly counts: number[];
  sum: number;
}

/** How observations spread over bounds, for each set of labels. */
export class Distribution {
  readonly #entries = new Map<string, Spread>();

  readonly bounds: readonly number[];

  /** @param bounds  ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
  }

  observe(labels: Labels, value: number): void {
    const key = keyOf(labels);
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = { labels, counts: Array.from({ length: this.bounds.length + 1 }, () => 0), sum: 0 };
      this.#entries.set(key, entry);
    }
    const found = this.bounds.findIndex((bound) => value <= bound);
    entry.counts[found < 0 ? this.bounds.length : found]! += 1;
    entry.sum += value;
  }

  entries(): Iterable<Readonly<Spread>> {
    return this.#entries.values();
  }
}

function keyOf(labels: Labels): string {
  let key = '';
  for (const name in labels) key += labels[name] + SEPARATOR;
  return key;
}

/** What has happened since the process started, in plain numbers: they cost under a microsecond a signal, whether anybody asks or not. */
export interface Tally extends HubObserver {
  readonly turns: Sum;
  readonly tokens: Sum;
  readonly cost: Sum;
  readonly calls: Sum;
  readonly tools: Sum;
  readonly restarts: Sum;
  readonly limits: Sum;
  readonly signals: Sum;
  readonly dwell: Distribution;
  readonly append: Distribution;
  readonly lagging: number;
}

const NO_LABELS: Labels = {};

export function createTally(): Tally {
  const tally = {
    turns: new Sum(),
    tokens: new Sum(),
    cost: new Sum(),
    calls: new Sum(),
    tools: new Sum(),
    restarts: new Sum(),
    limits: new Sum(),
    signals: new Sum(),
    dwell: new Distribution(DWELL_BUCKETS_SECONDS),
    append: new Distribution(APPEND_BUCKETS_SECONDS),
    lagging: 0,
  };
  return Object.assign(tally, {
    observe: ({ name, payload }: Parameters<HubObserver['observe']>[0]) => {
      tally.signals.add(NO_LABELS);
      OBSERVERS[name]?.(tally, payload as never);
    },
    appended: (seconds: number) => tally.append.observe(NO_LABELS, seconds),
    lag: (readers: 1 | -1) => {
      tally.lagging += readers;
    },
  });
}

type Counted = Omit<Tally, keyof HubObserver>;
type Observer = (tally: Counted, payload: never) => void;

function countUsage({ tokens, cost }: Counted, usage: Usage, costUsd: number | null): void {
  tokens.add({ direction: 'in' }, usage.inputTokens);
  tokens.add({ direction: 'out' }, usage.outputTokens);
  if (costUsd !== null) cost.add(NO_LABELS, costUsd);
}

const OBSERVERS: Readonly<Record<string, Observer>> = {
  'turn:end': ({ turns }, { stopReason }: PayloadOf<'turn:end'>) => turns.add({ outcome: stopReason }),
  'turn:rejected': ({ turns }) => turns.add({ outcome: 'rejected' }),
  'harness:end': (tally, { usage, costUsd }: PayloadOf<'harness:end'>) => {
    tally.calls.add({ outcome: 'ok' });
    countUsage(tally, usage, costUsd);
  },
  'harness:error': (tally, { code, usage, costUsd = null }: PayloadOf<'harness:error'>) => {
    tally.calls.add({ outcome: code });
    if (usage) countUsage(tally, usage, costUsd);
  },
  'tool:result': ({ tools }, { isError }: PayloadOf<'tool:result'>) => tools.add({ outcome: isError ? 'error' : 'ok' }),
  'supervisor:child:restarted': ({ restarts }) => restarts.add(NO_LABELS),
  'supervisor:limit': ({ limits }, { kind, action }: PayloadOf<'supervisor:limit'>) => limits.add({ kind, action }),
  'session:transition': ({ dwell }, { from, dwellMs }: PayloadOf<'session:transition'>) => {
    if (from[0]) dwell.observe({ state: from[0] }, dwellMs / MS_PER_SECOND);
  },
};
