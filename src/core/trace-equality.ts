import type { SealedSignal } from '../contract/signal.ts';
import { isCustomName } from '../contract/workflow-signals.ts';
import { FOREIGN, IGNORED } from './log-diff.ts';
import { canonicalJson } from './signal-seal.ts';

/** Members that place a signal among those of other streams. */
const PLACES: ReadonlySet<string> = new Set(['gseq']);
/** Members that hold a workflow's state: whatever is in it counts. */
const STATES: ReadonlySet<string> = new Set(['value', 'oldValue', 'newValue', 'state']);

/**
 * What a signal says apart from when: id, name, payload and causes. Moments, durations, digests (which follow from moments) and its number
 * among all streams are left out.
 */
export function timeless({ id, stream, name, payload, source }: SealedSignal): unknown {
  // The digest of a snapshot, in which moments stand.
  const { state: _digest, ...transition } = payload;
  const said = name === 'session:transition' ? transition : payload;
  return { id, stream, name, payload: isCustomName(name) ? said : withoutTimes(said), source };
}

/**
 * The first signal in which two traces differ but for times, stream by stream, since parallel streams may interleave in any order; in words.
 * Null when they are equal.
 */
export function traceDifference(a: readonly SealedSignal[], b: readonly SealedSignal[]): string | null {
  const streams = new Set([...a, ...b].map(({ stream }) => stream));
  for (const stream of streams) {
    const [left, right] = [a, b].map((trace) => trace.filter((signal) => signal.stream === stream)) as [SealedSignal[], SealedSignal[]];
    for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
      const [one, other] = [left[index], right[index]].map((signal) => (signal ? canonicalJson(timeless(signal)) : 'nothing'));
      if (one !== other) return `${stream}, signal ${index + 1}:\n- ${one}\n+ ${other}`;
    }
  }
  return null;
}

function withoutTimes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTimes);
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => !IGNORED.has(name) && !PLACES.has(name));
  return Object.fromEntries(kept.map(([name, inner]) => [name, FOREIGN.has(name) || STATES.has(name) ? inner : withoutTimes(inner)]));
}
