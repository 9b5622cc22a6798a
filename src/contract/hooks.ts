import { z } from 'zod';
import { CrossAgentMessage } from './cross-agent.ts';
import { AskingAgent } from './ids.ts';
import { MemoryFields, RecalledMemory, RecallFilters } from './memory.ts';
import { defineOperation, flag } from './operation.ts';
import { MEMORIES } from './scope.ts';

/** Harness assumed when a client names none. */
export const HARNESS_UNNAMED = 'sdk';

/** Larger than any model's; unit: tokens. */
const CONTEXT_TOKENS_MAX = 100_000_000;

/** Empty strings are how shell hooks say "unknown". */
const optionalText = (charsMax: number) =>
  z
    .string()
    .max(charsMax)
    .nullish()
    .transform((text) => text || undefined);

/** Fields every hook call may carry. */
const caller = {
  harness: z
    .string()
    .max(128)
    .default(HARNESS_UNNAMED)
    .transform((name) => name || HARNESS_UNNAMED),
  sessionKey: optionalText(512),
  /** Alias of sessionKey in some clients. */
  sessionId: optionalText(512),
  agentId: AskingAgent,
  project: optionalText(4_096),
  /** Empty is none; any other word is refused, since the claim of a session goes by it. */
  runtimePath: z
    .enum(['plugin', 'legacy', ''], { error: 'must be plugin or legacy' })
    .nullish()
    .transform((path) => path || undefined),
  /** Which of several sessions under one key is calling; the claim stays until the last of them has ended. */
  holder: optionalText(512),
};

export const HookMemory = z.object({
  id: z.string(),
  content: z.string(),
  type: z.string(),
  importance: z.number(),
  created_at: z.string(),
});

/** An identity file that did not fit; unit: characters. */
export const CutFile = z.object({
  file: z.string(),
  given: z.int(),
  of: z.int(),
  /** Where the whole file is. */
  path: z.string(),
});
export type CutFile = z.output<typeof CutFile>;

const ShownMessage = CrossAgentMessage.pick({
  id: true,
  type: true,
  fromAgentId: true,
  fromSessionKey: true,
  broadcast: true,
  createdAt: true,
});

/** Lenient towards clients that exist: unknown fields are ignored. */
const hook = { method: 'POST', tag: 'hooks', role: 'agent', unknownFields: 'ignore', source: 'spec/hooks' } as const;
/** A key that nobody has used begins a session of the caller's. */
const HOOK_SCOPE = { ...MEMORIES, keys: ['sessionKey', 'sessionId'] } as const;
const bypassed = z.literal(true).optional();

/** What was said, kept raw. */
/** Largest body with a transcript in it. A longer one goes by `transcriptPath`. */
const TRANSCRIPT_BODY_BYTES_MAX = 16 * 1_048_576;
/** Values of a transcript: three a turn. */
const TRANSCRIPT_VALUES_MAX = 100_000;

const spoken = {
  /** A transcript file of the harness; see memory.transcripts.roots for where it may lie. */
  transcriptPath: optionalText(4_096),
  /** Turns of a session that has no transcript file. */
  transcript: z
    .array(z.object({ role: z.string().max(64), content: z.string(), at: z.string().max(64).optional() }))
    .max(100_000)
    .optional(),
};

/** What became of it: turns that are new, turns of the session in all, and why a file was not read or not read whole. */
const KeptTranscript = z.object({ stored: z.int(), total: z.int(), problem: z.string().optional() });

