import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { MatcherState } from 'vitest';
import type { RecordingMode } from './contract/recording.ts';
import type { SealedSignal } from './contract/signal.ts';
import { Player } from './core/player.ts';
import { compilePatterns } from './core/signal-pattern.ts';
import { canonicalJson } from './core/signal-seal.ts';
import { traceDifference } from './core/trace-equality.ts';
import { verifyTrace } from './runtime/recording/verify-trace.ts';

/** Names shown of a trace that has not what was expected. */
const NAMES_SHOWN_MAX = 40;

/** A pattern of names; or the same with what the payload must contain. */
export type ExpectedSignal = string | RegExp | { readonly name: string | RegExp; readonly payload?: unknown };

/** Signals, or what has them: the result of a run, a WorkflowError, a Player. */
export type Trace = readonly SealedSignal[] | { readonly signals: readonly SealedSignal[] };

/** Runs a workflow with this recording; resolves with what `runReactive` answers. */
export type RecordedRun = (recording: { readonly path: string; readonly mode: RecordingMode }) => Promise<{
  readonly state: unknown;
  readonly signals: readonly SealedSignal[];
}>;

/** A trace, the path of an exported log, or a run. */
export type Replayable = Trace | string | RecordedRun;

export interface ReplayOptions {
  /** A recording there is; a run is recorded first when left out. */
  readonly recording?: string;
}

interface Outcome {
  readonly pass: boolean;
  readonly message: () => string;
}

declare module 'vitest' {
  interface Matchers<R extends void | Promise<void> = void | Promise<void>, T = unknown> {
    /** Some signal matches. */
    toContainSignal(expected: ExpectedSignal): R;
    /** Exactly so many signals match. */
    toHaveSignalCount(expected: ExpectedSignal, count: number): R;
    /** Signals match in this order; others may stand between them. */
    toHaveSignalsInOrder(expected: readonly ExpectedSignal[]): R;
    /** A signal that matches the last was caused by one that matches the one before, and so on; others may stand between them. */
    toHaveCausalChain(expected: readonly ExpectedSignal[]): R;
    /** A trace or an exported log: folding its inputs gives it again. A run: its replay has the same state and, but for times, the same signals. */
    toReplay(options?: ReplayOptions): Promise<void>;
  }
}

/** For `expect.extend(signalMatchers)`. */
export const signalMatchers = { toContainSignal, toHaveSignalCount, toHaveSignalsInOrder, toHaveCausalChain, toReplay };

function toContainSignal(this: MatcherState, received: Trace, expected: ExpectedSignal): Outcome {
  const signals = signalsOf(received);
  const found = signals.find(matcherOf(this, expected));
  return {
    pass: found !== undefined,
    message: () =>
      found
        ? `no signal should match ${shown(expected)}, and ${found.id} does: ${canonicalJson(found.payload)}`
        : `no signal matches ${shown(expected)}${nearest(expected, signals)}`,
  };
}

function toHaveSignalCount(this: MatcherState, received: Trace, expected: ExpectedSignal, count: number): Outcome {
  const signals = signalsOf(received);
  const found = signals.filter(matcherOf(this, expected)).length;
  return {
    pass: found === count,
    message: () =>
      `${this.isNot ? 'not ' : ''}${count} signals should match ${shown(expected)}; ${found} do${this.isNot ? '' : nearest(expected, signals)}`,
  };
}

function toHaveSignalsInOrder(this: MatcherState, received: Trace, expected: readonly ExpectedSignal[]): Outcome {
  const signals = signalsOf(received);
  let from = 0;
  const missing = expected.findIndex((one) => {
    const at = signals.findIndex((signal, index) => index >= from && matcherOf(this, one)(signal));
    if (at >= 0) from = at + 1;
    return at < 0;
  });
  const before = missing > 0 ? ` after ${shown(expected[missing - 1]!)} (${signals[from - 1]?.id})` : '';
  return {
    pass: missing < 0,
    message: () =>
      missing < 0
        ? `the signals should not stand in this order: ${expected.map(shown).join(', ')}`
        : `no signal${before} matches ${shown(expected[missing]!)}, number ${missing + 1} of ${expected.length}${names(signals)}`,
  };
}

