import { z } from 'zod';
import { GenerationChangeFields, GenerationFields } from './generation.ts';
import { Metadata } from './ids.ts';
import { MachineUpgrade } from './machine-upgrade.ts';
import { Usage } from './provider.ts';
import { CauseRef } from './signal.ts';
import { count, ErrorFields, Limit, MachineRef, ms, OfferedTool, optionalText, type SignalSpec, spec, state, text } from './signal-spec.ts';

/** What a session says of itself, and the prompts that come to it. */
export const SESSION_SIGNALS = {
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
      ...GenerationFields,
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
      /** Of the token that opened the session. */
      limit: Limit.optional(),
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
      ...GenerationChangeFields,
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
      ...GenerationFields,
      outputSchema: Metadata.optional(),
      timeoutMs: ms.optional(),
      tools: z.array(OfferedTool),
      preTools: z.array(text),
      /** W3C trace context of the request: the turn becomes part of that trace. */
      traceparent: optionalText,
      bodyDigest: text,
      /** The signal of another stream that brought it about; without one the prompt is a root. */
      cause: CauseRef.optional(),
      /** Of the token that sent it. */
      limit: Limit.optional(),
    }),
    'A user message; the root of all it causes. Ends in exactly one of turn:end, turn:rejected, prompt:cancelled.',
  ),
  'prompt:cancelled': spec(
    'input',
    z.object({ promptId: text, by: text, reason: optionalText }),
    'A waiting prompt was taken out of the queue.',
  ),
} as const satisfies Record<string, SignalSpec>;
