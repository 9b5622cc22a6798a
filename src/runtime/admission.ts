import { monitorEventLoopDelay } from 'node:perf_hooks';
import { AppError } from '../core/errors.ts';

/** How often the event loop's delay is sampled; unit: milliseconds. */
const DELAY_RESOLUTION_MS = 20;
/** Length of one measurement; unit: milliseconds. */
const WINDOW_MS = 500;
/** Measurements in a row that must be too high: one pause is not overload. */
const WINDOWS_OVER = 2;
const NANOSECONDS_PER_MS = 1e6;
/** Share of the room for waiting writes from which on nothing new is begun; the rest is for what runs already. */
const LOG_PRESSURE_MAX = 0.75;
/** What those who are refused should wait; unit: milliseconds. */
const RETRY_AFTER_MS = 1_000;

export interface AdmissionDeps {
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
export function startAdmission({ delayMsMax, logPressure }: AdmissionDeps): Admission {
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  let over = 0;
  let meanMs = 0;
  const timer = setInterval(() => {
    // A sample is the whole time between two ticks of the sampler; late is what exceeds its own rhythm.
    meanMs = delay.count === 0 ? 0 : Math.max(0, delay.mean / NANOSECONDS_PER_MS - DELAY_RESOLUTION_MS);
    over = meanMs > delayMsMax ? over + 1 : 0;
    delay.reset();
  }, WINDOW_MS);
  timer.unref();
  return {
    refusal: () => {
      if (over >= WINDOWS_OVER) return overloaded(`the event loop is ${Math.round(meanMs)} ms late, ${delayMsMax} ms are allowed`);
      const pressure = logPressure();
      if (pressure < LOG_PRESSURE_MAX) return null;
      return overloaded(`${Math.round(pressure * 100)} % of the room for waiting writes of the signal log is taken`);
    },
    close: () => {
      clearInterval(timer);
      delay.disable();
    },
  };
}

function overloaded(reason: string): AppError {
  return new AppError('overloaded', { detail: `${reason}; try again later`, retryAfterMs: RETRY_AFTER_MS });
}
