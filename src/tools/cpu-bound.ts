import { type Context, createContext, Script } from 'node:vm';

/** Entering the context by a script is what gives V8 a clock for everything that runs below it, regular expressions included. */
const CALL = new Script('work()');
/** Of the bound, what must have been used before work counts as too long; the rest is the unsharpness of both clocks. */
const USED_SHARE = 0.9;
/** How much longer than estimated the next attempt may take. */
const MARGIN = 1.5;
/** Longest attempt; a timer of V8 takes no more. Unit: milliseconds. */
const WALL_MS_MAX = 2_000_000_000;
const MICROSECONDS = 1_000;

let box: Context | undefined;

/**
 * Runs synchronous work that may take very long, such as a regular expression of a stranger, and stops it when it has used `cpuMs`
 * milliseconds of this thread's CPU. What stops it is a clock on the wall, so work that was stopped early, because the machine was busy or
 * the process may use a part of a core only, begins again with more time: the outcome is the same on an idle and on a loaded machine.
 * Costs 0.2 ms.
 *
 * @param work  may be run more than once; must have no effect besides its result
 * @returns undefined when it was stopped
 */
export function withinCpu<T>(cpuMs: number, work: () => T): { readonly value: T } | undefined {
  for (let wallMs = cpuMs; ; ) {
    const before = cpuUsedMs();
    const done = withinWall(wallMs, work);
    if (done) return done;
    const usedMs = cpuUsedMs() - before;
    if (usedMs >= cpuMs * USED_SHARE || wallMs >= WALL_MS_MAX) return undefined;
    const estimate = wallMs * (cpuMs / Math.max(usedMs, 1)) * MARGIN;
    wallMs = Math.min(Math.ceil(Math.max(estimate, wallMs * 2)), WALL_MS_MAX);
  }
}

function cpuUsedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / MICROSECONDS;
}

function withinWall<T>(ms: number, work: () => T): { readonly value: T } | undefined {
  box ??= createContext({});
  box.work = work;
  try {
    return { value: CALL.runInContext(box, { timeout: ms }) as T };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined;
    throw error;
  } finally {
    box.work = undefined;
  }
}
