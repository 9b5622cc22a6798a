import { z } from 'zod';
import { AskingAgent, Metadata, Timestamp } from './ids.ts';
import { clampedLimit } from './memory.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';

/** Longest message in characters; longer ones are refused, never cut. */
export const MESSAGE_CHARS_MAX = 65_536;
/** Messages one answer holds. */
export const MESSAGES_LISTED_MAX = 500;
const MESSAGES_LISTED = 100;
/** Sessions one answer holds. */
export const PRESENCE_LISTED_MAX = 200;
const PRESENCE_LISTED = 50;
/** How long a relay may take, unless said otherwise, and at most; unit: milliseconds. */
export const ACP_TIMEOUT_MS = 20_000;
export const ACP_TIMEOUT_MS_MAX = 120_000;

export const MessageType = z.enum(['assist_request', 'decision_update', 'info', 'question']);
export type MessageType = z.output<typeof MessageType>;

/** `queued`: nobody has it yet. `delivered`: it reached a live session, was read, or was taken by the other server. */
export const DeliveryStatus = z.enum(['queued', 'delivered', 'failed']);
export type DeliveryStatus = z.output<typeof DeliveryStatus>;

/** A live session, as others see it. */
export const Presence = z.object({
  key: z.string(),
  /** Absent when the client named none. */
  sessionKey: z.string().optional(),
  agentId: z.string(),
  harness: z.string(),
  project: z.string().optional(),
  runtimePath: z.enum(['plugin', 'legacy']).optional(),
  provider: z.string().optional(),
  startedAt: z.string(),
  lastSeenAt: z.string(),
});
export type Presence = z.output<typeof Presence>;

/** What the server at the other end of a relay said. */
export const DeliveryReceipt = z.object({
  /** Origin it went to. */
  origin: z.string(),
  agentName: z.string(),
  runId: z.string().optional(),
  runStatus: z.string().optional(),
  /** Text the other agent answered at once, cut; it is data, not instructions. */
  reply: z.string().optional(),
});
export type DeliveryReceipt = z.output<typeof DeliveryReceipt>;

export const CrossAgentMessage = z.object({
  id: z.string(),
  /** Rises from message to message and never repeats; the id of the stream. */
  seq: z.int(),
  createdAt: z.string(),
  fromAgentId: z.string(),
  fromSessionKey: z.string().optional(),
  toAgentId: z.string().optional(),
  toSessionKey: z.string().optional(),
  content: z.string(),
  type: MessageType,
  broadcast: z.boolean(),
  deliveryPath: z.enum(['local', 'acp']),
  deliveryStatus: DeliveryStatus,
  deliveryError: z.object({ code: z.string(), message: z.string() }).optional(),
  deliveryReceipt: DeliveryReceipt.optional(),
  /** Live sessions it was addressed to when it was sent. */
  recipients: z.int(),
  /** When the reader of this answer read it, or was shown it; absent while it is unread. */
  readAt: z.string().optional(),
});
export type CrossAgentMessage = z.output<typeof CrossAgentMessage>;

/** Empty strings are how shell hooks say "unknown". */
const optionalText = (charsMax: number) =>
  z
    .string()
    .max(charsMax)
    .nullish()
    .transform((text) => text || undefined);
const key = () => optionalText(600);
const agent = () => AskingAgent;

/** Who asks, under both names that clients use. */
const Asker = { agentId: agent(), agent_id: agent(), sessionKey: key(), session_key: key() };

interface AskerFields {
  agentId?: string | undefined;
  agent_id?: string | undefined;
  sessionKey?: string | undefined;
  session_key?: string | undefined;
}

/** One name for each field. */
function asker<T extends AskerFields>({ agent_id, session_key, ...rest }: T) {
  return { ...rest, agentId: rest.agentId ?? agent_id, sessionKey: rest.sessionKey ?? session_key };
}

const PresenceFilter = z
  .object({
    ...Asker,
    project: optionalText(4_096),
    includeSelf: flag.optional(),
    include_self: flag.optional(),
    limit: clampedLimit(PRESENCE_LISTED, PRESENCE_LISTED_MAX),
  })
  .transform(({ include_self, ...input }) => ({ ...asker(input), includeSelf: input.includeSelf ?? include_self ?? false }));

