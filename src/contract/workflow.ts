import { z } from 'zod';
import { durationWithin } from './duration.ts';
import { AgentName, ToolName } from './ids.ts';
import { Usage } from './provider.ts';
import { SIGNAL_NAME_CHARS_MAX, SIGNAL_NAME_PATTERN } from './signal.ts';

export const WORKFLOW_AGENTS_MAX = 64;
/** Names one agent may emit, and patterns it may listen to. */
export const WORKFLOW_NAMES_MAX = 64;
/** Text of a prompt template, and of an expression; unit: characters. */
const PROMPT_CHARS_MAX = 100_000;
const EXPRESSION_CHARS_MAX = 4_096;
const TIMEOUT_MS_MAX = 86_400_000;
const OUTPUT_PATH_CHARS_MAX = 1_024;
const OUTPUT_FORMS = 'must be a JSON Schema, or the path of a file with one, such as ./schemas/review.json';

/** A workflow's own id: also its stream `workflow:<id>`. */
export const WorkflowId = z.string().regex(/^[a-z0-9_]{6,48}$/, 'must be 6 to 48 characters of a-z, 0-9 and _');
export type WorkflowId = z.output<typeof WorkflowId>;

export const WorkflowName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be 1 to 64 characters of a-z, 0-9, _ and -, starting with a letter or digit');

/** A signal name an agent declares: its own words, not those of this program. */
export const CustomSignalName = z
  .string()
  .max(SIGNAL_NAME_CHARS_MAX)
  .regex(SIGNAL_NAME_PATTERN, 'must be a signal name such as `analysis:complete`');

const StateKey = z.string().regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'must be 1 to 64 letters, digits, _ and -, starting with a letter');
const expression = z.string().min(1).max(EXPRESSION_CHARS_MAX);
const ms = z.int().min(0).max(TIMEOUT_MS_MAX);

/** Bounds of a whole run; what goes beyond them is an agent:skipped. */
export const WorkflowLimits = z.strictObject({
  depth: z.int().min(1).max(1_000).default(8).describe('Activations in a chain, each caused by the one before'),
  activations: z.int().min(1).max(10_000).default(100).describe('Activations of the whole run'),
  tokens: z.int().min(1).optional().describe('Input and output tokens of all activations together'),
  usd: z.number().positive().optional().describe('US dollars of all activations together'),
});
export type WorkflowLimits = z.output<typeof WorkflowLimits>;

/** Bounds of one agent in a run. */
export const WorkflowAgentLimits = z.strictObject({
  depth: z.int().min(1).max(1_000).optional().describe('Activations in a chain that may end in this agent'),
  activations: z.int().min(1).max(10_000).optional().describe('Activations of this agent'),
  tokens: z.int().min(1).optional().describe('Input and output tokens of its activations together'),
  usd: z.number().positive().optional().describe('US dollars of its activations together'),
  timeoutMs: z.int().min(1).max(TIMEOUT_MS_MAX).optional().describe('Longest activation'),
  retries: z.int().min(0).max(10).default(0).describe('How often a failed activation is tried again'),
});
export type WorkflowAgentLimits = z.output<typeof WorkflowAgentLimits>;

export const SignalOrigin = z.strictObject({
  scope: z
    .enum(['self', 'agent', 'project', 'global'])
    .default('self')
    .describe('self: this run and its sessions; agent: also sessions of the same agent; project: of the same project; global: all'),
  agents: z.array(AgentName).min(1).max(WORKFLOW_AGENTS_MAX).optional().describe('Only signals of these agents'),
});
export type SignalOrigin = z.output<typeof SignalOrigin>;

const requestPattern = z.string('must be a text such as `analysis:*`; a regular expression is for workflows in code').max(128);
/** A regular expression of a workflow in code, as its log keeps it. No request and no file may hold one. */
const StoredRegExp = z.strictObject({ regexp: z.string(), flags: z.string() });
const patternsOf = <P extends z.ZodType>(pattern: P) =>
  z.array(pattern).min(1).max(WORKFLOW_NAMES_MAX).describe('Patterns of signal names');
const storedPatterns = { activateOn: patternsOf(z.union([requestPattern, StoredRegExp])) };

