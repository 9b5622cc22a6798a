import type { Logger } from './logger.ts';

/** After this long a phase of the start is named in the log, and again each time as long has passed twice over; unit: milliseconds. */
const SLOW_PHASE_MS = 2_000;
/** The line of the log by which `signet start` knows what is waited for. */
export const START_WAITS = 'the start waits';

/** Says what a start waits for, and how long it took, where that is long. Fast phases say nothing. */
export interface StartPhases {
  /** @param what  as a person reads it behind "waits for" */
  run<T>(what: string, work: Promise<T>): Promise<T>;
}

/** @param slowMs  SLOW_PHASE_MS when left out */
export function createStartPhases(log: Logger, slowMs: number = SLOW_PHASE_MS): StartPhases {
  return {
    async run(what, work) {
      const begun = performance.now();
      const waitedMs = () => Math.round(performance.now() - begun);
      let timer: NodeJS.Timeout | undefined;
      const sayAfter = (ms: number): void => {
        timer = setTimeout(() => {
          log.warn({ phase: what, waitedMs: waitedMs() }, START_WAITS);
          sayAfter(ms * 2);
        }, ms);
        timer.unref();
      };
      sayAfter(slowMs);
      try {
        return await work;
      } finally {
        clearTimeout(timer);
        if (waitedMs() >= slowMs) log.info({ phase: what, waitedMs: waitedMs() }, 'a phase of the start took long');
      }
    },
  };
}
