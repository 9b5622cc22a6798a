import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from './core/logger.ts';

/** How often it is looked whether the process is busy; unit: milliseconds. */
const LOOK_MS = 1_000;
/** Share of time the event loop may run in what counts as quiet. */
const QUIET_UTILIZATION_MAX = 0.02;
/** Quiet looks in a row before memory is given back. */
const QUIET_LOOKS = 2;
/** A larger heap is left alone: collecting it would hold up the event loop for too long; unit: bytes. */
const HEAP_BYTES_MAX = 128 * 1_048_576;

/** Compiled code that has not run since the last collection goes too: what only a start needs. It is compiled again when it is called again. */
const FORGET_CODE_FLAG = '--bytecode-old-age=1';
/** As V8 has it. */
const KEEP_CODE_FLAG = '--bytecode-old-age=6';

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void;

/**
 * Gives memory back when work has come to rest. V8 collects when it allocates, so a process that falls quiet after a burst, its own start
 * included, would keep what the burst took. Returns the function that ends it.
 */
export function collectWhenQuiet(logger: Logger): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  let before = performance.eventLoopUtilization();
  let wasBusy = true;
  let quietLooks = 0;
  const look = () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    if (utilization > QUIET_UTILIZATION_MAX) {
      wasBusy = true;
      quietLooks = 0;
      return;
    }
    quietLooks += 1;
    if (!wasBusy || quietLooks < QUIET_LOOKS || process.memoryUsage().heapUsed > HEAP_BYTES_MAX) return;
    wasBusy = false;
    const started = performance.now();
    setFlagsFromString(FORGET_CODE_FLAG);
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    setFlagsFromString(KEEP_CODE_FLAG);
    // What collecting took is not work.
    before = performance.eventLoopUtilization();
    logger.debug({ durationMs: Math.round(performance.now() - started) }, 'memory was given back after work had come to rest');
  };
  const timer = setInterval(look, LOOK_MS).unref();
  return () => clearInterval(timer);
}
