import { z } from 'zod';
import { approvalOperations } from './approval-operations.ts';
import { AgentName, Metadata, SessionId, SessionKey } from './ids.ts';
import { logOperations } from './log-operations.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { promptOperations } from './prompt-operations.ts';
import { MessageView, PAGE_LIMIT, PAGE_LIMIT_MAX, Session, SessionState, SessionSummary } from './session.ts';
import { Signal } from './signal.ts';

const CreateSession = z.strictObject({
  id: SessionId.optional(),
  sessionKey: SessionKey.optional(),
  agent: AgentName.optional(),
  title: z.string().max(512).optional(),
  project: z.string().max(4_096).optional(),
  parentId: SessionId.optional(),
  /** An ended session to continue: the new one has its key and begins with its checkpoint. */
  resume: SessionId.optional(),
  harness: z.string().max(128).optional(),
  provider: z.string().max(128).optional(),
  model: z.string().max(256).optional(),
  /** Text put before the daemon's inject in the system prompt. */
  system: z.string().max(200_000).optional(),
  /** Names of the tools the session may use; absent means all. */
  tools: z.array(z.string()).max(512).optional(),
  bypass: z.boolean().optional(),
  metadata: Metadata.optional(),
});

const sessionId = { id: SessionId };
const runtime = { tag: 'sessions' } as const;

