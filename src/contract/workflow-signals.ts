import { z } from 'zod';
import { SIGNALS } from './catalog.ts';
import { Usage } from './provider.ts';
import { CauseRef, type SignalKind } from './signal.ts';
import { count, ErrorFields, Limit, ms, type SignalSpec, spec, text } from './signal-spec.ts';
import { StoredWorkflow, WorkflowAgentRules, WorkflowEndReason, WorkflowLimits, WorkflowMetrics } from './workflow.ts';

const State = z.record(text, z.unknown());

export const SkipReason = z.enum(['when', 'self', 'depth', 'budget', 'concurrency', 'debounced', 'terminated']);
export type SkipReason = z.output<typeof SkipReason>;

/** Every signal of a workflow's own stream by name, besides the names its agents declare and `state:<key>:changed`. */
export const WORKFLOW_SIGNALS = {
  'workflow:start': spec(
    'input',
    z.object({
      workflow: text,
      name: text,
      agents: z.array(WorkflowAgentRules),
      state: State,
      input: z.unknown(),
      limits: WorkflowLimits.extend({ timeoutMs: ms }),
      project: text.nullable(),
      /** Of the token that started it. */
      limit: Limit.optional(),
      /** The definition as data; null when it holds functions, which no other process knows. */
      source: StoredWorkflow.nullable(),
      bodyDigest: text,
    }),
    'A run begins. The root of all it causes.',
  ),
  'workflow:signal': spec(
    'input',
    z.object({
      ...CauseRef.shape,
      name: text,
      /** Its log-wide number: everything up to it has been looked at. */
      gseq: count,
      /** Activation it comes from, and how many stand in its chain. */
      cause: count.nullable(),
      chain: count,
      /** Agents with an activation in its chain that was unfinished at that moment. */
      within: z.array(text),
      /** Session it was written in. */
      session: text.optional(),
      /** The failed activation, when that is what it tells. */
      failed: count.optional(),
      /** Agents that listen to it, and what their `when` and `prompt` said of the state at that moment. */
      matches: z.array(z.object({ agent: text, when: z.boolean(), prompt: text, fault: z.object(ErrorFields).optional() })),
    }),
    'A signal that agents listen to has been looked at.',
  ),
  'workflow:result': spec(
    'input',
    z.object({
      activation: count,
      attempt: count,
      ok: z.boolean(),
      output: z.unknown(),
      error: z.object(ErrorFields).optional(),
      usage: Usage,
      costUsd: z.number().nullable(),
      /** The end of the session's turn. */
      cause: CauseRef.optional(),
      /** Names that follow, `emitWhen` asked. */
      emits: z.array(text),
      /** `endWhen` holds. */
      ends: z.boolean(),
    }),
    'The turn of an activation is over.',
  ),
  'workflow:settled': spec('input', z.object({ gseq: count }), 'Nothing runs, nothing waits, and every signal has been looked at.'),
  'workflow:abort': spec('input', z.object({ by: text, reason: text.optional() }), 'A client ends the run; its work is stopped.'),
  'workflow:fault': spec('input', z.object(ErrorFields), 'The run cannot go on; its work is stopped.'),
  'workflow:owned': spec('system', z.object({ epoch: count, pid: count }), 'A new process goes on with the run; older ones are fenced.'),
  'workflow:terminating': spec(
    'machine',
    z.object({ reason: WorkflowEndReason, agent: text.optional() }),
    'Nothing is activated any more; what runs is waited for, or stopped.',
  ),
  'workflow:end': spec(
    'machine',
    z.object({ reason: WorkflowEndReason, state: State, metrics: WorkflowMetrics, error: z.object(ErrorFields).optional() }),
    'The run is over, well or not. Always the last signal.',
  ),
  'agent:activated': spec(
    'machine',
    z.object({
      agent: text,
      activation: count,
      trigger: text,
      signal: text,
      session: text,
      /** Activation the trigger came from, and the length of the chain with this one. */
      cause: count.nullable(),
      chain: count,
    }),
    'An agent begins to work on a signal, in a session.',
  ),
  'agent:skipped': spec(
    'machine',
    z.object({ agent: text, trigger: text, signal: text, reason: SkipReason, message: text.optional() }),
    'An agent does not work on a signal it listens to, and why.',
  ),
  'budget:exceeded': spec(
    'machine',
    z.object({
      scope: z.enum(['workflow', 'agent']),
      agent: text.optional(),
      kind: z.enum(['activations', 'tokens', 'usd']),
      used: z.number().min(0),
      limit: z.number().min(0),
    }),
    'A limit of the run, or of one of its agents, has refused work for the first time.',
  ),
  'agent:completed': spec(
    'machine',
    z.object({
      agent: text,
      activation: count,
      session: text,
      output: z.unknown(),
      usage: Usage,
      costUsd: z.number().nullable(),
      durationMs: ms,
    }),
    'An activation succeeded; its state change came before, its signals follow.',
  ),
  'agent:failed': spec(
    'machine',
    z.object({ agent: text, activation: count, session: text, ...ErrorFields, willRetry: z.boolean(), durationMs: ms }),
    'An attempt of an activation failed.',
  ),
} as const satisfies Record<string, SignalSpec>;

export type WorkflowSignalName = keyof typeof WORKFLOW_SIGNALS;
export type WorkflowPayloadOf<N extends WorkflowSignalName> = z.output<(typeof WORKFLOW_SIGNALS)[N]['payload']>;
export type WorkflowNamesOfKind<K extends SignalKind> = {
  [N in WorkflowSignalName]: (typeof WORKFLOW_SIGNALS)[N]['kind'] extends K ? N : never;
}[WorkflowSignalName];

/** `state:<key>:changed`. */
export const STATE_CHANGED = {
  pattern: /^state:[A-Za-z][A-Za-z0-9_-]{0,63}:changed$/,
  ...spec(
    'machine',
    z.object({ value: z.unknown(), key: text, path: text, oldValue: z.unknown(), newValue: z.unknown(), agent: text }),
    'A key of the state has a new value; `value` is the new one.',
  ),
};

/** First segments that agents cannot use for names of their own. */
const RESERVED = new Set(['daemon', 'supervisor', 'session', 'workflow', 'agent', 'budget', 'state']);

/** May an agent declare this name? */
export function isCustomName(name: string): boolean {
  return !Object.hasOwn(SIGNALS, name) && !RESERVED.has(name.split(':', 1)[0]!);
}

/** What is known of a signal by its name; a name this program does not know is one that agents have declared. */
export function signalSpec(name: string): SignalSpec {
  if (Object.hasOwn(SIGNALS, name)) return SIGNALS[name as keyof typeof SIGNALS];
  if (Object.hasOwn(WORKFLOW_SIGNALS, name)) return WORKFLOW_SIGNALS[name as WorkflowSignalName];
  if (STATE_CHANGED.pattern.test(name)) return STATE_CHANGED;
  return { kind: 'machine', payload: z.record(text, z.unknown()), description: 'Declared by an agent.' };
}
