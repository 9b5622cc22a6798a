import type { CrossAgentMessage } from '../contract/cross-agent.ts';
import type { SentMessage } from '../core/cross-agent.ts';
import { isAppError } from '../core/errors.ts';
import { messageFacts } from './effects/hook-effect.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import type { Decide, SessionHost } from './session-host.ts';

/** Messages that wait to be written into logs; of more, sessions learn with their next prompt. */
export const ARRIVING_MAX = 1_000;
/** Sessions a message is written to at once: a broadcast to all of them must not keep anybody waiting. */
const SESSIONS_AT_ONCE = 64;

export interface MessageArrivals {
  /** Never throws; what cannot be written now comes with the next prompt. */
  readonly hear: (sent: SentMessage) => void;
  close(): void;
}

/**
 * Takes messages of other agents into the logs of the sessions that are in memory. It only says that they came: the text comes by the hook of
 * the next prompt, which also brings what was lost here, so nothing has to be kept for later. Nobody is woken for a message.
 *
 * @source docs/decisions/0011-messages-arrive-as-events.md
 */
export function createMessageArrivals({ supervisor, logger }: Pick<RuntimeDeps, 'supervisor' | 'logger'>): MessageArrivals {
  const waiting: SentMessage[] = [];
  let isWriting = false;
  const write = async (): Promise<void> => {
    isWriting = true;
    for (let sent = waiting.shift(); sent; sent = waiting.shift()) {
      const { message, isFor } = sent;
      const hosts = [...supervisor.hosts()].filter(({ core, view }) => isFor({ agentId: core.agent, sessionKey: view.session.sessionKey }));
      for (let from = 0; from < hosts.length; from += SESSIONS_AT_ONCE)
        await Promise.all(hosts.slice(from, from + SESSIONS_AT_ONCE).map((host) => deliver(host, message)));
    }
    isWriting = false;
  };
  const deliver = async (host: SessionHost, message: CrossAgentMessage): Promise<void> => {
    try {
      await host.handle(arrivalOf(message));
    } catch (error) {
      // Ended or gone in the same moment is no fault.
      if (isAppError(error, 'session_ended') || host.closed) return;
      logger.warn({ err: error, session: host.id, message: message.id }, 'a message could not be noted; it comes with the next prompt');
    }
  };
  return {
    hear(sent) {
      if (waiting.length >= ARRIVING_MAX) return;
      waiting.push(sent);
      if (!isWriting) void write();
    },
    close() {
      waiting.length = 0;
    },
  };
}

/** Nothing for a session that sleeps, is bypassed, or was shown it by a hook that was faster. */
function arrivalOf(message: CrossAgentMessage): Decide {
  return ({ snapshot, conversation }) => {
    if (snapshot.value === 'passivated' || snapshot.context.bypassed) return [];
    if (conversation.entries.some((entry) => entry.role === 'user' && entry.messages?.includes(message.id))) return [];
    return [{ name: 'message:arrived', payload: messageFacts(message) }];
  };
}