/** What an agent reacts to and within which bounds: everything about it that is plain data. */
const agentRules = {
  activateOn: patternsOf(requestPattern),
  from: SignalOrigin.prefault({}).describe('Whose signals count'),
  emits: z
    .array(CustomSignalName)
    .max(WORKFLOW_NAMES_MAX)
    .default([])
    .describe('Signals that follow its success; the payload is its output'),
  updates: StateKey.optional().describe('Key of the state its output is written to'),
  output: z.record(z.string(), z.unknown()).optional().describe('JSON Schema its output must fit'),
  session: z
    .enum(['new', 'reuse', 'attach'])
    .default('new')
    .describe('new: a session per activation; reuse: one for all; attach: the session the trigger came from'),
  concurrency: z.int().min(1).max(64).default(1).describe('Activations at once'),
  overflow: z.enum(['queue', 'drop-oldest', 'skip']).default('queue').describe('What becomes of triggers beyond that'),
  debounceMs: ms.default(0).describe('The newest trigger counts when none has come for so long'),
  allowSelf: z.boolean().default(false).describe('React to what its own unfinished activation caused'),
  limits: WorkflowAgentLimits.prefault({}),
  agent: AgentName.optional().describe(
    'Agent of the roster whose identity and memories its sessions have; the one of its name when there is one',
  ),
  provider: z.string().max(128).optional(),
  model: z.string().max(256).optional(),
  system: z.string().max(PROMPT_CHARS_MAX).optional().describe('System prompt of its sessions'),
  tools: z.array(ToolName).max(1_000).optional().describe('Tools its sessions may use; all when left out'),
};
export const WorkflowAgentRules = z.strictObject({ name: AgentName, ...agentRules, ...storedPatterns });
export type WorkflowAgentRules = z.output<typeof WorkflowAgentRules>;

/** The texts that are compiled: a template, and expressions. */
const agentTexts = {
  prompt: z.string().min(1).max(PROMPT_CHARS_MAX).describe('Template; {{ signal.payload.x }}, {{ state.x }} and {{ input }} are filled in'),
  when: expression.optional().describe('Expression over signal, state and input; the trigger counts when it holds'),
  emitWhen: z
    .record(CustomSignalName, expression)
    .optional()
    .describe('Signals that are emitted only when an expression over output, state, signal and input holds'),
};

/** `reactive` of an agent in agent.yaml. */
export const ReactiveAgent = z.strictObject({
  ...agentRules,
  ...agentTexts,
  debounce: durationWithin(0, TIMEOUT_MS_MAX).optional().describe('The same as debounceMs, such as `2s`'),
  limits: WorkflowAgentLimits.extend({
    timeout: durationWithin(1, TIMEOUT_MS_MAX).optional().describe('The same as timeoutMs, such as `5m`'),
  }).prefault({}),
  output: z
    .union([z.string().min(1).max(OUTPUT_PATH_CHARS_MAX), z.record(z.string(), z.unknown())], OUTPUT_FORMS)
    .optional()
    .describe('JSON Schema its output must fit, or the path of one in the workspace'),
});
export type ReactiveAgent = z.output<typeof ReactiveAgent>;
/** An agent given inline. */
export const WorkflowAgentSource = z.strictObject({ name: AgentName, ...agentRules, ...agentTexts });
export type WorkflowAgentSource = z.output<typeof WorkflowAgentSource>;

export const WorkflowState = z.record(StateKey, z.unknown());
export const WORKFLOW_TIMEOUT_MS = 1_800_000;
export const workflowTerms = {
  state: WorkflowState.default({}).describe('State it begins with'),
  endWhen: expression.optional().describe('Expression over state; the run ends when it holds'),
  timeoutMs: z.int().min(1).max(TIMEOUT_MS_MAX).default(WORKFLOW_TIMEOUT_MS).describe('Longest run'),
  limits: WorkflowLimits.prefault({}),
  project: z.string().max(1_024).optional().describe('Project of its sessions'),
};

/** `timeoutMs` of a workflow in agent.yaml as people write it. */
export const WorkflowTimeout = durationWithin(1, TIMEOUT_MS_MAX).describe('The same as timeoutMs, such as `30m`');

/** A workflow as data, complete. */
export const WorkflowSource = z.strictObject({
  name: WorkflowName,
  agents: z.array(WorkflowAgentSource).min(1).max(WORKFLOW_AGENTS_MAX),
  input: z.unknown(),
  ...workflowTerms,
});
export type WorkflowSource = z.output<typeof WorkflowSource>;

/** The same as the log keeps it: one of code may listen by regular expressions. */
export const StoredWorkflow = WorkflowSource.extend({
  agents: z.array(WorkflowAgentSource.extend(storedPatterns)).min(1).max(WORKFLOW_AGENTS_MAX),
});
export type StoredWorkflow = z.output<typeof StoredWorkflow>;

export const WorkflowEndReason = z.enum(['quiescent', 'end-when', 'timeout', 'aborted', 'error', 'budget']);
export type WorkflowEndReason = z.output<typeof WorkflowEndReason>;

export const WorkflowMetrics = z.object({
  durationMs: z.number(),
  activations: z.int(),
  skipped: z.int(),
  usage: Usage,
  costUsd: z.number().nullable(),
});
export type WorkflowMetrics = z.output<typeof WorkflowMetrics>;

/** How a run ended. */
export const WorkflowResult = z.object({
  id: WorkflowId,
  reason: WorkflowEndReason,
  state: z.record(z.string(), z.unknown()),
  metrics: WorkflowMetrics,
  /** Why it ended in error. */
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});
export type WorkflowResult = z.output<typeof WorkflowResult>;