export const sessionOperations = {
  ...promptOperations,
  ...approvalOperations,
  ...logOperations,
  createSession: defineOperation({
    ...runtime,
    id: 'createSession',
    method: 'POST',
    path: '/session',
    role: 'operator',
    summary: 'Create a session. The same id with the same body again is the same session.',
    input: CreateSession,
    output: Session,
    errors: [
      'unknown_agent',
      'unknown_tool',
      'unknown_provider',
      'unknown_model',
      'id_conflict',
      'session_not_found',
      'session_ended',
      'too_many_sessions',
      'too_many_children',
      'too_deep',
      'overloaded',
      'draining',
    ],
    status: 201,
    source: 'spec/native-runtime',
  }),
  listSessions: defineOperation({
    ...runtime,
    id: 'listSessions',
    method: 'GET',
    path: '/session',
    role: 'readonly',
    summary: 'Sessions, newest change first, also those that left memory.',
    input: z.strictObject({
      agent: AgentName.optional(),
      state: SessionState.optional(),
      parent: SessionId.optional(),
      search: z.string().max(256).optional(),
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      cursor: z.string().max(512).optional(),
    }),
    output: z.object({ items: z.array(SessionSummary), next: z.string().nullable() }),
    errors: ['invalid_cursor'],
  }),
  getSession: defineOperation({
    ...runtime,
    id: 'getSession',
    method: 'GET',
    path: '/session/:id',
    role: 'readonly',
    summary: 'State, queue, usage and cost of one session.',
    input: z.strictObject(sessionId),
    output: Session,
    errors: ['session_not_found'],
    source: 'spec/native-runtime',
  }),
  updateSession: defineOperation({
    ...runtime,
    id: 'updateSession',
    method: 'PATCH',
    path: '/session/:id',
    role: 'operator',
    summary: 'Change title, provider, model or metadata; a running turn keeps what it began with.',
    input: z.strictObject({
      ...sessionId,
      title: z.string().max(512).optional(),
      provider: z.string().max(128).optional(),
      model: z.string().max(256).optional(),
      metadata: Metadata.optional(),
    }),
    output: Session,
    errors: ['session_not_found', 'session_ended', 'unknown_provider', 'unknown_model'],
  }),
  endSession: defineOperation({
    ...runtime,
    id: 'endSession',
    method: 'DELETE',
    path: '/session/:id',
    role: 'operator',
    summary:
      'End a session and its child sessions: running work is aborted, the session-end hook runs. With purge its log is forgotten as well.',
    input: z.strictObject({ ...sessionId, purge: flag.optional(), reason: z.string().max(256).optional() }),
    output: z.object({ id: SessionId, state: SessionState, purged: z.boolean() }),
    errors: ['session_not_found'],
    source: 'spec/native-runtime',
  }),
  abortTurn: defineOperation({
    ...runtime,
    id: 'abortTurn',
    method: 'POST',
    path: '/session/:id/abort',
    role: 'operator',
    summary:
      'Stop the running turn and those of child sessions: provider sockets are closed, tools are aborted. Answers when all has settled.',
    input: z.strictObject({ ...sessionId, clearQueue: z.boolean().optional(), reason: z.string().max(256).optional() }),
    output: z.object({ aborted: z.boolean(), cancelled: z.array(z.string()), state: SessionState, seq: z.int() }),
    errors: ['session_not_found', 'session_ended', 'session_quarantined', 'log_divergence'],
  }),
  waitSession: defineOperation({
    ...runtime,
    id: 'waitSession',
    method: 'POST',
    path: '/session/:id/wait',
    role: 'readonly',
    summary: 'Answer when the session is idle (or in the named state), at the latest after timeoutMs.',
    input: z.strictObject({ ...sessionId, state: SessionState.optional(), timeoutMs: wholeNumber(1, 600_000).default(60_000) }),
    output: Session,
    errors: ['session_not_found', 'timeout'],
  }),
  compactSession: defineOperation({
    ...runtime,
    id: 'compactSession',
    method: 'POST',
    path: '/session/:id/compact',
    role: 'operator',
    summary: 'Replace the conversation so far by a summary. Answers when it is done.',
    input: z.strictObject({ ...sessionId }),
    output: z.object({ tokensBefore: z.int(), tokensAfter: z.int(), memoryId: z.string().nullable(), seq: z.int() }),
    errors: ['session_not_found', 'session_ended', 'turn_open', 'nothing_to_compact', 'compaction_failed'],
  }),
  listMessages: defineOperation({
    ...runtime,
    id: 'listMessages',
    method: 'GET',
    path: '/session/:id/messages',
    role: 'readonly',
    summary: 'The conversation, oldest first: a plain array, with the cursor of the next page in Link.',
    input: z.strictObject({
      ...sessionId,
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      /** Messages below this `seq`; the newest ones when both are left out. */
      before: wholeNumber(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).optional(),
      /** Messages above this `seq`; 0 begins with the first one. */
      after: wholeNumber(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).optional(),
    }),
    output: z.array(MessageView),
    errors: ['session_not_found'],
    source: 'spec/native-runtime',
  }),
  listEvents: defineOperation({
    ...runtime,
    id: 'listEvents',
    method: 'GET',
    path: '/session/:id/events',
    role: 'readonly',
    summary: 'A page of the signal log.',
    input: z.strictObject({
      ...sessionId,
      after: wholeNumber(0, Number.MAX_SAFE_INTEGER).default(0),
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      events: z.string().max(4_096).optional(),
    }),
    output: z.object({
      items: z.array(Signal),
      next: z.int().nullable(),
      head: z.int(),
      /** Signals behind `after` that were trimmed; the page begins after them. */
      gap: z.object({ from: z.int(), to: z.int() }).optional(),
    }),
    errors: ['session_not_found', 'invalid_pattern'],
  }),
  forkSession: defineOperation({
    ...runtime,
    id: 'forkSession',
    method: 'POST',
    path: '/session/:id/fork',
    role: 'operator',
    summary: 'A new session that begins with the state of this one at any signal, if wished with another agent, model or input.',
    input: z.strictObject({
      ...sessionId,
      /** Id of the new session. The same id with the same body again is the same fork. */
      newId: SessionId.optional(),
      /** The fork begins after the step this signal belongs to; with the newest one when left out. */
      at: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
      /** The same by another name; one of both. */
      atSeq: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
      agent: AgentName.optional(),
      provider: z.string().max(128).optional(),
      model: z.string().max(256).optional(),
      title: z.string().max(512).optional(),
      /** Fields that replace those of the input signal `at`: a prompt's content, a tool's output. */
      replaceInput: Metadata.optional(),
    }),
    output: Session,
    errors: [
      'session_not_found',
      'unknown_agent',
      'unknown_provider',
      'unknown_model',
      'id_conflict',
      'too_many_sessions',
      'overloaded',
      'invalid_request',
      'invalid_cursor',
      'log_trimmed',
      'draining',
    ],
    status: 201,
  }),
  resumeSession: defineOperation({
    ...runtime,
    id: 'resumeSession',
    method: 'POST',
    path: '/session/:id/resume',
    role: 'operator',
    summary: 'Give a quarantined session another chance: its crashes are forgotten and it is brought back from its log.',
    input: z.strictObject({ ...sessionId }),
    output: Session,
    errors: ['session_not_found', 'session_ended', 'log_divergence', 'draining'],
  }),
  listChildren: defineOperation({
    ...runtime,
    id: 'listChildren',
    method: 'GET',
    path: '/session/:id/children',
    role: 'readonly',
    summary: 'Sessions that name this one as their parent.',
    input: z.strictObject({
      ...sessionId,
      limit: wholeNumber(1, PAGE_LIMIT_MAX).default(PAGE_LIMIT),
      cursor: z.string().max(512).optional(),
    }),
    output: z.object({ items: z.array(SessionSummary), next: z.string().nullable() }),
    errors: ['session_not_found', 'invalid_cursor'],
  }),
  sessionMachine: defineOperation({
    ...runtime,
    id: 'sessionMachine',
    method: 'GET',
    path: '/session/:id/machine',
    role: 'readonly',
    summary: 'The live state machine: configuration, events it would take now, and the last transitions.',
    input: z.strictObject(sessionId),
    output: z.object({
      machine: z.object({ id: z.string(), version: z.string(), digest: z.string() }),
      state: SessionState,
      value: z.unknown(),
      /** Ids of the active state nodes. */
      active: z.array(z.string()),
      /** Events that have an edge in the present configuration. */
      next: z.array(z.string()),
      since: z.string(),
      history: z.array(z.looseObject({ seq: z.int(), from: z.array(z.string()), to: z.array(z.string()), event: z.string() })),
    }),
    errors: ['session_not_found'],
  }),
  streamSession: defineOperation({
    ...runtime,
    id: 'streamSession',
    method: 'GET',
    path: '/session/:id/stream',
    role: 'readonly',
    summary: 'Signals of one session as server-sent events: a snapshot, what came after the cursor, then live. Resumes by Last-Event-ID.',
    input: z.strictObject({
      ...sessionId,
      /** A seq, or `seq.offset` to resume inside running text. */
      after: z
        .string()
        .regex(/^\d{1,15}(\.\d{1,15})?$/, 'must be a sequence number, or seq.offset')
        .optional(),
      events: z.string().max(4_096).optional(),
      deltas: flag.optional(),
      token: z.string().optional(),
    }),
    output: z.string(),
    errors: ['session_not_found', 'invalid_pattern', 'invalid_cursor'],
    stream: 'sse',
    source: 'spec/native-runtime',
  }),
};