const InboxFilter = z
  .object({
    ...Asker,
    since: Timestamp.optional(),
    /** Only what this reader has not read. */
    unread: flag.default(false),
    includeSent: flag.optional(),
    include_sent: flag.optional(),
    includeBroadcast: flag.optional(),
    include_broadcast: flag.optional(),
    limit: clampedLimit(MESSAGES_LISTED, MESSAGES_LISTED_MAX),
  })
  .transform(({ include_sent, include_broadcast, ...input }) => ({
    ...asker(input),
    includeSent: input.includeSent ?? include_sent ?? false,
    includeBroadcast: input.includeBroadcast ?? include_broadcast ?? true,
  }));

const StreamFilter = z
  .object({
    ...Asker,
    project: optionalText(4_096),
    includeSelf: flag.optional(),
    include_self: flag.optional(),
    includeSent: flag.optional(),
    include_sent: flag.optional(),
    /** Go on behind this id, for clients that cannot send Last-Event-ID. */
    after: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
    token: z.string().optional(),
  })
  .transform(({ include_self, include_sent, ...input }) => ({
    ...asker(input),
    includeSelf: input.includeSelf ?? include_self ?? false,
    includeSent: input.includeSent ?? include_sent ?? false,
  }));

const AcpFields = z.object({
  baseUrl: z.string().max(2_048).optional(),
  url: z.string().max(2_048).optional(),
  targetAgentName: z.string().max(256).optional(),
  agentName: z.string().max(256).optional(),
  timeoutMs: wholeNumber(1, ACP_TIMEOUT_MS_MAX).optional(),
  metadata: Metadata.optional(),
});

const Draft = z
  .object({
    content: z
      .string({ error: 'content is required' })
      .max(MESSAGE_CHARS_MAX)
      .refine((text) => text.trim() !== '', { error: 'content is required' }),
    fromAgentId: agent(),
    from_agent_id: agent(),
    fromSessionKey: key(),
    from_session_key: key(),
    toAgentId: agent(),
    to_agent_id: agent(),
    toSessionKey: key(),
    to_session_key: key(),
    broadcast: flag.default(false),
    type: MessageType.default('info'),
    via: z.enum(['local', 'acp']).default('local'),
    acp: AcpFields.optional(),
    acp_base_url: z.string().max(2_048).optional(),
    acp_target_agent_name: z.string().max(256).optional(),
    acp_timeout_ms: wholeNumber(1, ACP_TIMEOUT_MS_MAX).optional(),
  })
  .superRefine((input, context) => {
    const { toAgentId, to_agent_id, toSessionKey, to_session_key, broadcast, via, acp } = input;
    const target = [toAgentId, to_agent_id, toSessionKey, to_session_key].some((name) => name !== undefined);
    const refuse = (field: string, message: string) => context.addIssue({ code: 'custom', path: [field], message });
    if (via === 'local') {
      if (!target && !broadcast) refuse('toAgentId', 'local target required: toAgentId, toSessionKey or broadcast');
      if (target && broadcast) refuse('broadcast', 'broadcast goes to all; leave out toAgentId and toSessionKey, or broadcast');
      return;
    }
    if (!(input.acp_base_url ?? acp?.baseUrl ?? acp?.url))
      refuse('acp_base_url', 'acp_base_url (or acp.baseUrl) is required with via: acp');
    if (!(input.acp_target_agent_name ?? acp?.targetAgentName ?? acp?.agentName))
      refuse('acp_target_agent_name', 'acp_target_agent_name (or acp.targetAgentName) is required with via: acp');
    if (target || broadcast) refuse('via', 'via: acp goes to acp_target_agent_name alone; leave out toAgentId, toSessionKey and broadcast');
  })
  .transform((input) => ({
    content: input.content,
    fromAgentId: input.fromAgentId ?? input.from_agent_id,
    fromSessionKey: input.fromSessionKey ?? input.from_session_key,
    toAgentId: input.toAgentId ?? input.to_agent_id,
    toSessionKey: input.toSessionKey ?? input.to_session_key,
    broadcast: input.broadcast,
    type: input.type,
    acp:
      input.via === 'acp'
        ? {
            baseUrl: input.acp_base_url ?? input.acp?.baseUrl ?? input.acp?.url ?? '',
            agentName: input.acp_target_agent_name ?? input.acp?.targetAgentName ?? input.acp?.agentName ?? '',
            timeoutMs: input.acp_timeout_ms ?? input.acp?.timeoutMs ?? ACP_TIMEOUT_MS,
            metadata: input.acp?.metadata,
          }
        : undefined,
  }));

const ours = { tag: 'cross-agent', role: 'agent', unknownFields: 'ignore' } as const;
const crossAgent = { ...ours, source: 'spec/mcp-server' } as const;

