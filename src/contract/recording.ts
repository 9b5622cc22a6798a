import { z } from 'zod';
import { ErrorCode } from './errors.ts';
import { AgentName, SessionId } from './ids.ts';
import { Usage } from './provider.ts';

export const RecordingMode = z.enum(['live', 'record', 'replay', 'auto']);
export type RecordingMode = z.output<typeof RecordingMode>;

/** What becomes of a call that was not recorded. */
export const RecordingMismatch = z.enum(['strict', 'ordinal', 'passthrough']);
export type RecordingMismatch = z.output<typeof RecordingMismatch>;

/** `signals.recording` of agent.yaml. */
export const RecordingConfig = z.strictObject({
  mode: RecordingMode.default('live').describe(
    'live: no recording; record: calls are made and kept; replay: calls are answered from the file; auto: those that were kept are, the others are made and kept',
  ),
  path: z.string().min(1).optional().describe('The file, from the workspace; every mode but live needs one'),
  mismatch: RecordingMismatch.default('strict').describe(
    'A call that was not recorded. strict: it fails and says what differs; ordinal: the next outcome of its turn answers it; passthrough: it is made',
  ),
});
export type RecordingConfig = z.output<typeof RecordingConfig>;

const RecordedProvider = z.strictObject({ id: z.string(), kind: z.string(), model: z.string(), default: z.boolean() });
export type RecordedProvider = z.output<typeof RecordedProvider>;

/** First line of a recording. */
export const RecordingHeader = z.strictObject({
  format: z.literal('signet-recording'),
  version: z.literal(1),
  id: z.string().regex(/^[a-z0-9_]{6,64}$/),
  /** Providers there were, so that a replay needs none of their keys. */
  providers: z.array(RecordedProvider),
});
export type RecordingHeader = z.output<typeof RecordingHeader>;

const RecordedError = z.strictObject({ code: ErrorCode, detail: z.string(), retryAfterMs: z.number().optional() });
export type RecordedError = z.output<typeof RecordedError>;

/** The session stopped the call before it had an outcome. */
const Aborted = z.strictObject({ aborted: z.literal(true) });
const Failed = z.strictObject({ error: RecordedError });

const Result = z.strictObject({
  content: z.string(),
  thinking: z.array(z.strictObject({ type: z.literal('thinking'), text: z.string(), signature: z.string().optional() })).optional(),
  toolCalls: z
    .array(z.strictObject({ id: z.string(), name: z.string(), input: z.unknown(), inputError: z.string().optional() }))
    .optional(),
  stopReason: z.enum(['end_turn', 'tool_use', 'max_tokens', 'stop_sequence', 'refusal']),
  usage: Usage,
  model: z.string(),
});

/** What came before the end of a stream, in order. */
const chunks = z.array(z.tuple([z.enum(['text', 'thinking']), z.string()]));
export const ModelOutcome = z.union([
  z.strictObject({ chunks, result: Result }),
  z.strictObject({ chunks, error: RecordedError }),
  z.strictObject({ chunks, aborted: z.literal(true) }),
]);
export type ModelOutcome = z.output<typeof ModelOutcome>;

export const ToolOutcome = z.union([
  z.strictObject({
    output: z.string(),
    isError: z.boolean(),
    error: z.strictObject({ code: z.string(), message: z.string() }).optional(),
    bytes: z.int().min(0),
    truncated: z.literal(true).optional(),
  }),
  Aborted,
]);
export type ToolOutcome = z.output<typeof ToolOutcome>;

export const HookOutcome = z.union([z.strictObject({ reply: z.record(z.string(), z.unknown()) }), Failed, Aborted]);
export type HookOutcome = z.output<typeof HookOutcome>;

const call = {
  /** sha256 of kind and request. */
  key: z.string().regex(/^[0-9a-f]{64}$/),
  agent: AgentName,
  session: SessionId,
  /** `t1`: the first turn; `c1`: the first compaction; `start` and `end` of the session. */
  turn: z.string(),
  request: z.record(z.string(), z.unknown()),
};

/** Any other line: one call that left the process, and how it ended. */
export const RecordedEffect = z.discriminatedUnion('kind', [
  z.strictObject({ ...call, kind: z.literal('model'), outcome: ModelOutcome }),
  z.strictObject({ ...call, kind: z.literal('tool'), outcome: ToolOutcome }),
  z.strictObject({ ...call, kind: z.literal('hook'), outcome: HookOutcome }),
]);
export type RecordedEffect = z.output<typeof RecordedEffect>;
