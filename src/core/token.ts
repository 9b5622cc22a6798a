import type { NewToken, TokenInfo } from '../contract/tokens.ts';
import type { Caller } from './caller.ts';

/** The tokens of a workspace. Methods that answer a promise throw AppError `storage_corrupt`, `storage_version`, `storage_failed`. */
export interface TokenBook {
  /** Read what is stored. Until then nobody is let in. */
  load(): Promise<void>;
  /** Whose token this is; undefined for one that is unknown, revoked or expired. Takes the same time for all of them. */
  callerOf(token: string): Caller | undefined;
  /** Still neither revoked nor expired? */
  isValid(id: string): boolean;
  list(): Promise<TokenInfo[]>;
  /**
   * @param notAfterMs  when it ends at the latest, ms since 1970: that of the token it is made with
   * @throws AppError `overloaded` when there are as many as may be
   */
  create(request: NewToken, notAfterMs?: number): Promise<TokenInfo & { readonly token: string }>;
  /** Undefined when there is none. */
  revoke(id: string): Promise<TokenInfo | undefined>;
  /** Told when one was revoked, until the returned function is called. */
  onRevoked(listener: () => void): () => void;
}
