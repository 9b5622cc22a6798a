import { z } from 'zod';
import { Metadata } from './ids.ts';
import { MachineUpgrade } from './machine-upgrade.ts';
import { Usage } from './provider.ts';
import { CauseRef, type SignalKind } from './signal.ts';
import { ToolClass } from './tool.ts';

export interface SignalSpec {
  readonly kind: SignalKind;
  readonly payload: z.ZodType;
  readonly description: string;
}

const text = z.string();
const optionalText = z.string().optional();
const count = z.int().min(0);
const ms = z.number().min(0);
const MachineRef = z.object({ id: text, version: text, digest: text });
const HookName = z.enum(['session-start', 'user-prompt-submit', 'session-end', 'pre-compaction', 'compaction-complete']);
export type HookName = z.output<typeof HookName>;

/** A tool the model may call in a turn, as far as the machine must know it. */
export const OfferedTool = z.object({ name: text, class: ToolClass, origin: z.enum(['builtin', 'custom', 'mcp']), tokens: count });
export type OfferedTool = z.output<typeof OfferedTool>;

/** A call the model asked for, with what the registry and the policy said of it at that moment. */
export const RequestedCall = z.object({
  id: text,
  name: text,
  input: z.unknown(),
  class: ToolClass,
  origin: z.enum(['builtin', 'custom', 'mcp', 'unknown']),
  approval: z.enum(['allow', 'ask', 'deny']),
  reason: optionalText,
  onExpiry: z.enum(['deny', 'allow']).optional(), // Absent means deny.
});
export type RequestedCall = z.output<typeof RequestedCall>;

const MessageFacts = { messageId: text, type: text, from: text, fromSession: optionalText, broadcast: z.boolean() };

export const ErrorFields = { code: text, message: text };

const spec = <K extends SignalKind, P extends z.ZodType>(kind: K, payload: P, description: string) => ({ kind, payload, description });
const state = (description: string) =>
  spec('machine', z.object({ turn: count.optional(), round: count.optional(), reason: optionalText }), description);

/**
 * Every signal of this program by name. docs/signals.md and /schemas/signals are generated from it.
 * @source spec/signal-system (names), and what a running session needs beside them
 */
