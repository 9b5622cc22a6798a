import { z } from 'zod';

/** input: came from outside and moves the machine. machine: derived by it. effect: work it asked for. stream: not stored. system: the supervisor's and the log's own. */
export const SignalKind = z.enum(['input', 'machine', 'effect', 'stream', 'system']);
export type SignalKind = z.output<typeof SignalKind>;

export const SIGNAL_NAME_PATTERN = /^[a-z][a-z0-9-]*(:[A-Za-z0-9][A-Za-z0-9_.-]*){1,5}$/;
export const SIGNAL_NAME_CHARS_MAX = 128;
export const STREAM_PATTERN = /^(session|workflow):[a-z0-9_]{6,64}$|^daemon$/;

export const SignalSource = z.strictObject({
  kind: SignalKind,
  agent: z.string().optional(),
  session: z.string().optional(),
  workflow: z.string().optional(),
  turn: z.int().min(0).optional(),
  harness: z.string().optional(),
  actor: z.string().optional(),
  client: z.string().optional(),
  parent: z.string().optional(),
  root: z.string(),
  depth: z.int().min(0).max(10_000),
});
export type SignalSource = z.output<typeof SignalSource>;

/** A signal of any stream that something in another stream is put down to. */
export const CauseRef = z.object({ signal: z.string(), root: z.string(), depth: z.int().min(0) });
export type CauseRef = z.output<typeof CauseRef>;

/** One recorded fact. Order is `seq` within a stream and `gseq` over all of them; the timestamp is for people. */
export const Signal = z.strictObject({
  v: z.literal(1),
  id: z.string().regex(/^sig_[a-z0-9]{20}_[0-9]+$/),
  seq: z.int().min(1),
  gseq: z.int().min(1),
  stream: z.string().regex(STREAM_PATTERN),
  name: z.string().max(SIGNAL_NAME_CHARS_MAX).regex(SIGNAL_NAME_PATTERN),
  payload: z.record(z.string(), z.unknown()),
  timestamp: z.iso.datetime(),
  source: SignalSource,
  digest: z
    .string()
    .regex(/^[A-Za-z0-9_-]{43}$/)
    .optional(),
});
export type Signal = z.output<typeof Signal>;

/** A signal as the log takes it: everything but the log-wide number, which is given at append. */
export type SealedSignal = Omit<Signal, 'gseq'>;
