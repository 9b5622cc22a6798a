import { randomBytes } from 'node:crypto';

/** Time as the program sees it; tests bring their own. */
export interface Clock {
  /** Milliseconds since 1970, UTC. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** RFC 4648 alphabet in lower case. */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const ID_CHARS = 20;

/** `ses_` and 20 random base32 characters: 100 bits, safe in URLs, file names and stream names. */
export function newId(prefix: string): string {
  let text = '';
  for (const byte of randomBytes(ID_CHARS)) text += BASE32[byte & 31];
  return `${prefix}_${text}`;
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
