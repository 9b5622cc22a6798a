import type { crossAgentOperations } from '../contract/cross-agent.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { Handlers, RequestContext } from '../core/operation-call.ts';
import { type PeerDeps, readerOf } from './cross-agent-deps.ts';
import { plainKey } from './hook-session.ts';

type Operations = typeof crossAgentOperations;

/** Handlers of /api/cross-agent. */
export function createCrossAgentHandlers(deps: PeerDeps): Handlers<Omit<Operations, 'streamAgentMessages'>> {
  const { presence, messages, news } = deps;
  return {
    listPresence: async (input, context) => {
      const sessions = await presence.list({ ...input, ...(await readerOf(deps, input, context)) });
      return { sessions, count: sessions.length };
    },
    announcePresence: (input, context) => announce(deps, input, context),
    removePresence: async ({ sessionKey }) => {
      const removed = await presence.remove(plainKey(sessionKey));
      if (removed) news.tell();
      return { removed };
    },
    sendAgentMessage: async (input, context) => (await import('./cross-agent-send.ts')).sendMessage(deps, input, context),
    listAgentMessages: async ({ since, ...input }, context) => {
      const reader = await readerOf(deps, input, context);
      const items = await messages.inbox(reader, { ...input, sinceMs: since === undefined ? undefined : Date.parse(since) });
      return { items, count: items.length };
    },
    markAgentMessagesRead: async (input, context) => ({ read: await messages.markRead(await readerOf(deps, input, context), input.ids) }),
  };
}

async function announce(deps: PeerDeps, input: ParsedInputOf<Operations['announcePresence']>, context: RequestContext) {
  const { agentId, sessionKey } = await readerOf(deps, input, context);
  const { harness, project, runtimePath, provider } = input;
  // Without a session key it is known by who and where it is: saying so again is the same session.
  const key = sessionKey ?? `unnamed:${harness}:${agentId}:${project ?? ''}`;
  const presence = await deps.presence.announce({ key, sessionKey, agentId, harness, project, runtimePath, provider });
  deps.news.tell();
  return { presence };
}
