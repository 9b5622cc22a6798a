import type { Settings } from './config.ts';
import { daemonOperations } from './contract/daemon.ts';
import { runtimeOperations } from './contract/runtime.ts';
import type { OwnerOf } from './core/caller-scope.ts';
import { systemClock } from './core/clock.ts';
import { isAppError } from './core/errors.ts';
import type { Call } from './core/operation-call.ts';
import type { TokenBook } from './core/token.ts';
import type { SecurityOptions } from './http/security.ts';

export interface OpenedAuth {
  readonly tokens: () => Promise<TokenBook>;
  /** For the servers of daemon and runtime alike. */
  readonly security: Pick<SecurityOptions, 'authenticate' | 'trustLoopback' | 'isValid' | 'onRevoked' | 'limits'>;
  close(): void;
}

/**
 * Who needs a token, by the mode of the workspace. In mode local nobody does, and nothing is read before somebody makes a token.
 *
 * @throws AppError `storage_corrupt`, `storage_failed`: a workspace whose tokens cannot be read lets nobody in
 */
export async function openAuth({ folder, authMode, loaded }: Settings): Promise<OpenedAuth> {
  if (authMode === 'local') {
    let opening: Promise<TokenBook> | undefined;
    const tokens = (): Promise<TokenBook> => {
      opening ??= import('./store/token-store.ts').then(({ createTokenStore }) =>
        createTokenStore({ workspace: folder, clock: systemClock }),
      );
      return opening;
    };
    return { tokens, security: {}, close: () => undefined };
  }
  const [{ createTokenStore }, { writeLocalToken }] = await Promise.all([
    import('./store/token-store.ts'),
    import('./store/local-token.ts'),
  ]);
  const local = await writeLocalToken(folder);
  const tokens = createTokenStore({ workspace: folder, clock: systemClock, local: local.token });
  await tokens.load();
  const { requestsPerMinute, failuresPerMinute } = loaded.config.auth;
  return {
    tokens: () => Promise.resolve(tokens),
    security: {
      authenticate: tokens.callerOf,
      trustLoopback: authMode === 'hybrid',
      isValid: tokens.isValid,
      onRevoked: tokens.onRevoked,
      limits: { requestsPerMinute, failuresPerMinute },
    },
    close: () => local.remove(),
  };
}

/** Looks up a live session that announced itself, or that hooks were heard of. */
export type PresenceOf = (key: string) => Promise<{ readonly agentId: string; readonly project?: string | undefined } | undefined>;

/** Keys are looked up in the daemon's registry, then among sessions that only announced themselves; ids in the runtime. */
export function createOwnerOf(daemon: Call, presenceOf: PresenceOf, runtime?: Call): OwnerOf {
  const announced = async (key: string): ReturnType<OwnerOf> => {
    const found = await presenceOf(key);
    return found && { agent: found.agentId, project: found.project ?? null };
  };
  return async (kind, session) => {
    try {
      if (kind === 'id') {
        const found = await runtime?.(runtimeOperations.getSession, { id: session });
        return found && { agent: found.agent, project: found.project };
      }
      const { agentId, project } = await daemon(daemonOperations.getClaim, { key: session });
      return { agent: agentId, project };
    } catch (error) {
      // The operation itself says that there is none, or that this is no id.
      if (isAppError(error, 'session_not_found') || isAppError(error, 'invalid_request'))
        return kind === 'key' ? announced(session) : undefined;
      throw error;
    }
  };
}
