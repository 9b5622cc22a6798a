import type { CrossAgentMessage } from '../contract/cross-agent.ts';
import type { SentMessage } from '../core/cross-agent.ts';

/** Streams that wait at once; one more waits for its heartbeat. */
const LISTENERS_MAX = 10_000;

/** Tells those who wait that sessions came or went, or that a message was sent. What it was they read themselves. */
export interface PeerNews {
  tell(): void;
  /** @returns function that ends it */
  subscribe(listener: () => void): () => void;
  /** A message for sessions of this daemon is stored. */
  sent(message: CrossAgentMessage): void;
  /** Told of each message that is sent from now on. One listener: the runtime of this process. */
  onSent(listener: (sent: SentMessage) => void): void;
}

/** @param plainKey  session keys have two forms, and messages are addressed by the plain one */
export function createPeerNews(plainKey: (key: string) => string = (key) => key): PeerNews {
  const listeners = new Set<() => void>();
  let hear: ((sent: SentMessage) => void) | undefined;
  return {
    tell() {
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      if (listeners.size < LISTENERS_MAX) listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    sent: (message) => hear?.({ message, isFor: (session) => isFor(message, { ...session, sessionKey: plainKey(session.sessionKey) }) }),
    onSent(listener) {
      hear = listener;
    },
  };
}

/** The rule of the store for who may read a message (`INBOUND`), for a session that is live while it is sent. */
function isFor(message: CrossAgentMessage, session: Parameters<SentMessage['isFor']>[0]): boolean {
  const { agentId, sessionKey } = session;
  if (message.fromSessionKey === sessionKey) return false;
  if (message.broadcast && message.fromSessionKey === undefined && message.fromAgentId === agentId) return false;
  return (
    message.broadcast || (message.toAgentId === agentId && (message.toSessionKey === undefined || message.toSessionKey === sessionKey))
  );
}
