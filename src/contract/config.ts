import { z } from 'zod';
import { NewAgentName, OpenclawConfig, PolicyGroup, ReadPolicy } from './agent-config.ts';
import { AuthConfig, SecretsConfig } from './auth-config.ts';
import { CrossAgentConfig } from './cross-agent-config.ts';
import { EmbeddingConfig } from './embedding-config.ts';
import { GenerationFields } from './generation.ts';
import { AgentName, ToolName } from './ids.ts';
import { ExtractionConfig, SynthesisConfig, TranscriptsConfig } from './jobs-config.ts';
import { plainUrl } from './plain-url.ts';
import { Price } from './provider.ts';
import { RecordingConfig } from './recording.ts';
import { McpServer, TOOL_TIMEOUT_MS_MAX, ToolClass } from './tool.ts';
import { ReactiveAgent, WorkflowName } from './workflow.ts';
import { WorkflowEntry } from './workflow-operations.ts';

/** agent.yaml as the daemon reads it. Unknown keys are refused with file, line, column and the nearest valid key. docs/configuration.md is generated from here. */

export const ProviderKind = z.enum(['anthropic', 'openai', 'openai-compatible', 'demo']);

export const ModelConfig = z.strictObject({
  contextTokens: z.int().min(1_000).optional().describe('Tokens the model takes in'),
  outputTokensMax: z.int().min(1).optional().describe('Tokens an answer may have'),
  price: Price.optional().describe('US dollars per million tokens'),
  thinking: z.boolean().optional().describe('The model can think at length'),
  images: z.boolean().optional().describe('The model takes images'),
});

export const ProviderConfig = z.strictObject({
  kind: ProviderKind.describe('Wire protocol'),
  apiKeyEnv: z.string().optional().describe('Name of the environment variable that holds the key'),
  apiKey: z.string().optional().describe('The key itself; apiKeyEnv is the safer way'),
  baseUrl: plainUrl().optional().describe('Where the provider answers'),
  model: z.string().optional().describe('Model when a session names none'),
  stallTimeoutMs: z.int().min(100).max(600_000).optional().describe('Longest time without a part of the answer, pings not counted'),
  headers: z.record(z.string(), z.string()).optional().describe('Additional request headers'),
  models: z.record(z.string(), ModelConfig).optional().describe('Limits and prices that override the built-in table'),
  ...GenerationFields,
});
export type ProviderConfig = z.output<typeof ProviderConfig>;

export const ModelChoice = z.strictObject({ provider: z.string().optional(), model: z.string().optional() });
export type ModelChoice = z.output<typeof ModelChoice>;

/** Texts an approval rule looks at in the input of a call; a tool has few. */
const RULE_INPUTS_MAX = 16;
const RULE_TEXT_CHARS_MAX = 512;
/** Agents that others may begin sessions of; a roster has few. */
const SPAWN_AGENTS_MAX = 1_000;
/** Agents that may use secrets; a roster has few. */
const SECRET_AGENTS_MAX = 1_000;

export const ApprovalRule = z.strictObject({
  tool: z.string().describe('Tool name; * stands for any run of characters'),
  agent: AgentName.optional().describe('Only for this agent'),
  input: z
    .record(
      z.string().min(1).max(RULE_TEXT_CHARS_MAX).describe('options.force or /options/force'),
      z.union([z.string().max(RULE_TEXT_CHARS_MAX), z.number(), z.boolean()]),
    )
    .refine((fields) => Object.keys(fields).length >= 1 && Object.keys(fields).length <= RULE_INPUTS_MAX, {
      message: `must name 1 to ${RULE_INPUTS_MAX} fields of the input`,
    })
    .optional()
    .describe('Only for calls whose input has these values, all of them; in a text * stands for any run of characters'),
  decision: z.enum(['allow', 'ask', 'deny']),
  onExpiry: z.enum(['deny', 'allow']).optional().describe('What silence means for this rule; overrides approvalExpiry'),
});
export type ApprovalRule = z.output<typeof ApprovalRule>;

