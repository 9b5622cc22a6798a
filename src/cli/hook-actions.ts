import type { ErrorCode } from '../contract/errors.ts';
import { hookOperations as hooks } from '../contract/hooks.ts';
import { MEMORY_FILE_CHARS_MAX, synthesisOperations as synthesis } from '../contract/synthesis.ts';
import { AppError } from '../core/errors.ts';
import type { CallOptions, DaemonClient } from '../core/operation-call.ts';
import { type CliContext, CliExit, describeFailure, EXIT } from './context.ts';
import { type DaemonFlags, requireDaemonApi } from './daemon-api.ts';
import { countOf, type HookPayload, type ReadPayload, readPayload, sessionKeyOf, textOf } from './hook-payload.ts';
import { readStdinText } from './stdin-text.ts';
import type { Environment } from './terminal.ts';
import { plainText, safeJson } from './terminal-text.ts';

/** Longest wait for the daemon where the environment does not say, in ms. @source spec/hooks, timeouts of "Claude Code Integration" */
const WAIT_MS = {
  'session-start': 3_000,
  'user-prompt-submit': 5_000,
  'session-end': 15_000,
  'pre-compaction': 15_000,
  'compaction-complete': 15_000,
  synthesis: 15_000,
  'synthesis-complete': 15_000,
} as const;
/** Bounds of SIGNET_PROMPT_SUBMIT_TIMEOUT, in ms. */
const PROMPT_WAIT_MS_MIN = 100;
const PROMPT_WAIT_MS_MAX = 120_000;
/** Of a prompt or a context: recall needs its words, not a file pasted into it, and the daemon takes a body of a mebibyte. Unit: characters. */
const TEXT_CHARS_MAX = 100_000;
/** Of the last answer its end: there stand the ratings a model gives. Unit: characters. */
const LAST_ANSWER_CHARS_MAX = 50_000;
/** The longest summary the daemon takes, in characters. */
const SUMMARY_CHARS_MAX = 1_000_000;
/** The session goes on: after its end, or in the middle, after a compaction. */
const RESUMING_SOURCES: ReadonlySet<string> = new Set(['resume', 'compact']);
/** Events of the memory as a whole: they need no session, and stdin only for what no flag says. */
const WITHOUT_SESSION: ReadonlySet<HookEvent> = new Set(['synthesis', 'synthesis-complete']);
const RUNTIME_PATHS = ['plugin', 'legacy'] as const;
/** Refusals that are in order: somebody else does it already, or it is done later. */
const HARMLESS: ReadonlySet<ErrorCode> = new Set(['session_claimed', 'synthesis_busy', 'rate_limited']);

export type HookEvent = keyof typeof WAIT_MS;
export type HookFlags = DaemonFlags & {
  readonly harness: string;
  readonly project?: string;
  readonly agent?: string;
  /** --agent under the name of existing installations. */
  readonly agentId?: string;
  readonly json?: boolean;
  readonly context?: string;
  readonly messageCount?: number;
  readonly summary?: string;
  readonly content?: string;
};

interface HookCall {
  readonly daemon: DaemonClient;
  readonly flags: HookFlags;
  readonly payload: HookPayload;
  readonly caller: ReturnType<typeof callerOf>;
  readonly options: CallOptions;
}

/** `text` is for the model; nothing for it stands in the answers to the other events. */
type Answer = { readonly answer: unknown; readonly text?: string };

const EVENTS: Readonly<Record<HookEvent, (call: HookCall) => Promise<Answer>>> = {
  'session-start': startSession,
  'user-prompt-submit': submitPrompt,
  'session-end': endSession,
  'pre-compaction': prepareCompaction,
  'compaction-complete': completeCompaction,
  synthesis: askSynthesis,
  'synthesis-complete': completeSynthesis,
};

/**
 * One event of a harness, told to the daemon.
 *
 * @throws CliExit with code 0 when the harness is to go on without an answer: no daemon, a slow or busy one, a session of the other path,
 *         nothing to tell; with code 1 when the daemon refuses what it was told
 */
