import { z } from 'zod';
import { SynthesisSchedule } from './synthesis.ts';

/** The sections of `memory:` in agent.yaml that concern transcripts and background work. */

export const ExtractionConfig = z.strictObject({
  enabled: z.boolean().default(true).describe('Queue jobs that take facts and a summary out of ended sessions; raw turns are kept anyway'),
  delayMs: z
    .int()
    .min(0)
    .max(86_400_000)
    .default(30_000)
    .describe('How long an ended session rests before its jobs run, so that one that goes on at once is read once'),
});

export const TranscriptsConfig = z.strictObject({
  roots: z
    .array(z.string().min(1).max(4_096))
    .max(32)
    .default([])
    .describe('Further folders that transcript files may be read from; a path is absolute or begins with ~/'),
});

export const SynthesisConfig = z.strictObject({
  enabled: z.boolean().default(true).describe('The daemon itself writes MEMORY.md anew on the schedule, when a provider is configured'),
  harness: z.string().min(1).max(128).default('signet').describe('Harness that runs the synthesis; signet is the daemon itself'),
  model: z.string().min(1).max(256).optional().describe('Model that runs the synthesis, as the harness names it'),
  schedule: SynthesisSchedule.default('daily').describe('How often MEMORY.md is written anew'),
  max_tokens: z.int().min(256).max(100_000).default(4_000).describe('Tokens MEMORY.md may have'),
});
export type SynthesisConfig = z.output<typeof SynthesisConfig>;
