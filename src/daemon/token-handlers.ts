import type { AuthMode } from '../contract/auth-config.ts';
import type { tokenOperations } from '../contract/tokens.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { TokenBook } from '../core/token.ts';

export interface TokenDeps {
  readonly log: Logger;
  readonly authMode: AuthMode;
  /** Loaded when it is first needed: in mode local that may be never. */
  readonly tokens: () => Promise<TokenBook>;
}

/** Handlers of /api/tokens and /api/auth. */
export function createTokenHandlers({ log, authMode, tokens }: TokenDeps): Handlers<typeof tokenOperations> {
  return {
    listTokens: async () => ({ tokens: await (await tokens()).list() }),
    createToken: async (request, context) => {
      const created = await (await tokens()).create(request, context.caller?.expiresAtMs);
      const { id, role, agent, project, expiresAt } = created;
      log.info({ tokenId: id, role, agent, project, expiresAt, by: context.caller?.id ?? 'this machine' }, 'a token was made');
      return created;
    },
    revokeToken: async ({ id }, context) => {
      const revoked = await (await tokens()).revoke(id);
      if (!revoked) throw new AppError('token_not_found', { detail: `no token ${id} is valid; signet token list shows those that are` });
      log.info({ tokenId: id, by: context.caller?.id ?? 'this machine' }, 'a token was revoked');
      return revoked;
    },
    whoami: (_input, { caller }) => ({
      mode: authMode,
      authenticated: caller !== undefined,
      tokenId: caller?.id ?? null,
      role: caller?.role ?? 'admin',
      agent: caller?.agent ?? null,
      project: caller?.project ?? null,
      expiresAt: caller?.expiresAtMs === undefined ? null : isoTime(caller.expiresAtMs),
    }),
  };
}
