import { z } from 'zod';
import { AskedSession, SessionId } from './ids.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { ONE_SESSION, WHOLE_WORKSPACE } from './scope.ts';
import { Session, SessionState } from './session.ts';
import { Signal } from './signal.ts';

/**
 * Largest log that is exported or imported in one piece; unit: bytes of its text, about 100,000 signals. An import is one commit, and its
 * text takes up to half of what may wait for the writer of the log; other sessions need the rest.
 */
export const LOG_FILE_BYTES_MAX = 32 * 1_048_576;
/** An import's body is the file's text with a little around it. */
const IMPORT_BODY_BYTES_MAX = 33 * 1_048_576;
/** Values of an import; its signals are parsed in pieces. */
const IMPORT_VALUES_MAX = 1_000_000;

/** First line of a log file. */
export const LogHeader = z.strictObject({
  format: z.literal('signet-log'),
  version: z.literal(1),
  session: SessionId,
  /** The machine that wrote the log. */
  machine: z.object({ id: z.string(), version: z.string(), digest: z.string() }),
  signals: z.int().min(1),
  /** Of the last signal: it stands for the whole file. */
  digest: z.string(),
});
export type LogHeader = z.output<typeof LogHeader>;

/** Any other line: a signal without its log-wide number, which is another one in every workspace. */
export const LogSignal = Signal.omit({ gseq: true }).required({ digest: true });

const Difference = z.object({ path: z.string(), a: z.unknown(), b: z.unknown() });
const SignalPlace = z.object({ seq: z.int(), name: z.string() }).nullable();

const log = { method: 'GET', tag: 'log', role: 'readonly' } as const;

export const logOperations = {
  verifySession: defineOperation({
    ...log,
    id: 'verifySession',
    path: '/session/:id/verify',
    scope: ONE_SESSION,
    summary: 'Replay the log: fold its inputs with the machine and compare everything the machine says with what is stored.',
    input: z.strictObject({ id: AskedSession }),
    output: z.object({
      session: SessionId,
      verified: z.boolean(),
      /** Last signal that was trimmed, 0 when the log is whole: what is verified begins behind it. */
      trimmedTo: z.int(),
      /** Signals compared and found equal. */
      signals: z.int(),
      digest: z.string(),
      /** Versions of the statechart that wrote the log, in order; signals of another version than this program's are not replayed, their digests are checked. */
      machines: z.array(z.object({ version: z.string(), digest: z.string(), fromSeq: z.int(), replayed: z.boolean() })),
      /** `what`: the member that differs, or missing, unreadable, unexpected, refused or checkpoint; `message` says it in a sentence. */
      divergence: z.object({ seq: z.int(), what: z.string(), message: z.string(), expected: z.unknown(), actual: z.unknown() }).nullable(),
    }),
    errors: ['session_not_found'],
  }),
  sessionStateAt: defineOperation({
    ...log,
    id: 'sessionStateAt',
    path: '/session/:id/state',
    scope: ONE_SESSION,
    summary: 'The session as it was after the step that signal `at` belongs to, folded from its log; without `at`, as it is.',
    input: z.strictObject({ id: AskedSession, at: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional() }),
    output: z.object({
      /** Last signal that was folded: the end of the step. */
      seq: z.int(),
      at: z.string(),
      state: SessionState,
      value: z.unknown(),
      session: Session,
      /** Context of the statechart. */
      context: z.record(z.string(), z.unknown()),
    }),
    errors: ['session_not_found', 'invalid_cursor', 'log_trimmed'],
  }),
  diffSessions: defineOperation({
    ...log,
    id: 'diffSessions',
    path: '/session/:id/diff',
    scope: { ...ONE_SESSION, sessions: ['id', 'with'] },
    summary:
      'Where two sessions part: the first signal that differs, then their states. Ids, times and digests do not count; a fork begins with the past of its parent.',
    input: z.strictObject({ id: AskedSession, with: AskedSession }),
    output: z.object({
      a: SessionId,
      b: SessionId,
      equal: z.boolean(),
      /** Signals found equal before the first difference. */
      compared: z.int(),
      /** A side is null when its log has ended. */
      first: z.object({ a: SignalPlace, b: SignalPlace, differences: z.array(Difference) }).nullable(),
      state: z.array(Difference),
    }),
    errors: ['session_not_found', 'log_trimmed'],
  }),
  exportSession: defineOperation({
    ...log,
    id: 'exportSession',
    path: '/session/:id/export',
    scope: ONE_SESSION,
    summary: 'The log as a file: a header, then one signal a line. The same log is the same text, byte for byte, in every workspace.',
    input: z.strictObject({ id: AskedSession }),
    output: z.string(),
    contentType: 'application/x-ndjson; charset=utf-8',
    errors: ['session_not_found', 'payload_too_large', 'log_trimmed'],
  }),
  trimSession: defineOperation({
    ...log,
    id: 'trimSession',
    method: 'POST',
    path: '/session/:id/trim',
    scope: ONE_SESSION,
    role: 'admin',
    summary:
      'Drop the oldest signals of a log whose session is at rest; a checkpoint takes their place, after a proof that the state is the same.',
    input: z
      .strictObject({
        id: SessionId,
        /** Signals before this one go; at least as many stay as are needed to begin with an input. */
        before: wholeNumber(2, Number.MAX_SAFE_INTEGER).optional(),
        /** So many turns stay whole, and all before them goes. */
        keepTurns: wholeNumber(1, 1_000_000).optional(),
      })
      .refine(({ before, keepTurns }) => (before === undefined) !== (keepTurns === undefined), {
        message: 'say either before or keepTurns',
      }),
    output: z.object({
      session: SessionId,
      /** Signals that went; 0 when there was nothing to drop. */
      dropped: z.int(),
      /** Oldest signal the log has now. */
      firstSeq: z.int(),
      head: z.int(),
      /** Of the state, the same before and after; null when nothing was dropped. */
      stateDigest: z.string().nullable(),
    }),
    errors: ['session_not_found', 'turn_open', 'draining', 'session_fenced', 'storage_failed', 'log_divergence', 'overloaded'],
  }),
  importSession: defineOperation({
    ...log,
    id: 'importSession',
    method: 'POST',
    path: '/session/import',
    scope: WHOLE_WORKSPACE,
    role: 'admin',
    summary:
      'Take in an exported session that is idle or ended, under its own id. Every signal is checked; nothing is stored unless all are right.',
    input: z.strictObject({ header: LogHeader, signals: z.array(z.unknown()).min(1) }),
    output: z.object({ session: Session, signals: z.int(), digest: z.string() }),
    errors: ['invalid_request', 'id_conflict', 'turn_open', 'overloaded', 'draining', 'storage_failed'],
    status: 201,
    bodyBytesMax: IMPORT_BODY_BYTES_MAX,
    bodyValuesMax: IMPORT_VALUES_MAX,
  }),
};
