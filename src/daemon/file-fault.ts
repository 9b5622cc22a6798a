import { AppError } from '../core/errors.ts';

/** Room on the disk or in a quota, or the disk itself: nothing is wrong with the workspace, and the same call may pass later. */
const DISK_CODES = new Set(['ENOSPC', 'EDQUOT', 'EIO']);

/**
 * What a file of the workspace that could not be written is told as: `storage_failed` when the disk refused it, else `workspace_unwritable`.
 *
 * @param left  what stands in its place now
 */
export function fileFault(path: string, cause: unknown, left?: string): AppError {
  const isDisk = cause instanceof Error && 'code' in cause && DISK_CODES.has(String(cause.code));
  const reason = cause instanceof Error ? cause.message : String(cause);
  const fix = isDisk ? '; make room on the disk and try again' : '';
  const detail = `${path}: ${reason}${left === undefined ? '' : `; ${left}`}${fix}`;
  return new AppError(isDisk ? 'storage_failed' : 'workspace_unwritable', { detail, cause });
}
