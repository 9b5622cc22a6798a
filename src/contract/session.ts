import { z } from 'zod';
import { GenerationFields } from './generation.ts';
import { AgentName, Metadata, PromptId, SessionId, SessionKey } from './ids.ts';
import { Usage } from './provider.ts';

/** Characters of one prompt's text. */
export const PROMPT_CHARS_MAX = 500_000;
/** Attachments of one prompt. */
export const ATTACHMENTS_MAX = 16;
/** Bytes of a prompt's body, attachments in base64 included. */
export const PROMPT_BODY_BYTES_MAX = 12 * 1_048_576;
export const PAGE_LIMIT = 100;
export const PAGE_LIMIT_MAX = 1_000;

/** What a client sees as the session's state; `passivated` sessions are idle ones that left memory. */
export const SessionState = z.enum([
  'starting',
  'idle',
  'researching',
  'generating',
  'tool-looping',
  'compacting',
  'aborting',
  'ending',
  'passivated',
  'ended',
]);
export type SessionState = z.output<typeof SessionState>;

export const Delivery = z.enum(['queue', 'steer', 'interrupt', 'reject']);
export type Delivery = z.output<typeof Delivery>;

export const PromptStatus = z.enum(['queued', 'running', 'completed', 'failed', 'aborted', 'cancelled', 'rejected']);
export type PromptStatus = z.output<typeof PromptStatus>;

export const Session = z.object({
  id: SessionId,
  /** The key hooks use for this session on the daemon. */
  sessionKey: SessionKey,
  agent: AgentName,
  title: z.string(),
  project: z.string().nullable(),
  parentId: SessionId.nullable(),
  /** The ended session this one continues. */
  resumedFrom: SessionId.nullable(),
  /** The place in another session this one was forked from. */
  forkedFrom: z.object({ session: SessionId, seq: z.int() }).nullable(),
  harness: z.string(),
  provider: z.string(),
  model: z.string(),
  /** What the session and its agent say of how answers are written; a prompt, the provider and the configuration say the rest. */
  ...GenerationFields,
  state: SessionState,
  /** The statechart's configuration, as XState writes it. */
  value: z.unknown(),
  /** Prompt in work, null between turns. */
  turn: z.object({ number: z.int(), promptId: z.string(), round: z.int(), startedAt: z.string(), deadlineAt: z.string() }).nullable(),
  /** Prompts that wait, in order. */
  queue: z.array(z.string()),
  turns: z.int(),
  usage: Usage,
  costUsd: z.number().nullable(),
  context: z.object({ tokens: z.int(), limit: z.int() }),
  bypassed: z.boolean(),
  /** The daemon did not answer at start: no identity and no memories. */
  degraded: z.boolean(),
  seq: z.int(),
  metadata: Metadata,
  createdAt: z.string(),
  updatedAt: z.string(),
  endReason: z.string().nullable(),
  /** Set while the session does not go on by itself: its log is damaged, or it crashed again and again. What is shown of it then is what stands before. */
  quarantined: z.object({ code: z.enum(['log_divergence', 'session_quarantined']), reason: z.string() }).optional(),
});
export type Session = z.output<typeof Session>;

export const SessionSummary = Session.pick({
  id: true,
  sessionKey: true,
  agent: true,
  title: true,
  project: true,
  parentId: true,
  harness: true,
  state: true,
  turns: true,
  costUsd: true,
  createdAt: true,
  updatedAt: true,
  quarantined: true,
}).extend({ provider: z.string().nullable(), model: z.string().nullable(), inputTokens: z.int(), outputTokens: z.int() });
export type SessionSummary = z.output<typeof SessionSummary>;

export const PromptContent = z
  .string()
  .max(PROMPT_CHARS_MAX)
  .refine((text) => text.trim() !== '', 'must not be empty');

export const Attachment = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), name: z.string().max(256).optional(), text: z.string().max(PROMPT_CHARS_MAX) }),
  z.strictObject({
    type: z.literal('image'),
    name: z.string().max(256).optional(),
    mediaType: z.enum(['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
    data: z.base64().min(1),
  }),
]);
export type Attachment = z.output<typeof Attachment>;

export const ToolResult = z.object({
  id: z.string(),
  name: z.string(),
  input: z.unknown(),
  output: z.unknown(),
  isError: z.boolean(),
  durationMs: z.number(),
});
export type ToolResult = z.output<typeof ToolResult>;

export const PromptState = z.object({
  id: PromptId,
  status: PromptStatus,
  /** Place in the queue from 1, null when it does not wait. */
  position: z.int().nullable(),
  turn: z.int().nullable(),
  seq: z.int(),
  endSeq: z.int().nullable(),
  receivedAt: z.string(),
  endedAt: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});
export type PromptState = z.output<typeof PromptState>;

export const PromptAnswer = z.object({
  id: PromptId,
  status: PromptStatus,
  /** Text of the last round; empty while the prompt waits or runs (202). */
  content: z.string(),
  /** The provider sent it piece by piece, so streams showed it grow; absent until a model has answered. */
  streaming: z.boolean().optional(),
  /** Parsed answer when `output.schema` was given. */
  output: z.unknown().optional(),
  toolResults: z.array(ToolResult),
  /** Tools that run before generation and failed: the model answered without them. Absent when none has. */
  researchFaults: z.array(z.object({ name: z.string(), code: z.string(), message: z.string() })).optional(),
  usage: Usage,
  costUsd: z.number().nullable(),
  stopReason: z.string().nullable(),
  /** Signal that ended the turn, or the newest one of the prompt so far. */
  seq: z.int(),
});
export type PromptAnswer = z.output<typeof PromptAnswer>;

export const MessageView = z.object({
  /** Number of the signal the message comes from; below 0 for those a fork began with. Never runs back. */
  seq: z.int(),
  turn: z.int(),
  role: z.enum(['user', 'assistant', 'tool', 'summary']),
  content: z.string(),
  promptId: z.string().optional(),
  thinking: z.string().optional(),
  toolCalls: z.array(z.object({ id: z.string(), name: z.string(), input: z.unknown() })).optional(),
  toolResult: z.object({ id: z.string(), name: z.string(), output: z.string(), isError: z.boolean() }).optional(),
  attachments: z
    .array(z.object({ type: z.string(), name: z.string().optional(), mediaType: z.string().optional(), bytes: z.int() }))
    .optional(),
  /** Replaced by a summary: not shown to the model any more. */
  compacted: z.boolean(),
  at: z.string(),
});
export type MessageView = z.output<typeof MessageView>;