export const SIGNALS = {
  'daemon:start': spec(
    'system',
    z.object({ version: text, node: text, pid: count, machines: z.array(MachineRef) }),
    'The process started.',
  ),
  'daemon:stop': spec('system', z.object({ reason: text, uptimeMs: ms }), 'The process stops after draining.'),
  'config:changed': spec(
    'system',
    z.object({ keys: z.array(text) }),
    'Keys of agent.yaml took other values, at once; values are not told.',
  ),
  'supervisor:child:started': spec(
    'system',
    z.object({ session: text, agent: text, attempt: count }),
    'The supervisor started an actor for the session.',
  ),
  'supervisor:child:stopped': spec('system', z.object({ session: text, reason: text }), 'The actor has ended.'),
  'supervisor:child:restarted': spec(
    'system',
    z.object({ session: text, attempt: count, delayMs: ms, error: text }),
    'A crashed actor was restarted from its log.',
  ),
  'supervisor:limit': spec(
    'system',
    z.object({
      kind: z.enum(['provider-calls', 'agent-provider-calls', 'children', 'depth']),
      limit: count,
      current: count,
      action: z.enum(['queued', 'rejected']),
    }),
    'A limit was met: the work waits for its turn, or was refused.',
  ),
  'session:created': spec(
    'input',
    z.object({
      session: text,
      key: text,
      agent: text,
      project: text.nullable(),
      title: text,
      harness: text,
      provider: text,
      model: text,
      parentSession: text.nullable(),
      /** The ended session this one continues, under the same key. */
      resumedFrom: text.nullable(),
      /** The place in another session this one was forked from. */
      forkedFrom: z.object({ session: text, seq: count }).optional(),
      /** The state at that place, whole: a fork does not need its parent any more. */
      seed: z.object({ value: z.unknown(), context: Metadata, conversation: Metadata, view: Metadata }).optional(),
      system: optionalText,
      tools: z.array(text).nullable(),
      bypassed: z.boolean(),
      metadata: Metadata,
      machine: MachineRef,
      bodyDigest: optionalText,
      /** The signal of another stream that brought it about; without one the session is a root. */
      cause: CauseRef.optional(),
      limits: z.record(text, z.number()),
      contextLimit: count,
      /** Who writes summaries, when it is not the session's own model. */
      summary: z.object({ provider: text, model: text }).nullable(),
    }),
    'A client created the session.',
  ),
  'session:updated': spec(
    'input',
    z.object({
      title: optionalText,
      provider: optionalText,
      model: optionalText,
      metadata: Metadata.optional(),
      contextLimit: count.optional(),
      by: text,
    }),
    'Title, model or metadata changed.',
  ),
  'session:starting': state('The session-start hook runs.'),
  'session:idle': state('Nothing is owed; the next prompt starts a turn.'),
  'session:researching': state('Memories and pre-generation tools are asked before the model.'),
  'session:generating': state('The model is called.'),
  'session:tool-looping': state('Tools run, or wait for an approval.'),
  'session:compacting': state('The conversation is being replaced by a summary.'),
  'session:aborting': state('Running work is being stopped.'),
  'session:ending': state('The session-end hook runs.'),
  'session:passivated': state('The actor leaves memory; the next event brings it back.'),
  'session:ended': spec(
    'machine',
    z.object({ reason: text, turns: count, usage: Usage, costUsd: z.number().nullable(), durationMs: ms }),
    'Final.',
  ),
  'session:transition': spec(
    'machine',
    z.object({
      from: z.array(text),
      to: z.array(text),
      value: z.unknown(),
      event: text,
      steps: z.array(z.object({ source: text, target: z.array(text), event: text, kind: z.enum(['event', 'always', 'done']) })),
      dwellMs: ms,
      state: text,
    }),
    'One macrostep that changed the configuration: exact edges, and a digest of the new snapshot.',
  ),
  'session:ignored': spec('machine', z.object({ event: text, state: text }), 'An event that no edge took.'),
  'session:failed': spec(
    'machine',
    z.object({ ...ErrorFields, state: text, recoverable: z.boolean() }),
    'A turn failed; the session goes on.',
  ),
  'session:resumed': spec(
    'system',
    z.object({ fromSeq: count, restarted: z.array(text) }),
    'Work that was owed when the process died goes on; text of a call that is made again is void.',
  ),
  'session:activated': spec('input', z.object({ reason: text }), 'A passivated session is back in memory.'),
  'session:owned': spec('system', z.object({ epoch: count, pid: count }), 'A new process writes this stream; older ones are fenced.'),
  'session:quarantined': spec(
    'system',
    z.object({ restarts: count, error: text, scope: z.enum(['session', 'agent']).optional() }),
    'Too many crashes in a row, of the session or of all sessions of its agent; it waits for somebody to resume it.',
  ),
  'session:forked': spec('system', z.object({ into: text, atSeq: count }), 'Another session began with the state of this one.'),
  'session:upgraded': spec(
    'input',
    MachineUpgrade,
    'The log was written by another version of the statechart; the session goes on from its last turn boundary.',
  ),
  'log:pruned': spec(
    'system',
    z.object({ fromSeq: count, toSeq: count, names: z.array(text), digest: text }),
    'Signals were dropped. A checkpoint stands for them; the digest is that of its text, so verify finds a changed one.',
  ),
  'session:bypass:changed': spec(
    'input',
    z.object({ bypassed: z.boolean(), by: text }),
    'Hooks were silenced or allowed to speak for this session.',
  ),
  'session:end': spec('input', z.object({ by: text, reason: text }), 'A client ends the session.'),
  'prompt:received': spec(
    'input',
    z.object({
      promptId: text,
      content: text,
      attachments: z.array(z.unknown()),
      delivery: z.enum(['queue', 'steer', 'interrupt', 'reject']),
      client: text,
      metadata: Metadata.optional(),
      provider: optionalText,
      model: optionalText,
      contextLimit: count.optional(),
      outputSchema: Metadata.optional(),
      timeoutMs: ms.optional(),
      tools: z.array(OfferedTool),
      preTools: z.array(text),
      /** W3C trace context of the request: the turn becomes part of that trace. */
      traceparent: optionalText,
      bodyDigest: text,
      /** The signal of another stream that brought it about; without one the prompt is a root. */
      cause: CauseRef.optional(),
    }),
    'A user message; the root of all it causes. Ends in exactly one of turn:end, turn:rejected, prompt:cancelled.',
  ),
  'prompt:cancelled': spec(
    'input',
    z.object({ promptId: text, by: text, reason: optionalText }),
    'A waiting prompt was taken out of the queue.',
  ),
  'turn:queued': spec('machine', z.object({ promptId: text, position: count }), 'The prompt waits for its turn.'),
  'turn:rejected': spec(
    'machine',
    z.object({ promptId: text, reason: z.enum(['ended', 'queue-full', 'busy']) }),
    'The prompt was not taken.',
  ),
  'turn:start': spec('machine', z.object({ turn: count, promptId: text, deadlineAt: text }), 'The turn of a prompt begins.'),
  'turn:steered': spec('machine', z.object({ turn: count, promptId: text }), 'A message joins the running turn at a model boundary.'),
  'turn:cancel': spec('input', z.object({ by: text, reason: optionalText }), 'A client aborts what runs.'),
  'turn:end': spec(
    'machine',
    z.object({
      turn: count,
      promptId: text,
      promptIds: z.array(text),
      stopReason: text,
      rounds: count,
      toolCalls: count,
      usage: Usage,
      costUsd: z.number().nullable(),
      durationMs: ms,
      error: z.object(ErrorFields).optional(),
    }),
    'The turn is over, well or not.',
  ),
  'hook:start': spec('effect', z.object({ hook: HookName, key: text }), 'A hook of the daemon is called.'),
  'hook:end': spec(
    'input',
    z.object({
      hook: HookName,
      key: text,
      bypassed: z.boolean(),
      durationMs: ms,
      inject: optionalText,
      memories: count.optional(),
      memoryIds: z.array(text).optional(),
      strong: z.boolean().optional(),
      /** Messages of other agents that stand in the inject. */
      messages: z.array(z.object(MessageFacts)).optional(),
      summaryPrompt: optionalText,
      guidelines: optionalText,
      memoryId: optionalText,
    }),
    'The hook answered.',
  ),
  'hook:error': spec('input', z.object({ hook: HookName, key: text, ...ErrorFields, durationMs: ms }), 'The hook failed or was late.'),
  'message:arrived': spec('input', z.object(MessageFacts), 'A message of another agent reached the session while it is in memory.'),
  'message:received': spec(
    'machine',
    z.object({ turn: count.optional(), ...MessageFacts }),
    'A message of another agent, once: when it arrives, or with the `turn` that shows it first. The text stands in the inject of the hook.',
  ),
  'research:start': spec('machine', z.object({ promptId: text, tools: z.array(text) }), 'The research phase begins.'),
  'research:end': spec('machine', z.object({ memories: count, tools: count, failed: count, tookMs: ms }), 'The research phase is over.'),
  'context:assembled': spec(
    'machine',
    z.object({ sections: z.array(z.object({ name: text, tokens: count })), tokens: count, limit: count, messages: count, digest: text }),
    'What the model is given, by section, in estimated tokens.',
  ),
  'context:overflow': spec('machine', z.object({ tokens: count, limit: count }), 'The provider said that the conversation does not fit.'),
  'harness:start': spec(
    'effect',
    z.object({
      key: text,
      provider: text,
      model: text,
      round: count,
      attempt: count,
      purpose: z.enum(['answer', 'summary']),
      inputDigest: text,
      tools: count,
    }),
    'A model call begins.',
  ),
  'harness:end': spec(
    'input',
    z.object({
      key: text,
      content: text,
      thinking: z.array(z.object({ text, signature: optionalText })).optional(),
      toolCalls: z.array(RequestedCall),
      stopReason: text,
      model: text,
      usage: Usage,
      costUsd: z.number().nullable(),
      durationMs: ms,
      firstTokenMs: ms.nullable(),
      outputValid: z.boolean().optional(),
      /** Why the answer does not fit the schema that was asked for. */
      outputFault: optionalText,
    }),
    'The model call is over.',
  ),
  'harness:error': spec(
    'input',
    z.object({
      key: text,
      error: text,
      ...ErrorFields,
      recoverable: z.boolean(),
      retryAfterMs: ms.optional(),
      jitter: z.number().min(0).max(1),
      fallback: z.object({ provider: text, model: text }).optional(),
      durationMs: ms,
      partialChars: count,
      /** What the provider had told before it broke off. */
      usage: Usage.optional(),
      costUsd: z.number().nullable().optional(),
    }),
    'The model call failed.',
  ),
  'harness:retry': spec(
    'machine',
    z.object({ attempt: count, delayMs: ms, ...ErrorFields }),
    'The model call will be made again after a wait; text streamed so far is void.',
  ),
  'text:delta': spec('stream', z.object({ content: text, index: count, offset: count }), 'Text as it comes; not stored.'),
  'text:complete': spec('input', z.object({ key: text, content: text }), 'The whole text of a model call.'),
  'thinking:delta': spec('stream', z.object({ content: text, index: count, offset: count }), 'Thinking as it comes; not stored.'),
  'thinking:complete': spec('input', z.object({ key: text, content: text }), 'The whole thinking of a model call.'),
  'tool:call': spec(
    'effect',
    z.object({ id: text, name: text, input: z.unknown(), key: text, class: ToolClass, origin: text, phase: z.enum(['research', 'turn']) }),
    'The intent to run a tool, durable before it runs.',
  ),
  'tool:approval:requested': spec(
    'machine',
    z.object({ id: text, name: text, input: z.unknown(), reason: text, expiresAt: text }),
    'A person must agree before this call runs.',
  ),
  'tool:approval:resolved': spec(
    'input',
    z.object({ id: text, decision: z.enum(['once', 'always', 'deny']), by: text, message: optionalText }),
    'The approval was decided.',
  ),
  'tool:progress': spec(
    'stream',
    z.object({ id: text, message: optionalText, fraction: z.number().optional() }),
    'A running tool tells how far it is; not stored.',
  ),
  'tool:result': spec(
    'input',
    z.object({
      id: text,
      name: text,
      key: text,
      output: z.unknown(),
      isError: z.boolean(),
      error: z.object(ErrorFields).optional(),
      durationMs: ms,
      bytes: count,
      truncated: z.boolean().optional(),
      /** Of the sessions that the call began and waited for; counted to the session that asked. */
      usage: Usage.optional(),
      costUsd: z.number().nullable().optional(),
    }),
    'What a tool answered.',
  ),
  'compaction:requested': spec('input', z.object({ by: text }), 'A client asks for a compaction.'),
  'compaction:start': spec(
    'machine',
    z.object({ reason: z.enum(['threshold', 'overflow', 'manual']), tokens: count }),
    'A compaction begins.',
  ),
  'compaction:summary': spec('machine', z.object({ chars: count }), 'The model has written the summary.'),
  'compaction:complete': spec(
    'machine',
    z.object({ memoryId: text.nullable(), tokensBefore: count, tokensAfter: count }),
    'The summary stands in for the conversation.',
  ),
  'compaction:error': spec('machine', z.object({ ...ErrorFields, failures: count }), 'A compaction failed; the conversation is unchanged.'),
  'timer:set': spec('effect', z.object({ id: text, ms, dueAt: text }), 'A wait begins.'),
  'timer:fired': spec('input', z.object({ id: text }), 'A wait is over.'),
} as const satisfies Record<string, SignalSpec>;

export type SignalName = keyof typeof SIGNALS;
export type PayloadOf<N extends SignalName> = z.output<(typeof SIGNALS)[N]['payload']>;
/** Names of the signals of a kind; `NamesOfKind<'input'>` are the events of the session machine. */
export type NamesOfKind<K extends SignalKind> = { [N in SignalName]: (typeof SIGNALS)[N]['kind'] extends K ? N : never }[SignalName];
