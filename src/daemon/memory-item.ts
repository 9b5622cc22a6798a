import { AppError, isAppError } from '../core/errors.ts';
import type { Changed } from '../core/memory-store.ts';

/** What became of one memory of a batch. */
export type Item = { id: string; status: string } & Record<string, unknown>;

export function itemOf(changed: Changed): Item {
  return { ...changed, success: true };
}

/** One memory of a batch stands for itself: the others go on whatever becomes of it. */
export async function settled(id: string, run: () => Promise<Item>): Promise<Item> {
  try {
    return await run();
  } catch (error) {
    // The store's own faults end the batch: every further item would meet them too.
    if (!isAppError(error) || error.status >= 500) throw error;
    return { ...error.extra, id, status: error.code, success: false, error: error.detail };
  }
}

/** A field that is missing, or that cannot be what it is. */
export function refused(field: string, detail: string): AppError {
  return new AppError('invalid_request', { detail, errors: [{ pointer: `/${field}`, detail }] });
}
