import { z } from 'zod';

/** Stop sequences of one call; APIs take four or more. */
const STOP_SEQUENCES_MAX = 16;
const STOP_SEQUENCE_CHARS_MAX = 256;
/** Above what any model writes in one answer; unit: tokens. */
const ANSWER_TOKENS_MAX = 10_000_000;

/**
 * How a model is asked to write its answer. The same fields, all optional, stand in a prompt, a session, an agent of the roster, a provider
 * and `runtime:`; for each field the first of them that has it counts.
 */
export const GenerationFields = {
  temperature: z.number().min(0).max(2).optional().describe('Randomness of the answer; what a model takes ends at 1 or at 2'),
  topP: z.number().min(0).max(1).optional().describe('Share of the likeliest tokens that are chosen from'),
  maxTokens: z
    .int()
    .min(1)
    .max(ANSWER_TOKENS_MAX)
    .optional()
    .describe('Tokens an answer may have; absent means as many as the model can write and its context window has room for'),
  stopSequences: z
    .array(z.string().min(1).max(STOP_SEQUENCE_CHARS_MAX))
    .max(STOP_SEQUENCES_MAX)
    .optional()
    .describe('Texts that end the answer and are not part of it; [] means none'),
  thinkingTokens: z.int().min(0).max(ANSWER_TOKENS_MAX).optional().describe('Tokens of extended thinking per model call; 0 asks for none'),
};

export const Generation = z.strictObject(GenerationFields);
export type Generation = z.output<typeof Generation>;

/** The same for a change: null takes a setting away. */
export const GenerationChangeFields = {
  temperature: GenerationFields.temperature.nullable(),
  topP: GenerationFields.topP.nullable(),
  maxTokens: GenerationFields.maxTokens.nullable(),
  stopSequences: GenerationFields.stopSequences.nullable(),
  thinkingTokens: GenerationFields.thinkingTokens.nullable(),
};

export type GenerationChange = { readonly [K in keyof Generation]?: Generation[K] | null | undefined };
