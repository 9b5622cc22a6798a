import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from './core/logger.ts';

/** How often it is looked whether the process is busy; unit: milliseconds. */
const LOOK_MS = 1_000;
/** Processor time between two looks up to which the process counts as quiet; unit: milliseconds. */
const QUIET_CPU_MS_MAX = 20;
/** Quiet looks in a row before memory is given back. */
const QUIET_LOOKS = 2;
/** Processor time of busy looks that is worth a collection, which itself takes tens of milliseconds; unit: milliseconds. */
const WORK_CPU_MS_MIN = 100;
/** A larger heap is left alone: collecting it would hold up the event loop for too long; unit: bytes. */
const HEAP_BYTES_MAX = 128 * 1_048_576;

/** Compiled code that has not run since the last collection goes too: what only a start needs. It is compiled again when it is called again. */
const FORGET_CODE_FLAG = '--bytecode-old-age=1';
/** As V8 has it. */
const KEEP_CODE_FLAG = '--bytecode-old-age=6';

type Collect = (options: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void;

export interface QuietWatch {
  /** One look. @returns whether memory is to be given back now */
  look(cpuMs: number, heapBytes: number): boolean;
}

/**
 * Decides by processor time when work has come to rest: time of the clock would count the waits of a busy machine as work of this process. Each
 * stretch of work is followed by one collection at most; small work between two looks adds up to none.
 */
export function createQuietWatch(): QuietWatch {
  // The start is work.
  let workMs = WORK_CPU_MS_MIN;
  let quietLooks = 0;
  return {
    look(cpuMs, heapBytes) {
      if (cpuMs > QUIET_CPU_MS_MAX) {
        workMs += cpuMs;
        quietLooks = 0;
        return false;
      }
      quietLooks += 1;
      if (quietLooks < QUIET_LOOKS || workMs < WORK_CPU_MS_MIN || heapBytes > HEAP_BYTES_MAX) return false;
      workMs = 0;
      return true;
    },
  };
}

/**
 * Gives memory back when work has come to rest. V8 collects when it allocates, so a process that falls quiet after a burst, its own start
 * included, would keep what the burst took. Returns the function that ends it.
 */
export function collectWhenQuiet(logger: Logger): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  const watch = createQuietWatch();
  let before = process.cpuUsage();
  const look = () => {
    const { user, system } = process.cpuUsage(before);
    before = process.cpuUsage();
    // Not process.memoryUsage(): it opens a file, and fails where no more may be opened.
    if (!watch.look((user + system) / 1_000, getHeapStatistics().used_heap_size)) return;
    const started = performance.now();
    setFlagsFromString(FORGET_CODE_FLAG);
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    setFlagsFromString(KEEP_CODE_FLAG);
    // What collecting took is not work.
    before = process.cpuUsage();
    logger.debug({ durationMs: Math.round(performance.now() - started) }, 'memory was given back after work had come to rest');
  };
  const timer = setInterval(look, LOOK_MS).unref();
  return () => clearInterval(timer);
}