export async function runHook(context: CliContext, event: HookEvent, flags: HookFlags): Promise<void> {
  let problem: string | undefined;
  try {
    const read = await eventOf(context, event, flags);
    problem = read.problem;
    const payload = read.payload;
    const options = { timeoutMs: waitMs(context, event), headers: { 'x-signet-actor-type': 'harness' } };
    const daemon = daemonOf(context, flags);
    const call = { daemon, flags, payload, caller: callerOf(flags, payload, context.env), options };
    const { answer, text } = await EVENTS[event](call);
    if (problem !== undefined) context.stderr.write(`signet: hook ${event}: ${problem}; it goes on without\n`);
    if (flags.json) context.stdout.write(`${safeJson(answer)}\n`);
    else if (text) context.stdout.write(`${plainText(text).trimEnd()}\n`);
  } catch (error) {
    const reasons = [problem, describeFailure(error)].filter((reason) => reason !== undefined);
    throw new CliExit(exitCodeOf(error), `hook ${event}: ${reasons.join('; ')}`);
  }
}

async function eventOf(context: CliContext, event: HookEvent, flags: HookFlags): Promise<ReadPayload> {
  if (event === 'synthesis-complete' && flags.content === '-')
    return { payload: { content: await readStdinText(context, 'MEMORY.md', MEMORY_FILE_CHARS_MAX) } };
  return readPayload(context, !WITHOUT_SESSION.has(event));
}

/** Fields of every hook. The harness's own name of a sub-agent is no agent of ours: it opens no memories. */
function callerOf(flags: HookFlags, payload: HookPayload, env: Environment) {
  const named = textOf(payload, 'runtimePath', 'runtime_path') ?? env.SIGNET_RUNTIME_PATH;
  return {
    harness: flags.harness,
    sessionKey: sessionKeyOf(payload),
    agentId: flags.agent || flags.agentId || env.SIGNET_AGENT_ID || textOf(payload, 'agentId'),
    project: flags.project || textOf(payload, 'project', 'cwd'),
    runtimePath: RUNTIME_PATHS.find((path) => path === named),
  };
}

async function startSession({ daemon, flags, payload, caller, options }: HookCall): Promise<Answer> {
  const input = {
    ...caller,
    harnessAgentId: textOf(payload, 'harnessAgentId', 'harness_agent_id', 'agent_id'),
    parentSessionKey: textOf(payload, 'parentSessionKey', 'parent_session_key', 'parentSessionId', 'parent_session_id'),
    context: cut(flags.context || textOf(payload, 'context') || ''),
    resume: RESUMING_SOURCES.has(textOf(payload, 'source') ?? ''),
  };
  const answer = await daemon.call(hooks.hookSessionStart, input, options);
  return { answer, text: answer.inject };
}

async function submitPrompt({ daemon, payload, caller, options }: HookCall): Promise<Answer> {
  const prompt = textOf(payload, 'prompt', 'userMessage', 'user_message', 'userPrompt', 'user_prompt');
  if (prompt === undefined) throw new CliExit(EXIT.ok, 'stdin has no prompt, so there is nothing to ask');
  const lastAnswer = textOf(payload, 'lastAssistantMessage', 'last_assistant_message');
  const input = {
    ...caller,
    userMessage: cut(prompt),
    lastAssistantMessage: lastAnswer?.slice(-LAST_ANSWER_CHARS_MAX).toWellFormed(),
  };
  const answer = await daemon.call(hooks.hookUserPromptSubmit, input, options);
  return { answer, text: answer.inject };
}

async function endSession({ daemon, payload, caller, options }: HookCall): Promise<Answer> {
  const input = { ...caller, transcriptPath: transcriptOf(payload), cwd: textOf(payload, 'cwd'), reason: textOf(payload, 'reason') };
  return { answer: await daemon.call(hooks.hookSessionEnd, input, options) };
}

