import type { RuntimeClient } from '../client/runtime-client.ts';
import { answers } from './daemon-start.ts';

/** Between two looks, in ms. */
const WATCH_INTERVAL_MS = 5_000;
/** Looks without an answer in a row before the runtime counts as lost: a restart takes less. */
const MISSES_MAX = 3;

/**
 * Tell when the runtime is lost (true) and when it is back (false); a stream alone would wait for it in silence.
 *
 * @returns ends the watch
 */
export function watchRuntime(client: RuntimeClient, tell: (lost: boolean) => void): () => void {
  let misses = 0;
  let asking = false;
  const timer = setInterval(async () => {
    if (asking) return;
    asking = true;
    const up = await answers(client).catch(() => false);
    asking = false;
    if (up && misses >= MISSES_MAX) tell(false);
    misses = up ? 0 : misses + 1;
    if (misses === MISSES_MAX) tell(true);
  }, WATCH_INTERVAL_MS);
  return () => clearInterval(timer);
}
