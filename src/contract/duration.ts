import { z } from 'zod';

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)$/;

export type Duration = number | string;

/** A time span people write: `500ms`, `2s`, `5m`, `1.5h`, `1d`, or a number of milliseconds. Bounds in milliseconds. */
export function durationWithin(minMs: number, maxMs: number): z.ZodType<Duration, Duration> {
  const error = `must be a duration such as 500ms, 2s, 5m or 1h, or a whole number of milliseconds, from ${minMs} to ${maxMs} ms`;
  const isWithin = (text: string): boolean => {
    const ms = durationMs(text);
    return ms >= minMs && ms <= maxMs;
  };
  return z.union([z.int(error).min(minMs, error).max(maxMs, error), z.string(error).refine(isWithin, error)], error);
}

/** Unit of the result: whole milliseconds; NaN when it is no duration. */
export function durationMs(duration: Duration): number {
  if (typeof duration === 'number') return duration;
  const [, amount, unit] = DURATION.exec(duration) ?? [];
  return Math.round(Number(amount) * UNIT_MS[unit as keyof typeof UNIT_MS]);
}