const PEER_SCOPE = {
  agent: ['agentId', 'agent_id'],
  project: ['project'],
  keys: ['sessionKey', 'session_key'],
  unusedKeys: 'free',
} as const;
/** For a project: messages to one of its sessions. What goes to an agent as a whole, or to all, belongs to no project. */
const INBOX_SCOPE = { agent: ['agentId', 'agent_id'], project: 'owner', keys: ['sessionKey', 'session_key'] } as const;
/** For a project: from one of its sessions to one of its sessions. */
const SENDER_SCOPE = { agent: ['fromAgentId', 'from_agent_id'], project: 'owner', keys: ['fromSessionKey', 'from_session_key'] } as const;

export const crossAgentOperations = {
  listPresence: defineOperation({
    ...crossAgent,
    id: 'listPresence',
    method: 'GET',
    path: '/api/cross-agent/presence',
    scope: PEER_SCOPE,
    summary: 'Live sessions of other agents, the one heard of last first; `include_self` adds those of the asking agent.',
    input: PresenceFilter,
    output: z.object({ sessions: z.array(Presence), count: z.int() }),
    errors: [],
  }),
  announcePresence: defineOperation({
    ...crossAgent,
    id: 'announcePresence',
    method: 'POST',
    path: '/api/cross-agent/presence',
    scope: PEER_SCOPE,
    summary:
      'A session says that it is there. Hooks with a session key do so by themselves. A live session of another agent is not taken over.',
    input: z
      .object({
        ...Asker,
        harness: z.string({ error: 'harness is required' }).min(1).max(128),
        project: optionalText(4_096),
        runtimePath: z.enum(['plugin', 'legacy']).optional(),
        provider: optionalText(256),
      })
      .transform(asker),
    output: z.object({ presence: Presence }),
    errors: ['overloaded', 'session_key_taken'],
  }),
  removePresence: defineOperation({
    ...crossAgent,
    id: 'removePresence',
    method: 'DELETE',
    path: '/api/cross-agent/presence/:sessionKey',
    scope: { agent: 'owner', project: 'owner', keys: ['sessionKey'], unusedKeys: 'free' },
    summary: 'A session is gone. Its next hook brings it back.',
    input: z.object({ sessionKey: z.string().min(1).max(600) }),
    output: z.object({ removed: z.boolean() }),
    errors: [],
  }),
  sendAgentMessage: defineOperation({
    ...crossAgent,
    id: 'sendAgentMessage',
    method: 'POST',
    path: '/api/cross-agent/messages',
    scope: SENDER_SCOPE,
    summary: 'Send a message to an agent, to one session, to all live sessions, or to an agent on another server (`via: acp`).',
    input: Draft,
    output: z.object({ message: CrossAgentMessage }),
    errors: ['unknown_agent', 'session_not_found', 'relay_forbidden', 'storage_failed'],
  }),
  listAgentMessages: defineOperation({
    ...crossAgent,
    id: 'listAgentMessages',
    method: 'GET',
    path: '/api/cross-agent/messages',
    scope: INBOX_SCOPE,
    summary: 'The inbox of an agent, or of one of its sessions, newest first. Reading it marks nothing as read.',
    input: InboxFilter,
    output: z.object({ items: z.array(CrossAgentMessage), count: z.int() }),
    errors: [],
  }),
  markAgentMessagesRead: defineOperation({
    ...ours,
    id: 'markAgentMessagesRead',
    method: 'POST',
    path: '/api/cross-agent/messages/read',
    scope: INBOX_SCOPE,
    summary: 'Mark messages of an inbox as read: those of `ids`, else all. They are not shown to the model of that reader any more.',
    input: z.object({ ...Asker, ids: z.array(z.string().max(64)).max(MESSAGES_LISTED_MAX).optional() }).transform(asker),
    output: z.object({
      /** How many were unread until now. */
      read: z.int(),
    }),
    errors: ['storage_failed'],
  }),
  streamAgentMessages: defineOperation({
    ...crossAgent,
    id: 'streamAgentMessages',
    method: 'GET',
    path: '/api/cross-agent/stream',
    scope: { ...INBOX_SCOPE, project: ['project'] },
    summary:
      'Peers and messages of a reader as server-sent events: `connected`, `snapshot`, then `presence` and `message`, by the field `type`. Messages have ids; `Last-Event-ID` or `after` goes on behind one.',
    input: StreamFilter,
    output: z.string(),
    errors: [],
    stream: 'sse',
  }),
};
