import { AppError } from '../core/errors.ts';
import type { EventLoopDelay } from './event-loop-delay.ts';

/** Length of one measurement; unit: milliseconds. */
const WINDOW_MS = 500;
/** Measurements in a row that must be too high: one pause is not overload. */
const WINDOWS_OVER = 2;
/** Share of the room for waiting writes from which on nothing new is begun; the rest is for what runs already. */
const LOG_PRESSURE_MAX = 0.75;
/** What those who are refused should wait; unit: milliseconds. */
const RETRY_AFTER_MS = 1_000;

export interface AdmissionDeps {
  readonly eventLoop: EventLoopDelay;
  /** Mean delay of the event loop from which on nothing new is begun; unit: milliseconds. */
  readonly delayMsMax: number;
  /** Share of the room for waiting writes that is taken, 0 to 1. */
  readonly logPressure: () => number;
}

export interface Admission {
  /** Why new work is not taken now, null when it is. */
  refusal(): AppError | null;
  close(): void;
}

/** New work is refused while the process cannot keep up with what it has: better a clear answer now than a late one for everybody. */
export function startAdmission({ eventLoop, delayMsMax, logPressure }: AdmissionDeps): Admission {
  const meanDelay = eventLoop.meanWindow();
  let over = 0;
  let meanMs = 0;
  const timer = setInterval(() => {
    meanMs = meanDelay();
    over = meanMs > delayMsMax ? over + 1 : 0;
  }, WINDOW_MS);
  timer.unref();
  return {
    refusal: () => {
      if (over >= WINDOWS_OVER) return overloaded(`the event loop is ${Math.round(meanMs)} ms late, ${delayMsMax} ms are allowed`);
      const pressure = logPressure();
      if (pressure < LOG_PRESSURE_MAX) return null;
      return overloaded(`${Math.round(pressure * 100)} % of the room for waiting writes of the signal log is taken`);
    },
    close: () => clearInterval(timer),
  };
}

function overloaded(reason: string): AppError {
  return new AppError('overloaded', { detail: `${reason}; try again later`, retryAfterMs: RETRY_AFTER_MS });
}
