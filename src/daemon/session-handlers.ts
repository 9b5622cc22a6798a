import type { daemonOperations } from '../contract/daemon.ts';
import { AppError } from '../core/errors.ts';
import type { BypassChange, ClaimStore } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import { plainKey } from './hook-session.ts';

export interface SessionDeps {
  readonly claims: ClaimStore;
  /** Is waited for, so that who has the answer sees the bypass wherever sessions are shown. Never rejects. */
  readonly tellBypass: (change: BypassChange) => Promise<void>;
}

/** Handlers of /api/sessions: the registry of sessions of every harness, and their bypass. Both forms of a key are the same session. */
export function createSessionHandlers({
  claims,
  tellBypass,
}: SessionDeps): Pick<Handlers<typeof daemonOperations>, 'listClaims' | 'getClaim' | 'setBypass'> {
  const unknown = (key: string): AppError =>
    new AppError('session_not_found', { detail: `no live session ${JSON.stringify(key)}; sessions appear with their first hook` });
  return {
    listClaims: async ({ agentId }, { caller }) => {
      const sessions = await claims.list(agentId, caller?.project);
      return { sessions, count: sessions.length };
    },
    getClaim: async ({ key }) => {
      const claim = await claims.get(plainKey(key));
      if (!claim) throw unknown(key);
      return claim;
    },
    setBypass: async ({ key, enabled }, { client }) => {
      const claim = await claims.setBypass(plainKey(key), enabled);
      if (!claim) throw unknown(key);
      await tellBypass({ bypassed: claim.bypassed, by: client, isFor: (sessionKey) => plainKey(sessionKey) === claim.key });
      return { key: claim.key, bypassed: claim.bypassed };
    },
  };
}
