import { AppError } from './errors.ts';

export interface Deadline {
  /** Aborts with AppError `timeout`, or with the caller's own reason. */
  readonly signal: AbortSignal;
  /** Gives timer and listener back; call it in any case. */
  clear(): void;
}

/**
 * One abort signal for "took too long" and "the caller gave up". `AbortSignal.timeout` would live on until its time is over, however soon
 * the work is done.
 *
 * @param what  as the error names it: `<what> was not answered within …`
 */
export function createDeadline(what: string, timeoutMs: number, caller?: AbortSignal): Deadline {
  const controller = new AbortController();
  const give = () => controller.abort(caller?.reason);
  const timer = setTimeout(() => {
    controller.abort(new AppError('timeout', { detail: `${what} was not answered within ${timeoutMs} ms` }));
  }, timeoutMs);
  if (caller?.aborted) give();
  else caller?.addEventListener('abort', give, { once: true });
  return {
    signal: controller.signal,
    clear() {
      clearTimeout(timer);
      caller?.removeEventListener('abort', give);
    },
  };
}

/** `work`, or the signal's reason when that comes first; what `work` does later is dropped. */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