async function prepareCompaction({ daemon, flags, payload, caller, options }: HookCall): Promise<Answer> {
  const sessionContext = cut(textOf(payload, 'sessionContext', 'session_context') ?? '');
  const messageCount = flags.messageCount ?? countOf(payload, 'messageCount', 'message_count');
  const answer = await daemon.call(hooks.hookPreCompaction, { ...caller, sessionContext, messageCount }, options);
  return { answer, text: answer.summaryPrompt };
}

async function completeCompaction({ daemon, flags, payload, caller, options }: HookCall): Promise<Answer> {
  const summary = flags.summary?.trim() || textOf(payload, 'compact_summary', 'compactSummary', 'summary');
  if (summary === undefined) throw new CliExit(EXIT.ok, 'there is no summary to keep: --summary, or summary on stdin');
  const input = { ...caller, summary: cut(summary, SUMMARY_CHARS_MAX), transcriptPath: transcriptOf(payload) };
  return { answer: await daemon.call(hooks.hookCompactionComplete, input, options) };
}

async function askSynthesis({ daemon, payload, caller, options }: HookCall): Promise<Answer> {
  const trigger = textOf(payload, 'trigger') === 'manual' ? 'manual' : 'scheduled';
  const answer = await daemon.call(synthesis.hookSynthesis, { trigger, agentId: caller.agentId }, options);
  return { answer, text: answer.prompt };
}

async function completeSynthesis({ daemon, flags, payload, caller, options }: HookCall): Promise<Answer> {
  const content = (flags.content === '-' ? undefined : flags.content) || textOf(payload, 'content');
  if (content === undefined)
    throw new CliExit(EXIT.failure, 'the new MEMORY.md is missing: --content <text>, or --content - and the text on stdin');
  const input = { content, agentId: caller.agentId, generation: countOf(payload, 'generation') };
  return { answer: await daemon.call(synthesis.hookSynthesisComplete, input, options) };
}

/** Its beginning; half of a pair of surrogates at the cut is no character. */
function cut(text: string, charsMax = TEXT_CHARS_MAX): string {
  return text.trimStart().slice(0, charsMax).toWellFormed();
}

function transcriptOf(payload: HookPayload): string | undefined {
  return textOf(payload, 'transcript_path', 'transcriptPath');
}

/** A wait that makes no sense is told and not used: the prompt must go on. */
function waitMs({ env, stderr }: CliContext, event: HookEvent): number {
  const given = env.SIGNET_PROMPT_SUBMIT_TIMEOUT;
  if (event !== 'user-prompt-submit' || !given) return WAIT_MS[event];
  const ms = Number(given);
  if (Number.isInteger(ms) && ms >= PROMPT_WAIT_MS_MIN && ms <= PROMPT_WAIT_MS_MAX) return ms;
  const bounds = `from ${PROMPT_WAIT_MS_MIN} to ${PROMPT_WAIT_MS_MAX}`;
  stderr.write(`signet: SIGNET_PROMPT_SUBMIT_TIMEOUT must be a whole number of ms ${bounds}; ${WAIT_MS[event]} is used\n`);
  return WAIT_MS[event];
}

/** A named data folder without a daemon is told by other commands as a failure; a harness goes on. */
function daemonOf(context: CliContext, flags: HookFlags): DaemonClient {
  try {
    return requireDaemonApi(context, flags);
  } catch (error) {
    if (error instanceof CliExit && error.exitCode === EXIT.failure) throw new CliExit(EXIT.ok, error.message);
    throw error;
  }
}

/** 0 for what the user of the harness could not have done better: the daemon is away, slow, busy or at fault, or a plugin has the session. Never 2. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CliExit) return error.exitCode === EXIT.ok ? EXIT.ok : EXIT.failure;
  if (!(error instanceof AppError)) return EXIT.failure;
  const isHarmless = error.status >= 500 || HARMLESS.has(error.code);
  return isHarmless ? EXIT.ok : EXIT.failure;
}