export const RetentionConfig = z.strictObject({
  keepTurns: z
    .int()
    .min(1)
    .max(1_000_000)
    .optional()
    .describe('Signals of older turns are trimmed from logs of sessions at rest; messages stay. Absent means all are kept'),
  sessionDays: z
    .int()
    .min(1)
    .max(36_500)
    .optional()
    .describe('Days after which an ended session is forgotten, log and messages. Absent means never'),
});
export type RetentionConfig = z.output<typeof RetentionConfig>;

export const TelemetryConfig = z.strictObject({
  otlpEndpoint: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('OpenTelemetry collector that gets a span of each turn, model call, tool call and hook, by OTLP over HTTP'),
  content: z.boolean().default(false).describe('Spans carry prompts, answers, and inputs and outputs of tools as well'),
});
export type TelemetryConfig = z.output<typeof TelemetryConfig>;

/** Prompts that wait are kept in memory, and their commands in a queue of 1,024. */
const MAILBOX_TURNS_MAX = 1_000;

const ms = (min: number, max: number, value: number) => z.int().min(min).max(max).default(value);

export const RuntimeLimits = z.strictObject({
  sessionsMax: z.int().min(1).default(100_000).describe('Sessions that may be in memory at once'),
  agentSessionsMax: z.int().min(1).optional().describe('The same for one agent; absent means as many as there may be'),
  childrenMax: z.int().min(1).max(10_000).default(64).describe('Child sessions of one session that may be open at once'),
  childDepthMax: z.int().min(1).max(16).default(4).describe('Generations of child sessions below a session'),
  mailboxTurnsMax: z.int().min(1).max(MAILBOX_TURNS_MAX).default(16).describe('Prompts a session may hold while it is busy'),
  providerCallsMax: z.int().min(1).default(64).describe('Model calls at once, over all sessions; those that wait go agent by agent'),
  agentProviderCallsMax: z.int().min(1).optional().describe('The same for one agent; absent means as many as there may be'),
  toolCallsMax: z.int().min(1).max(64).default(8).describe('Tool calls at once in one session'),
  roundsMax: z.int().min(1).max(1_000).default(50).describe('Model calls in one turn'),
  attemptsMax: z.int().min(1).max(10).default(3).describe('Attempts of one model call'),
  turnTimeoutMs: ms(1_000, 86_400_000, 1_800_000).describe('Longest turn'),
  toolTimeoutMs: ms(1, TOOL_TIMEOUT_MS_MAX, 60_000).describe('Longest tool call'),
  toolArrivalMs: ms(0, 86_400_000, 600_000).describe(
    'How long a call waits for a tool of an MCP server that has not answered since the start; the turn may end it earlier',
  ),
  toolOutputBytesMax: z.int().min(256).max(10_485_760).default(65_536).describe('Tool output beyond this is cut, and says so'),
  researchTimeoutMs: ms(10, 60_000, 5_000).describe('Budget of the research phase'),
  startTimeoutMs: ms(10, 60_000, 3_000).describe('Budget of the session-start hook'),
  endTimeoutMs: ms(10, 120_000, 15_000).describe('Budget of the session-end hook'),
  abortGraceMs: ms(10, 60_000, 5_000).describe('How long aborted work may take to settle'),
  stuckGraceMs: ms(100, 600_000, 30_000).describe(
    'A busy state that lasts so much longer than its budget is a bug; its session is restarted',
  ),
  eventLoopDelayMsMax: ms(10, 60_000, 1_000).describe('New work is refused while the event loop is later than this on average'),
  approvalTimeoutMs: ms(100, 86_400_000, 300_000).describe('How long an approval waits for a decision'),
  idleTtlMs: ms(1_000, 86_400_000, 1_200_000).describe('An idle session leaves memory after this'),
  drainTimeoutMs: ms(100, 120_000, 10_000).describe('How long running turns get at shutdown'),
  backoffMs: ms(1, 60_000, 500).describe('First wait before a model call is tried again'),
  retryAfterMsMax: ms(1, 600_000, 60_000).describe(
    'Longest wait a provider may ask for; at more the fallback is next at once, or the turn fails with `provider_overloaded`',
  ),
  outputTokensMax: z
    .int()
    .min(1)
    .optional()
    .describe('Most tokens any answer may have, whatever is asked for; absent means as many as the model can write'),
  compactAtShare: z
    .number()
    .min(0.05)
    .max(0.98)
    .default(0.8)
    .describe('Share of the context window at which the conversation is compacted'),
  contextTokensMax: z.int().min(1_000).default(200_000).describe('Context window of a model whose own is not known'),
});
export type RuntimeLimits = z.output<typeof RuntimeLimits>;

