import { randomBytes, randomUUID } from 'node:crypto';

/** Time as the program sees it; tests bring their own. */
export interface Clock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** A log whose times are further ahead than this was written by a clock that was wrong: it does not set the time; unit: milliseconds. */
const AHEAD_MS_MAX = 86_400_000;

/**
 * A clock that never runs back: when the wall's does, this one goes on from where it was, at its own pace, until the wall has caught up.
 * What waits until some time then waits as long as it was told to.
 *
 * @param elapsedMs  milliseconds since any fixed moment, not touched by whoever sets the wall clock
 * @param newestMs   newest time an earlier process wrote down, if any
 */
export function createSteadyClock(wall: Clock, elapsedMs: () => number, newestMs: number | null): Clock {
  const started = wall.now();
  const isAhead = newestMs !== null && newestMs > started && newestMs - started <= AHEAD_MS_MAX;
  let last = isAhead ? newestMs : started;
  let lastElapsed = elapsedMs();
  return {
    now() {
      const elapsed = elapsedMs();
      last = Math.max(wall.now(), last + elapsed - lastElapsed);
      lastElapsed = elapsed;
      return Math.floor(last);
    },
  };
}

/** RFC 4648 alphabet in lower case. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const ID_CHARS = 20;
/** Random bytes are asked for in larger pieces: each time costs more than the bytes. */
const POOL_BYTES = 4_000;
let pool = new Uint8Array(0);
let used = 0;

/** `ses_` and 20 random base32 characters: 100 bits, safe in URLs, file names and stream names. */
export function newId(prefix: string): string {
  if (used === pool.length) {
    pool = randomBytes(POOL_BYTES);
    used = 0;
  }
  let text = '';
  for (const end = used + ID_CHARS; used < end; used += 1) text += BASE32[pool[used]! & 31];
  return `${prefix}_${text}`;
}

/** A UUID of version 7, RFC 9562: those of one time stand side by side in an index, where random ones would each change another page of it. */
export function orderedUuid(nowMs: number): string {
  const time = Math.max(0, nowMs).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-7${randomUUID().slice(15)}`;
}

let lastMs = Number.NaN;
let lastText = '';

/** Many things happen in one millisecond: the last answer is kept. */
export function isoTime(ms: number): string {
  if (ms !== lastMs) {
    lastText = new Date(ms).toISOString();
    lastMs = ms;
  }
  return lastText;
}
