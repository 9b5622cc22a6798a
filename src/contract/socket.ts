import { z } from 'zod';
import { AskedSession, PromptId } from './ids.ts';
import { Attachment, Delivery, PromptContent } from './session.ts';

const re = { id: z.union([z.string().min(1).max(128), z.int()]) };
const session = { session: AskedSession };

/** What a client may send over `GET /ws`. Every command is answered with `{re: id, ok, …}`. */
export const SocketCommand = z.discriminatedUnion('op', [
  z.strictObject({ ...re, op: z.literal('ping') }),
  z.strictObject({
    ...re,
    ...session,
    op: z.literal('sub'),
    after: z
      .union([z.string(), z.int().min(0)])
      .transform(String)
      .optional(),
    events: z.string().max(4_096).optional(),
    deltas: z.boolean().optional(),
  }),
  z.strictObject({ ...re, ...session, op: z.literal('unsub') }),
  z.strictObject({
    ...re,
    ...session,
    op: z.literal('prompt'),
    content: PromptContent,
    promptId: PromptId.optional(),
    delivery: Delivery.optional(),
    attachments: z.array(Attachment).max(16).optional(),
  }),
  z.strictObject({ ...re, ...session, op: z.literal('abort'), clearQueue: z.boolean().optional() }),
  z.strictObject({
    ...re,
    ...session,
    op: z.literal('approve'),
    approvalId: z.string().min(1).max(256),
    decision: z.enum(['once', 'always', 'deny']),
    message: z.string().max(2_000).optional(),
  }),
  z.strictObject({ ...re, ...session, op: z.literal('bypass'), enabled: z.boolean() }),
]);
export type SocketCommand = z.output<typeof SocketCommand>;