/** US dollars and tokens that background work may use a day when the configuration names no others. */
const BACKGROUND_DAILY_USD = 1;
const BACKGROUND_DAILY_TOKENS = 2_000_000;

export const BackgroundConfig = z.strictObject({
  provider: z.string().optional().describe('Provider of background jobs; the default provider when left out'),
  model: z.string().optional().describe('Model of background jobs, a cheap one will do; runtime.routing goes before it'),
  dailyUsd: z
    .number()
    .min(0)
    .default(BACKGROUND_DAILY_USD)
    .describe('US dollars background jobs may cost a day (UTC); when they are spent, jobs wait for the next day. 0 stops them'),
  dailyTokens: z
    .int()
    .min(0)
    .default(BACKGROUND_DAILY_TOKENS)
    .describe('Tokens background jobs may use a day, for models without a known price as well. 0 stops them'),
  workflows: z.boolean().default(false).describe('Sessions of workflow activations are also read for memories and rated'),
});
export type BackgroundConfig = z.output<typeof BackgroundConfig>;

export const RuntimeConfig = z.strictObject({
  host: z.string().optional().describe('Address the runtime binds to; loopback when left out, whatever daemon.host says'),
  port: z.int().min(0).max(65_535).optional().describe('Port of the runtime; 0 takes any free one'),
  default: z.string().optional().describe('Provider that answers when a session names none'),
  model: z.string().optional().describe('Model of the default provider'),
  providers: z.record(z.string(), ProviderConfig).default({}).describe('Providers by name'),
  routing: z
    .strictObject({
      compaction: ModelChoice.optional().describe('Model that writes summaries'),
      extraction: ModelChoice.optional().describe('Model that takes facts out of ended sessions and rates them; a cheap one will do'),
      synthesis: ModelChoice.optional().describe('Model that condenses summaries and writes MEMORY.md'),
    })
    .default({})
    .describe('Other models for other tasks'),
  background: BackgroundConfig.prefault({}).describe('Work that nobody waits for: facts, ratings, summaries of summaries, MEMORY.md'),
  fallback: z.array(ModelChoice).max(8).default([]).describe('Tried in turn when the attempts of a model call are used up'),
  ...GenerationFields,
  thinkingTokens: GenerationFields.thinkingTokens
    .unwrap()
    .default(0)
    .describe('Tokens of extended thinking per model call; 0 asks for none'),
  approvals: z
    .array(ApprovalRule)
    .default([])
    .describe('First rule that fits decides; without one a tool runs unless it was registered as needing approval'),
  approvalExpiry: z
    .enum(['deny', 'allow'])
    .default('deny')
    .describe('What it means when nobody decides an approval within limits.approvalTimeoutMs'),
  mcpServers: z
    .record(ToolName, McpServer.omit({ mcpServer: true }).extend({ url: plainUrl({ protocol: /^https?$/ }).optional() }))
    .default({})
    .describe('MCP servers whose tools sessions may use'),
  spawn: z
    .strictObject({
      agents: z
        .array(AgentName)
        .max(SPAWN_AGENTS_MAX)
        .default([])
        .describe(
          'Agents besides its own that any session may begin child sessions of; such a child reads the private memories of its agent',
        ),
    })
    .prefault({})
    .describe('What the tool spawn_session may do'),
  secretTools: z
    .strictObject({
      agents: z
        .array(AgentName)
        .max(SECRET_AGENTS_MAX)
        .default([])
        .describe('Agents whose sessions may use secret_list and secret_exec, that is run commands with any stored secret'),
    })
    .prefault({})
    .describe('Who may use secrets in sessions of the runtime'),
  toolClasses: z.record(z.string(), ToolClass).default({}).describe('Class of a tool by name, where the tool itself does not know better'),
  limits: RuntimeLimits.prefault({}),
});
export type RuntimeConfig = z.output<typeof RuntimeConfig>;

