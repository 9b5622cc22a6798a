import type { Logger } from './core/logger.ts';

/** Faults that nobody caught within `WINDOW_MS`, from which on the process is not fit to go on. */
const FAULTS_MAX = 10;
const WINDOW_MS = 60_000;

/**
 * Keeps the process up when a timer, a listener or a callback throws: sessions are rebuilt from their logs and each has a supervisor, so one lost
 * callback is worth less than all sessions. A process that keeps failing is ended in order, and its process manager starts another one.
 *
 * @param giveUp  called once, with the reason
 * @returns the function that ends it
 * @source docs/decisions/0012-uncaught-faults.md
 */
export function surviveFaults(logger: Logger, giveUp: (reason: string) => void): () => void {
  const seenAt: number[] = [];
  // A rejection that nobody handles arrives here as well, with another origin.
  const onFault = (error: unknown, origin: string) => {
    const now = performance.now();
    seenAt.push(now);
    if (seenAt.length > FAULTS_MAX) seenAt.shift();
    logger.error({ err: error, origin }, 'a fault of this program was caught by nobody; the process goes on, please report it');
    if (seenAt.length === FAULTS_MAX && now - seenAt[0]! < WINDOW_MS)
      giveUp(`${FAULTS_MAX} faults within ${WINDOW_MS / 1_000} s were caught by nobody; the log has them`);
  };
  process.on('uncaughtException', onFault);
  return () => void process.off('uncaughtException', onFault);
}
