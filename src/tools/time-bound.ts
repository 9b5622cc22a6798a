import { type Context, createContext, Script } from 'node:vm';

/** Entering the context by a script is what gives V8 a clock for everything that runs below it, regular expressions included. */
const CALL = new Script('work()');
let box: Context | undefined;

/**
 * Runs synchronous work that may take very long, such as a regular expression of a stranger, and stops it after `ms` milliseconds.
 * Costs 0.2 ms.
 *
 * @returns undefined when it was stopped
 */
export function withinTime<T>(ms: number, work: () => T): { readonly value: T } | undefined {
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
