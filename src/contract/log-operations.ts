import { z } from 'zod';
import { SessionId } from './ids.ts';
import { defineOperation, wholeNumber } from './operation.ts';
import { Session, SessionState } from './session.ts';

const log = { method: 'GET', tag: 'log', role: 'readonly' } as const;

export const logOperations = {
  verifySession: defineOperation({
    ...log,
    id: 'verifySession',
    path: '/session/:id/verify',
    summary: 'Replay the log: fold its inputs with the machine and compare everything the machine says with what is stored.',
    input: z.strictObject({ id: SessionId }),
    output: z.object({
      session: SessionId,
      verified: z.boolean(),
      /** Signals compared and found equal. */
      signals: z.int(),
      digest: z.string(),
      divergence: z.object({ seq: z.int(), what: z.string(), expected: z.unknown(), actual: z.unknown() }).nullable(),
    }),
    errors: ['session_not_found'],
  }),
  sessionStateAt: defineOperation({
    ...log,
    id: 'sessionStateAt',
    path: '/session/:id/state',
    summary: 'The session as it was after a signal, folded from its log; without `at`, as it is.',
    input: z.strictObject({ id: SessionId, at: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional() }),
    output: z.object({
      seq: z.int(),
      at: z.string(),
      state: SessionState,
      value: z.unknown(),
      session: Session,
      /** Context of the statechart. */
      context: z.record(z.string(), z.unknown()),
    }),
    errors: ['session_not_found', 'invalid_cursor'],
  }),
};
