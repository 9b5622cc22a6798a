import { z } from 'zod';
import { AskingAgent } from './ids.ts';
import { defineOperation } from './operation.ts';
import { NEUTRAL, ONE_AGENT } from './scope.ts';

/** Longest MEMORY.md in characters. */
export const MEMORY_FILE_CHARS_MAX = 200_000;

export const SynthesisSchedule = z.enum(['daily', 'weekly', 'on-demand']);
export type SynthesisSchedule = z.output<typeof SynthesisSchedule>;

/** The configuration in force, under its own names and those existing clients read. */
export const SynthesisSettings = z.object({
  enabled: z.boolean(),
  harness: z.string(),
  /** Provider of the daemon's own worker; null when none is configured. */
  provider: z.string().nullable(),
  model: z.string(),
  schedule: SynthesisSchedule,
  max_tokens: z.int(),
  maxTokens: z.int(),
  /** Longest model call of the daemon's own worker, in ms. */
  timeout: z.int(),
});
export type SynthesisSettings = z.output<typeof SynthesisSettings>;

/** Driven by a scheduler, not by a session: bypass does not touch these. */
const synthesis = { tag: 'hooks', role: 'agent', unknownFields: 'ignore', source: 'spec/hooks' } as const;

export const synthesisOperations = {
  hookSynthesis: defineOperation({
    ...synthesis,
    id: 'hookSynthesis',
    method: 'POST',
    path: '/api/hooks/synthesis',
    scope: ONE_AGENT,
    summary: 'The prompt from which a model writes MEMORY.md anew.',
    input: z.object({ trigger: z.enum(['scheduled', 'manual']).optional().catch(undefined), agentId: AskingAgent }),
    output: z.object({
      harness: z.string(),
      model: z.string(),
      prompt: z.string(),
      memories: z.array(
        z.object({ id: z.string(), content: z.string(), type: z.string(), importance: z.number(), created_at: z.string() }),
      ),
      /** Summaries of sessions in the prompt. */
      fileCount: z.int(),
      /** Of the MEMORY.md the prompt was made from; synthesis/complete refuses an older one. */
      generation: z.int(),
    }),
    errors: ['agent_not_found', 'workspace_unwritable'],
  }),
  hookSynthesisComplete: defineOperation({
    ...synthesis,
    id: 'hookSynthesisComplete',
    method: 'POST',
    path: '/api/hooks/synthesis/complete',
    scope: ONE_AGENT,
    summary: 'Write MEMORY.md: the old one is kept as a backup, the new one begins with a line that says when it was made.',
    input: z.object({
      content: z
        .string({ error: 'content is required' })
        .max(MEMORY_FILE_CHARS_MAX, { error: `content must be at most ${MEMORY_FILE_CHARS_MAX} characters, the longest MEMORY.md` }),
      agentId: AskingAgent,
      generation: z.int().min(0).optional(),
    }),
    output: z.object({
      success: z.literal(true),
      generation: z.int(),
      /** Path of the backup within the workspace; null when there was nothing to keep. */
      backup: z.string().nullable(),
    }),
    errors: ['agent_not_found', 'invalid_request', 'synthesis_busy', 'version_conflict', 'workspace_unwritable'],
  }),
  hookSynthesisConfig: defineOperation({
    ...synthesis,
    id: 'hookSynthesisConfig',
    method: 'GET',
    path: '/api/hooks/synthesis/config',
    scope: NEUTRAL,
    summary: 'The configuration of the synthesis in force.',
    input: z.object({}),
    output: SynthesisSettings,
    errors: [],
  }),
  triggerSynthesis: defineOperation({
    ...synthesis,
    id: 'triggerSynthesis',
    method: 'POST',
    path: '/api/synthesis/trigger',
    scope: ONE_AGENT,
    role: 'operator',
    summary: 'Queue a synthesis by the daemon itself, now.',
    input: z.object({ agentId: AskingAgent }),
    output: z.object({
      success: z.literal(true),
      /** True when one was queued already. */
      skipped: z.boolean(),
      jobId: z.string(),
    }),
    errors: ['agent_not_found', 'overloaded'],
    source: 'ours',
  }),
  synthesisStatus: defineOperation({
    ...synthesis,
    id: 'synthesisStatus',
    method: 'GET',
    path: '/api/synthesis/status',
    scope: ONE_AGENT,
    role: 'readonly',
    summary: 'When MEMORY.md was last written, and whether it is being written now.',
    input: z.object({ agentId: AskingAgent }),
    output: z.object({
      running: z.boolean(),
      lastRunAt: z.string().nullable(),
      generation: z.int(),
      config: SynthesisSettings,
    }),
    errors: [],
    source: 'ours',
  }),
};