export const hookOperations = {
  hookSessionStart: defineOperation({
    ...hook,
    id: 'hookSessionStart',
    path: '/api/hooks/session-start',
    scope: { ...HOOK_SCOPE, keys: ['sessionKey', 'sessionId', 'parentSessionKey'] },
    summary: 'A session begins: identity, memories and recent context as text for the system prompt.',
    input: z.object({
      ...caller,
      harnessAgentId: optionalText(512),
      parentSessionKey: optionalText(512),
      context: optionalText(100_000),
      /** The session goes on after an end or a compaction: its checkpoint is loaded. */
      resume: z.boolean().optional(),
      /** The session begins bypassed: this hook already says nothing. */
      bypass: z.boolean().optional(),
      /** Context window of the model that gets the inject as a whole: identity files then have a share of it, not what the harness takes. */
      contextTokens: z.int().min(1_000).max(CONTEXT_TOKENS_MAX).optional(),
    }),
    output: z.object({
      identity: z.object({ name: z.string(), description: z.string().optional() }).optional(),
      memories: z.array(HookMemory),
      recentContext: z.string().optional(),
      inject: z.string(),
      /** Identity files that stand in the inject only in part; left out when all are whole. */
      truncated: z.array(CutFile).optional(),
      /** The same as inject, under its older name. */
      context: z.string(),
      sessionKey: z.string().optional(),
      /** The same as sessionKey, under its older name. */
      sessionId: z.string().optional(),
      bypassed,
    }),
    errors: ['session_claimed'],
  }),
  hookUserPromptSubmit: defineOperation({
    ...hook,
    id: 'hookUserPromptSubmit',
    path: '/api/hooks/user-prompt-submit',
    scope: HOOK_SCOPE,
    summary: 'Before each user turn: date, Memory Check guidance and what recall found.',
    input: z
      .object({
        ...caller,
        userMessage: optionalText(1_000_000),
        userPrompt: optionalText(1_000_000),
        prompt: optionalText(1_000_000),
        lastAssistantMessage: optionalText(1_000_000),
        memory_feedback: z.record(z.string(), z.number().min(-1).max(1)).optional(),
        /** Names the turn: the same again is told the same messages of other agents, as when an answer was lost. */
        turnKey: optionalText(600),
        /** With turnKey: messages of earlier turns that arrived; the others are told again. */
        heardMessages: z.array(z.string().max(64)).max(1_000).optional(),
      })
      .refine((input) => input.userMessage?.trim() || input.userPrompt?.trim() || input.prompt?.trim(), {
        path: ['userMessage'],
        message: 'userMessage (or userPrompt, or prompt) is required',
      }),
    output: z.object({
      inject: z.string(),
      /** Why the memories were found by words alone although an embedder is configured. */
      degraded: z.string().optional(),
      memoryCount: z.int(),
      memories: z.array(HookMemory.extend({ score: z.number() })),
      /** False when nothing matched well: the inject says so. */
      strong: z.boolean(),
      queryTerms: z.array(z.string()),
      engine: z.string(),
      /** Messages of other agents that stand in the inject. */
      messages: z.array(ShownMessage).optional(),
      bypassed,
    }),
    errors: ['session_claimed'],
  }),
  hookSessionEnd: defineOperation({
    ...hook,
    id: 'hookSessionEnd',
    path: '/api/hooks/session-end',
    scope: HOOK_SCOPE,
    summary: 'A session ends: its claim is released, its transcript kept. Ending twice is fine.',
    input: z.object({
      ...caller,
      ...spoken,
      cwd: optionalText(4_096),
      reason: optionalText(256),
      /** false: the transcript is kept, and no model reads it afterwards. */
      background: flag.optional(),
    }),
    output: z.object({
      memoriesSaved: z.int(),
      /** Its turns wait to be read by a model. */
      queued: z.boolean().optional(),
      jobId: z.string().optional(),
      transcript: KeptTranscript.optional(),
      bypassed,
    }),
    errors: [],
    bodyBytesMax: TRANSCRIPT_BODY_BYTES_MAX,
    bodyValuesMax: TRANSCRIPT_VALUES_MAX,
  }),
  hookRemember: defineOperation({
    ...hook,
    id: 'hookRemember',
    path: '/api/hooks/remember',
    scope: HOOK_SCOPE,
    summary: 'Store a memory for a session. Silent under bypass.',
    input: z.object({ ...MemoryFields, ...caller }),
    output: z.object({
      saved: z.boolean(),
      success: z.literal(true),
      id: z.string(),
      deduped: z.boolean().optional(),
      memories: z.array(z.never()).optional(),
      bypassed,
    }),
    errors: ['session_claimed', 'memory_not_found', 'storage_failed'],
  }),
  hookRecall: defineOperation({
    ...hook,
    id: 'hookRecall',
    path: '/api/hooks/recall',
    scope: HOOK_SCOPE,
    summary: 'Search memories for a session. Silent under bypass.',
    input: z.object({ ...RecallFilters, ...caller }),
    output: z.object({
      results: z.array(RecalledMemory),
      memories: z.array(RecalledMemory),
      count: z.int(),
      /** The results as text, one a line. */
      message: z.string(),
      strong: z.boolean(),
      method: z.string(),
      /** Why it is not the method that was configured. */
      degraded: z.string().optional(),
      bypassed,
    }),
    errors: ['session_claimed'],
  }),
  hookPreCompaction: defineOperation({
    ...hook,
    id: 'hookPreCompaction',
    path: '/api/hooks/pre-compaction',
    scope: HOOK_SCOPE,
    summary: 'Before context is compacted: the instruction for the summary.',
    input: z.object({ ...caller, sessionContext: optionalText(1_000_000), messageCount: z.int().min(0).optional() }),
    output: z.object({
      summaryPrompt: z.string(),
      guidelines: z.string(),
      /** The same as summaryPrompt, under its older name. */
      instructions: z.string(),
      bypassed,
    }),
    errors: ['session_claimed'],
  }),
  hookCompactionComplete: defineOperation({
    ...hook,
    id: 'hookCompactionComplete',
    path: '/api/hooks/compaction-complete',
    scope: HOOK_SCOPE,
    summary: 'After compaction: the summary becomes a session_summary memory and a node of the temporal graph.',
    input: z.object({ ...caller, ...spoken, summary: z.string().trim().min(1).max(1_000_000) }),
    output: z.object({
      success: z.literal(true),
      memoryId: z.string().optional(),
      transcript: KeptTranscript.optional(),
      /** The summary is longer than a memory may otherwise be; it is kept whole all the same. */
      warning: z.string().optional(),
      bypassed,
    }),
    errors: ['session_claimed', 'storage_failed'],
    bodyBytesMax: TRANSCRIPT_BODY_BYTES_MAX,
    bodyValuesMax: TRANSCRIPT_VALUES_MAX,
  }),
};
