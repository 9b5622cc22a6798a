import { setTimeout as delay } from 'node:timers/promises';

/** Whether `woken` came within `ms`; false after that time, and when `signal` aborts. Leaves no timer behind. */
export async function wokenWithin(woken: Promise<void>, ms: number, signal: AbortSignal): Promise<boolean> {
  const waiting = new AbortController();
  const either = AbortSignal.any([signal, waiting.signal]);
  const silence = delay(ms, false, { signal: either }).catch(() => false);
  try {
    return await Promise.race([woken.then(() => true), silence]);
  } finally {
    waiting.abort();
  }
}

/** The header `Last-Event-ID` of a stream whose ids are whole numbers; what is none counts as no cursor. */
export function cursorOf(header: string | undefined): number | undefined {
  return header !== undefined && /^\d{1,15}$/.test(header) ? Number(header) : undefined;
}
