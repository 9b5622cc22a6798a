import type { CrossAgentMessage, DeliveryReceipt, MessageType, Presence } from '../contract/cross-agent.ts';

/** A session is taken as gone when nothing was heard of it for so long; unit: milliseconds. The same as for claims of sessions. */
export const PRESENCE_TTL_MS = 4 * 3_600_000;
/** Sessions that announced themselves without a hook, at once. */
export const ANNOUNCED_MAX = 10_000;
/** Messages looked at for the inject of one prompt. */
export const OFFERED_MAX = 50;

/** Whose inbox it is: an agent's, or that of one of its sessions. No message is read without one. */
export interface MessageReader {
  readonly agentId: string;
  readonly sessionKey?: string | undefined;
  /** Only what its session was sent by name, or sent: what goes to an agent as a whole, or to all, is not for a caller of one project. */
  readonly isDirect?: boolean | undefined;
}

export interface PresenceDraft {
  readonly key: string;
  readonly sessionKey: string | undefined;
  readonly agentId: string;
  readonly harness: string;
  readonly project: string | undefined;
  readonly runtimePath: 'plugin' | 'legacy' | undefined;
  readonly provider: string | undefined;
}

export interface PeerFilter extends MessageReader {
  readonly includeSelf: boolean;
  readonly project?: string | undefined;
  readonly limit: number;
}

/** Live sessions: those that hooks were heard of, and those that announced themselves. */
export interface PresenceStore {
  /** Newest first; never the session that asks. */
  list(filter: PeerFilter): Promise<Presence[]>;
  find(sessionKey: string): Promise<Presence | undefined>;
  /** Sessions of hooks that work on a project, newest first; one is left out. Its cost does not grow with the other projects. */
  onProject(project: string, query: { readonly except: string | undefined; readonly limit: number }): Promise<Presence[]>;
  hasAgent(agentId: string): Promise<boolean>;
  /** @throws AppError overloaded beyond ANNOUNCED_MAX, session_key_taken when a live session of another agent has the key */
  announce(draft: PresenceDraft): Promise<Presence>;
  /** Gone until it is heard of again. @returns false when it was not there */
  remove(key: string): Promise<boolean>;
  /** Forget announcements nobody renewed. @returns how many */
  purge(limit: number): Promise<number>;
}

export interface AgentMessageDraft {
  readonly content: string;
  readonly type: MessageType;
  readonly fromAgentId: string;
  readonly fromSessionKey: string | undefined;
  readonly toAgentId: string | undefined;
  readonly toSessionKey: string | undefined;
  readonly broadcast: boolean;
  readonly path: 'local' | 'acp';
}

/** How a relay ended. */
export type DeliveryOutcome =
  | { readonly status: 'delivered'; readonly receipt: DeliveryReceipt }
  | { readonly status: 'failed'; readonly error: { readonly code: string; readonly message: string }; readonly receipt: DeliveryReceipt };

export interface InboxQuery {
  readonly sinceMs?: number | undefined;
  readonly unread: boolean;
  readonly includeSent: boolean;
  readonly includeBroadcast: boolean;
  readonly limit: number;
}

/** A turn of a session that is to be told what is new. */
export interface Listener {
  readonly agentId: string;
  readonly sessionKey: string;
  /** Names the turn: the same again is told the same. A listener without one is taken to have heard what it was told. */
  readonly turnKey?: string | undefined;
  /** Messages of earlier turns that did arrive; those that did not are told again. */
  readonly heard?: readonly string[] | undefined;
  /** See MessageReader. */
  readonly isDirect?: boolean | undefined;
}

/** A message at the moment it was stored, and whose it is. */
export interface SentMessage {
  readonly message: CrossAgentMessage;
  isFor(session: { readonly agentId: string; readonly sessionKey: string }): boolean;
}

export interface MessageLimits {
  readonly retentionDays: number;
  readonly messagesMax: number;
}

export interface MessageStore {
  /** Counts whom it reaches now; drops the oldest beyond the limit. */
  add(draft: AgentMessageDraft): Promise<CrossAgentMessage>;
  settle(id: string, outcome: DeliveryOutcome): Promise<CrossAgentMessage>;
  /** Newest first. */
  inbox(reader: MessageReader, query: InboxQuery): Promise<CrossAgentMessage[]>;
  /** What came to the reader behind a number, oldest first. */
  after(reader: MessageReader, seq: number, query: { readonly includeSent: boolean; readonly limit: number }): Promise<CrossAgentMessage[]>;
  /** Numbers of the oldest message that is kept and of the newest there ever was. */
  bounds(): Promise<{ readonly oldest: number; readonly head: number }>;
  /** @param ids  undefined is all there are. @returns how many were unread until now */
  markRead(reader: MessageReader, ids: readonly string[] | undefined): Promise<number>;
  /** What a turn is to be shown, oldest first; nothing is noted yet. */
  unheard(listener: Listener): Promise<CrossAgentMessage[]>;
  /** These were put into the inject of the turn. */
  noteShown(listener: Listener, messages: readonly CrossAgentMessage[]): Promise<void>;
  /** Forget what is older than it is kept. @returns how many */
  purge(limit: number): Promise<number>;
}
