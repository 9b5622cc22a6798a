import { z } from 'zod';
import { Metadata, PromptId, SessionId } from './ids.ts';
import { defineOperation, flag, wholeNumber } from './operation.ts';
import { ATTACHMENTS_MAX, Attachment, Delivery, PROMPT_BODY_BYTES_MAX, PROMPT_CHARS_MAX, PromptAnswer, PromptState } from './session.ts';

const sessionId = { id: SessionId };
const runtime = { tag: 'prompts' } as const;

export const promptOperations = {
  prompt: defineOperation({
    ...runtime,
    id: 'prompt',
    method: 'POST',
    path: '/session/:id/prompt',
    role: 'operator',
    summary: 'Send a user message. Answers when its turn has ended; with `Prefer: respond-async` or ?async=1 at once with 202.',
    input: z.strictObject({
      ...sessionId,
      content: z
        .string()
        .max(PROMPT_CHARS_MAX)
        .refine((text) => text.trim() !== '', 'must not be empty'),
      attachments: z.array(Attachment).max(ATTACHMENTS_MAX).optional(),
      metadata: Metadata.optional(),
      promptId: PromptId.optional(),
      provider: z.string().max(128).optional(),
      model: z.string().max(256).optional(),
      delivery: Delivery.optional(),
      output: z.strictObject({ schema: z.record(z.string(), z.unknown()) }).optional(),
      timeoutMs: wholeNumber(100, 86_400_000).optional(),
      async: flag.optional(),
    }),
    output: PromptAnswer,
    errors: [
      'session_not_found',
      'session_ended',
      'session_busy',
      'turn_open',
      'log_trimmed',
      'id_conflict',
      'unknown_provider',
      'unknown_model',
      'session_quarantined',
      'log_divergence',
      'overloaded',
      'draining',
      'machine_upgraded',
      'turn_timeout',
      'provider_failed',
      'provider_refused',
      'provider_overloaded',
      'provider_timeout',
      'provider_stream_cut',
      'provider_malformed',
      'context_overflow',
      'compaction_failed',
      'output_invalid',
      'prompt_cancelled',
    ],
    bodyBytesMax: PROMPT_BODY_BYTES_MAX,
    queryFields: ['async'],
    wireNames: { promptId: 'id' },
    source: 'spec/native-runtime',
  }),
  getPrompt: defineOperation({
    ...runtime,
    id: 'getPrompt',
    method: 'GET',
    path: '/session/:id/prompt/:promptId',
    role: 'readonly',
    summary: "One prompt's status and, once it has ended, its answer.",
    input: z.strictObject({ ...sessionId, promptId: PromptId }),
    output: PromptState.extend({ answer: PromptAnswer.nullable() }),
    errors: ['session_not_found', 'prompt_not_found'],
  }),
  cancelPrompt: defineOperation({
    ...runtime,
    id: 'cancelPrompt',
    method: 'DELETE',
    path: '/session/:id/prompt/:promptId',
    role: 'operator',
    summary: 'Take a waiting prompt out of the queue.',
    input: z.strictObject({ ...sessionId, promptId: PromptId }),
    output: PromptState,
    errors: ['session_not_found', 'prompt_not_found', 'prompt_not_queued'],
  }),
};
