import { AppError } from '../core/errors.ts';

/** Opaque to clients; made of what keyset paging needs. */
export function encodeCursor(position: { updatedAt: string; id: string }): string {
  return Buffer.from(JSON.stringify([position.updatedAt, position.id])).toString('base64url');
}

/** @throws AppError `invalid_cursor` */
export function decodeCursor(cursor: string): { updatedAt: string; id: string } {
  try {
    const [updatedAt, id] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown[];
    if (typeof updatedAt === 'string' && typeof id === 'string') return { updatedAt, id };
  } catch {
    // Not JSON: not a cursor of ours, which is what the error below says.
  }
  throw new AppError('invalid_cursor', { detail: 'the cursor is not one this server gave out; begin again without it' });
}