function toHaveCausalChain(this: MatcherState, received: Trace, expected: readonly ExpectedSignal[]): Outcome {
  const signals = signalsOf(received);
  const byId = new Map(signals.map((signal) => [signal.id, signal]));
  const matchers = expected.map((one) => matcherOf(this, one));
  let best = { linked: 0, causes: [] as string[] };
  for (const end of signals) {
    if (!matchers.at(-1)?.(end)) continue;
    let open = matchers.length - 1;
    const causes = [end.name];
    for (let signal = causeOf(byId, end); signal && open > 0; signal = causeOf(byId, signal)) {
      causes.unshift(signal.name);
      if (matchers[open - 1]!(signal)) open -= 1;
    }
    if (matchers.length - open > best.linked) best = { linked: matchers.length - open, causes };
  }
  const pass = best.linked === matchers.length;
  const failed = () =>
    best.linked === 0
      ? `no signal matches ${shown(expected.at(-1)!)}, the end of the chain${names(signals)}`
      : `nothing that matches ${shown(expected[expected.length - 1 - best.linked]!)} is among the causes: ${best.causes.join(' → ')}`;
  return { pass, message: () => (pass ? `there should be no such chain: ${best.causes.join(' → ')}` : failed()) };
}

async function toReplay(this: MatcherState, received: Replayable, { recording }: ReplayOptions = {}): Promise<Outcome> {
  const difference = typeof received === 'function' ? await replayRun(received, recording) : await verifyTrace(tracesOf(received));
  return {
    pass: difference === null,
    message: () => (difference === null ? 'it should not replay, and it does' : `it does not replay; ${difference}`),
  };
}

async function replayRun(run: RecordedRun, recording: string | undefined): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), 'signet-replay-'));
  const path = recording ?? join(folder, 'recording.jsonl');
  try {
    const first = await run({ path, mode: recording === undefined ? 'record' : 'replay' });
    const second = await run({ path, mode: 'replay' });
    const [one, other] = [canonicalJson(first.state), canonicalJson(second.state)];
    return one === other ? traceDifference(first.signals, second.signals) : `the states differ\n- ${one}\n+ ${other}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function tracesOf(received: Trace | string): readonly SealedSignal[] {
  return typeof received === 'string' ? Player.fromLog(readFileSync(received, 'utf8')).signals : signalsOf(received);
}

function signalsOf(received: Trace): readonly SealedSignal[] {
  const signals: unknown = Array.isArray(received) ? received : (received as { signals?: unknown } | null)?.signals;
  if (Array.isArray(signals)) return signals;
  throw new TypeError('expect() takes a list of signals, or what has `signals`: the result of runReactive, a WorkflowError, a Player');
}

function matcherOf({ equals, utils, customTesters }: MatcherState, expected: ExpectedSignal): (signal: SealedSignal) => boolean {
  const { name, payload } = typeof expected === 'string' || expected instanceof RegExp ? { name: expected } : expected;
  const matches = compilePatterns([name]);
  if (payload === undefined) return (signal) => matches(signal.name);
  const testers = [...customTesters, utils.iterableEquality, utils.subsetEquality];
  return (signal) => matches(signal.name) && equals(signal.payload, payload, testers);
}

function causeOf(byId: ReadonlyMap<string, SealedSignal>, { source }: SealedSignal): SealedSignal | undefined {
  return source.parent === undefined ? undefined : byId.get(source.parent);
}

/** Signals of the right name with another payload; else the names there are. */
function nearest(expected: ExpectedSignal, signals: readonly SealedSignal[]): string {
  if (typeof expected === 'string' || expected instanceof RegExp || expected.payload === undefined) return names(signals);
  const matches = compilePatterns([expected.name]);
  const near = signals.filter((signal) => matches(signal.name)).slice(0, NAMES_SHOWN_MAX);
  return near.length === 0
    ? names(signals)
    : `\nof that name there are:\n${near.map(({ name, payload }) => `  ${name} ${canonicalJson(payload)}`).join('\n')}`;
}

function names(signals: readonly SealedSignal[]): string {
  const all = [...new Set(signals.map(({ name }) => name))];
  const rest = all.length > NAMES_SHOWN_MAX ? `, and ${all.length - NAMES_SHOWN_MAX} more` : '';
  return `\nthe names of the ${signals.length} signals are: ${all.slice(0, NAMES_SHOWN_MAX).join(', ')}${rest}`;
}

function shown(expected: ExpectedSignal): string {
  if (typeof expected === 'string' || expected instanceof RegExp) return `\`${expected}\``;
  return expected.payload === undefined ? `\`${expected.name}\`` : `\`${expected.name}\` with ${print(expected.payload)}`;
}

/** Asymmetric matchers say what they are themselves. */
function print(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && 'asymmetricMatch' in inner ? String(inner) : inner,
  );
}