export const AgentLimits = z.strictObject({
  providerCallsMax: z.int().min(1).optional().describe('Model calls at once; overrides runtime.limits.agentProviderCallsMax'),
  sessionsMax: z.int().min(1).optional().describe('Sessions in memory at once; overrides runtime.limits.agentSessionsMax'),
});
export type AgentLimits = z.output<typeof AgentLimits>;

/** Who may see a memory whose writer does not say. */
const DefaultVisibility = z.enum(['global', 'private']);

export const AgentEntry = z.strictObject({
  name: NewAgentName,
  model: z.string().optional().describe('Model of this agent'),
  provider: z.string().optional().describe('Provider of this agent'),
  ...GenerationFields,
  skills: z.array(z.string()).optional().describe('Allowed skills; absent means all, [] means none'),
  personality: z.string().optional().describe('Path of its SOUL.md'),
  read_policy: ReadPolicy.optional().describe('Whose global memories it sees beside its own; absent means shared: those of all agents'),
  policy_group: PolicyGroup.optional().describe('With `read_policy: group`: sees global memories of the agents of this group'),
  limits: AgentLimits.optional().describe('Limits of this agent alone'),
  memory: z
    .strictObject({
      defaultVisibility: DefaultVisibility.optional().describe(
        'Of memories this agent writes without a visibility; overrides memory.defaultVisibility',
      ),
    })
    .optional()
    .describe('How this agent remembers'),
  reactive: ReactiveAgent.optional().describe('What it reacts to when it takes part in a workflow'),
});

export const HooksConfig = z.strictObject({
  sessionStart: z
    .strictObject({
      recallLimit: z.int().min(0).max(100).default(10).describe('Memories in the inject'),
      includeIdentity: z.boolean().default(true).describe('Put the identity files into the inject'),
      includeRecentContext: z.boolean().default(true).describe('Put MEMORY.md into the inject'),
      recencyBias: z.number().min(0).max(1).default(0.7).describe('0 = importance alone, 1 = recency alone'),
      candidatePoolLimit: z.int().min(1).max(1_000).default(100).describe('Newest, and most important, memories they are chosen from'),
      maxInjectChars: z
        .int()
        .min(1_000)
        .max(100_000)
        .optional()
        .describe('Characters of the whole inject for any harness; absent means what each harness takes, see docs/agents.md'),
    })
    .prefault({}),
  userPromptSubmit: z
    .strictObject({
      recallLimit: z.int().min(0).max(100).default(10).describe('Memories per turn'),
      injectCharsMax: z.int().min(400).max(4_000).default(1_600).describe('Characters of the whole inject'),
    })
    .prefault({}),
  preCompaction: z
    .strictObject({
      includeRecentMemories: z.boolean().default(true).describe('Show recent memories to the summary'),
      memoryLimit: z.int().min(0).max(100).default(5).describe('How many of them'),
      summaryGuidelines: z.string().optional().describe('What the summary must hold'),
    })
    .prefault({}),
});
export type HooksConfig = z.output<typeof HooksConfig>;

/** Sections other Signet software reads from the same file; taken as they are. */
const ELSEWHERE = Object.fromEntries(
  ['configVersion', 'search', 'git', 'features', 'update', 'home', 'services', 'harnesses', 'skills'].map((key) => [
    key,
    z.unknown().optional(),
  ]),
);

