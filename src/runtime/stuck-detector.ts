import type { RuntimeLimits } from '../contract/config.ts';
import type { Logger } from '../core/logger.ts';
import type { SessionHost } from './session-host.ts';
import type { SessionSnapshot } from './session-state.ts';

/** How often sessions in memory are looked at; unit: milliseconds. */
const SCAN_MS = 500;
/** Most a scan counts as time gone by: a process that was suspended or blocked has not waited for anybody; unit: milliseconds. */
const SCAN_COUNTED_MS_MAX = 2 * SCAN_MS;

type BudgetLimits = Pick<RuntimeLimits, 'startTimeoutMs' | 'endTimeoutMs' | 'researchTimeoutMs' | 'toolCallsMax'>;

export interface StuckDetectorDeps {
  readonly hosts: () => Iterable<SessionHost>;
  readonly limits: BudgetLimits & Pick<RuntimeLimits, 'stuckGraceMs'>;
  readonly logger: Logger;
  /** Begins the session anew from its log. */
  readonly restart: (host: SessionHost, error: Error) => void;
}

export interface StuckDetector {
  /** Sessions found stuck since the start; more than none is a bug of this program. */
  readonly count: number;
  close(): void;
}

/** A state that should have ended by itself, because all it waits for has a deadline. */
class SessionStuck extends Error {
  override readonly name = 'SessionStuck';
}

interface Watched {
  readonly stay: string;
  ageMs: number;
}

/**
 * Looks for sessions whose busy state has outlived its budget and the grace: an effect that ignores its deadline, or a timer that was
 * lost. Such a session is restarted. Time is what this process lived through, so neither a clock that is set nor a sleeping machine counts.
 */
export function startStuckDetector({ hosts, limits, logger, restart }: StuckDetectorDeps): StuckDetector {
  let watched = new Map<SessionHost, Watched>();
  let count = 0;
  let scannedAt = performance.now();
  const scan = () => {
    const now = performance.now();
    const passedMs = Math.min(now - scannedAt, SCAN_COUNTED_MS_MAX);
    scannedAt = now;
    const seen = new Map<SessionHost, Watched>();
    for (const host of [...hosts()]) {
      const before = watched.get(host);
      if (host.recording) {
        // It waits for the disk, which is nobody's bug: that time does not count.
        if (before) seen.set(host, before);
        continue;
      }
      const busy = busyStay(host.core.snapshot, limits);
      if (!busy) continue;
      const entry = before?.stay === busy.stay ? before : { stay: busy.stay, ageMs: -passedMs };
      entry.ageMs += passedMs;
      if (entry.ageMs <= busy.budgetMs + limits.stuckGraceMs) {
        seen.set(host, entry);
        continue;
      }
      count += 1;
      const { state } = host.view.session;
      logger.error(
        { session: host.id, state, ageMs: entry.ageMs, budgetMs: busy.budgetMs },
        'a session is stuck; it is restarted from its log',
      );
      restart(host, new SessionStuck(`${state} for ${Math.round(entry.ageMs)} ms, its budget is ${busy.budgetMs} ms`));
    }
    watched = seen;
  };
  const timer = setInterval(scan, SCAN_MS);
  timer.unref();
  return {
    get count() {
      return count;
    },
    close: () => clearInterval(timer),
  };
}

/**
 * The stay a session is in and how long it may last; null when it may last for ever: at rest, or while a person is asked. A turn is one
 * stay, whatever happens in it. Pure.
 */
export function busyStay(
  { status, value, context }: SessionSnapshot,
  limits: BudgetLimits,
): { readonly stay: string; readonly budgetMs: number } | null {
  if (status !== 'active' || value === 'idle' || value === 'passivated') return null;
  if (value === 'starting') return { stay: value, budgetMs: limits.startTimeoutMs };
  if (value === 'ending') return { stay: value, budgetMs: limits.endTimeoutMs };
  if (value === 'aborting') return { stay: `${value} ${context.abort?.at}`, budgetMs: context.limits.abortGraceMs };
  const { turn, pending, calls } = context;
  if (!turn) return { stay: `compaction ${context.compactions}`, budgetMs: context.limits.turnTimeoutMs };
  if (calls.some((call) => call.state === 'waiting')) return null;
  const stay = `turn ${turn.number}`;
  if (typeof value === 'object' && 'turn' in value && value.turn === 'researching') {
    // Research tools beyond those that may run at once wait for the others.
    const waves = Math.ceil((pending.length + turn.researched) / limits.toolCallsMax) || 1;
    return { stay: `${stay} research`, budgetMs: waves * limits.researchTimeoutMs };
  }
  return { stay, budgetMs: turn.deadlineAt - turn.startedAt + context.limits.abortGraceMs };
}
