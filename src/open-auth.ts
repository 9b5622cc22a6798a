import type { Settings } from './config.ts';
import { systemClock } from './core/clock.ts';
import type { TokenBook } from './core/token.ts';
import { createPeerCheck } from './http/peer.ts';
import type { SecurityOptions } from './http/security.ts';

export interface OpenedAuth {
  readonly tokens: () => Promise<TokenBook>;
  /** For the servers of daemon and runtime alike. */
  readonly security: Pick<
    SecurityOptions,
    'authenticate' | 'isLocalToken' | 'trustLoopback' | 'proof' | 'isValid' | 'onRevoked' | 'limits'
  >;
  close(): void;
}

/**
 * Who needs a token, by the mode of the workspace. In mode local only callers that are not shown to be the daemon's own user, for what executes
 * or decides; the tokens are read when the first of them sends one.
 *
 * @throws AppError `storage_corrupt`, `storage_failed`: a workspace whose tokens cannot be read lets nobody in
 */
export async function openAuth({ folder, authMode, loaded }: Settings): Promise<OpenedAuth> {
  const { writeLocalToken } = await import('./store/local-token.ts');
  const local = await writeLocalToken(folder);
  const openStore = async (): Promise<TokenBook> => {
    const { createTokenStore } = await import('./store/token-store.ts');
    return createTokenStore({ workspace: folder, clock: systemClock, local: local.token });
  };
  const peerOf = createPeerCheck({ uid: process.geteuid?.() });
  if (authMode === 'local') {
    let opening: Promise<TokenBook> | undefined;
    /** Once somebody has sent a token: before that, no stream depends on one. */
    let opened: TokenBook | undefined;
    const tokens = (): Promise<TokenBook> => {
      opening ??= openStore().then((book) => {
        opened = book;
        return book;
      });
      return opening;
    };
    const authenticate = async (token: string) => {
      const book = await tokens();
      const own = book.callerOf(token);
      if (own) return own;
      await book.load();
      return book.callerOf(token);
    };
    const security = {
      proof: { peerOf, authenticate },
      isLocalToken: local.isSame,
      isValid: (id: string) => opened?.isValid(id) ?? false,
      onRevoked: (listener: () => void) => opened?.onRevoked(listener) ?? (() => undefined),
    };
    return { tokens, security, close: () => local.remove() };
  }
  const tokens = await openStore();
  await tokens.load();
  const { requestsPerMinute, failuresPerMinute } = loaded.config.auth;
  return {
    tokens: () => Promise.resolve(tokens),
    security: {
      authenticate: tokens.callerOf,
      trustLoopback: authMode === 'hybrid',
      ...(authMode === 'hybrid' ? { proof: { peerOf } } : {}),
      isValid: tokens.isValid,
      onRevoked: tokens.onRevoked,
      limits: { requestsPerMinute, failuresPerMinute },
    },
    close: () => local.remove(),
  };
}