export const IdentityConfig = z.strictObject({
  maxTokens: z
    .int()
    .min(100)
    .max(10_000_000)
    .optional()
    .describe('Tokens of all identity files in sessions of the runtime; absent means a quarter of the context window of the model'),
});
export type IdentityConfig = z.output<typeof IdentityConfig>;

export const AgentYaml = z.strictObject({
  version: z.union([z.number(), z.string()]).optional(),
  schema: z.string().optional(),
  agent: z
    .strictObject({ name: z.string().optional(), description: z.string().optional(), created: z.string().optional() })
    .optional()
    .describe('Who the default agent is'),
  agents: z
    .strictObject({
      roster: z.array(AgentEntry).default([]),
      openclaw: OpenclawConfig.optional().describe('What OpenClaw is told of the roster'),
    })
    .optional()
    .describe('Further agents'),
  workflows: z.record(WorkflowName, WorkflowEntry).optional().describe('Workflows by name'),
  daemon: z
    .strictObject({
      host: z
        .string()
        .optional()
        .describe('Address the daemon binds to; loopback only without tokens. The runtime follows it on loopback only, see runtime.host'),
      port: z.int().min(0).max(65_535).optional().describe('Port of the daemon; 0 takes any free one'),
      logLevel: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).optional(),
      allowedHosts: z.array(z.string()).default([]).describe('Host names besides loopback that requests may name'),
      allowedOrigins: z.array(z.string()).default([]).describe('Web origins that may call'),
      socket: z
        .boolean()
        .default(false)
        .describe(
          'Also answer at Unix domain sockets that the own user alone can open: .daemon/signet.sock and runtime.sock (SIGNET_SOCKET)',
        ),
    })
    .prefault({}),
  server: z
    .strictObject({
      tls: z
        .strictObject({
          cert: z.string().min(1).describe('Path of the certificate with its chain, PEM; relative to the workspace'),
          key: z.string().min(1).describe('Path of its private key, PEM'),
          name: z
            .string()
            .min(1)
            .optional()
            .describe('Name in the certificate by which commands on this machine call; the bound host otherwise'),
        })
        .optional()
        .describe('Both ports speak HTTPS with it'),
    })
    .prefault({}),
  signals: z
    .strictObject({
      sync: z.enum(['full', 'normal']).default('full').describe('fsync per commit, or per checkpoint'),
      retention: RetentionConfig.prefault({}),
      recording: RecordingConfig.prefault({}),
    })
    .prefault({}),
  auth: AuthConfig.prefault({}).describe('Who may call'),
  secrets: SecretsConfig.prefault({}),
  telemetry: TelemetryConfig.prefault({}),
  hooks: HooksConfig.prefault({}),
  identity: IdentityConfig.prefault({}).describe('How much of the identity files reaches a model'),
  crossAgent: CrossAgentConfig.prefault({}).describe('Messages between agents'),
  /** Other Signet software keeps keys of its own here as well, such as pipelineV2; they are left alone. */
  memory: z
    .looseObject({
      defaultVisibility: DefaultVisibility.optional().describe(
        'Of memories written without a visibility; absent means global. With private also what nobody in particular writes is kept for `default` alone',
      ),
      extraction: ExtractionConfig.prefault({}),
      transcripts: TranscriptsConfig.prefault({}),
      synthesis: SynthesisConfig.prefault({}),
      embeddings: EmbeddingConfig.optional().describe('Goes before embedding'),
    })
    .prefault({}),
  embedding: EmbeddingConfig.prefault({}).describe('Recall by meaning beside recall by words'),
  runtime: RuntimeConfig.prefault({}),
  ...ELSEWHERE,
});
export type AgentYaml = z.output<typeof AgentYaml>;

/** `memory.embeddings` goes before `embedding`. */
export function embeddingOf(config: AgentYaml): EmbeddingConfig {
  return config.memory.embeddings ?? config.embedding;
}
