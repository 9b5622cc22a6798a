import type { Operation, Role } from '../contract/operation.ts';
import { AppError } from './errors.ts';

/** Who calls, as the token says. A call without one is this machine's own and may do everything. */
export interface Caller {
  /** Id of the token, not the token. */
  readonly id: string;
  readonly role: Role;
  /** The only agent it may act for. */
  readonly agent?: string | undefined;
  /** The only project it may reach. */
  readonly project?: string | undefined;
  /** Milliseconds since 1970; undefined for one that does not expire. */
  readonly expiresAtMs?: number | undefined;
}

const RANK: Readonly<Record<Role, number>> = { readonly: 0, agent: 1, operator: 2, admin: 3 };

export function mayUse(role: Role, needed: Role): boolean {
  return RANK[role] >= RANK[needed];
}

/** @throws AppError `forbidden` */
export function requireRole(caller: Caller, operation: Pick<Operation, 'id' | 'role'>): void {
  if (mayUse(caller.role, operation.role)) return;
  throw new AppError('forbidden', { detail: `${operation.id} needs the role ${operation.role}; the token has ${caller.role}` });
}
