import type { NamesOfKind, PayloadOf } from '../src/contract/catalog.ts';
import type { Usage } from '../src/contract/provider.ts';
import type { HookName, OfferedTool, RequestedCall } from '../src/contract/signal-spec.ts';

/** Numbers the machine decides by; fixed when the session is created. */
export interface SessionLimits {
  readonly mailboxTurnsMax: number;
  readonly roundsMax: number;
  readonly attemptsMax: number;
  readonly turnTimeoutMs: number;
  readonly approvalTimeoutMs: number;
  readonly abortGraceMs: number;
  readonly idleTtlMs: number;
  readonly backoffMs: number;
  readonly retryAfterMsMax: number;
  readonly compactAtShare: number;
}

/** An input signal as the machine receives it. `at` is its timestamp in ms; the machine knows no other clock. */
export type InputEvent = {
  [N in NamesOfKind<'input'>]: { readonly type: N; readonly at: number; readonly payload: PayloadOf<N> };
}[NamesOfKind<'input'>];

/** A machine, effect or system signal the machine asks to be recorded with the input that caused it. */
export type OutputEvent = {
  [N in NamesOfKind<'machine' | 'effect' | 'system'>]: { readonly type: N; readonly payload: PayloadOf<N> };
}[NamesOfKind<'machine' | 'effect' | 'system'>];

/** Work in flight: its intent is recorded, its outcome is not. The key is stable over a restart. */
export type Pending =
  | { readonly kind: 'hook'; readonly key: string; readonly hook: HookName }
  | {
      readonly kind: 'model';
      readonly key: string;
      readonly purpose: 'answer' | 'summary';
      readonly provider: string;
      readonly model: string;
      readonly attempt: number;
      readonly fallbacks: number;
    }
  | {
      readonly kind: 'tool';
      readonly key: string;
      readonly id: string;
      readonly name: string;
      readonly class: RequestedCall['class'];
      readonly phase: 'research' | 'turn';
    };

/** A prompt that waits. */
export interface QueuedPrompt {
  readonly promptId: string;
  readonly provider: string | null;
  readonly model: string | null;
  readonly contextLimit: number | null;
  readonly timeoutMs: number | null;
  readonly tools: readonly OfferedTool[];
  readonly preTools: readonly string[];
  readonly chars: number;
  readonly query: string;
}

export interface Call extends RequestedCall {
  readonly key: string;
  readonly state: 'planned' | 'waiting' | 'allowed' | 'running' | 'done';
  readonly expiresAt: number;
}

export interface Turn {
  readonly number: number;
  readonly promptId: string;
  /** Prompts this turn answers: its own and those steered into it. */
  readonly promptIds: readonly string[];
  readonly startedAt: number;
  readonly deadlineAt: number;
  readonly provider: string;
  readonly model: string;
  readonly contextLimit: number;
  readonly tools: readonly OfferedTool[];
  /** Beginning of the prompt, the input of research tools. */
  readonly query: string;
  readonly round: number;
  readonly attempt: number;
  readonly fallbacks: number;
  readonly toolCalls: number;
  readonly usage: Usage;
  readonly costUsd: number | null;
  readonly researchAt: number;
  readonly memories: number;
  readonly researched: number;
  readonly researchFailed: number;
  /** Tools that failed, and how; absent while none has. */
  readonly researchFaults?: readonly { readonly name: string; readonly code: string; readonly message: string }[];
}

export interface Compaction {
  readonly reason: 'threshold' | 'overflow' | 'manual';
  readonly tokensBefore: number;
  readonly attempt: number;
  readonly summaryChars: number;
}

/** Ids, counters and flags; what was said stands in the log. */
export interface SessionContext {
  readonly session: string;
  readonly provider: string;
  readonly model: string;
  readonly summary: { readonly provider: string; readonly model: string } | null;
  readonly contextLimit: number;
  readonly limits: SessionLimits;
  readonly createdAt: number;
  readonly bypassed: boolean;
  readonly degraded: boolean;
  readonly turns: number;
  readonly turn: Turn | null;
  readonly mailbox: readonly QueuedPrompt[];
  readonly steers: readonly { readonly promptId: string; readonly chars: number }[];
  readonly pending: readonly Pending[];
  readonly calls: readonly Call[];
  /** Tools a person allowed for the rest of the session. */
  readonly allowedTools: readonly string[];
  readonly usage: Usage;
  /** Null once a call without a known price was made. */
  readonly costUsd: number | null;
  /** Tokens the next model call will take in, as far as is known. */
  readonly contextTokens: number;
  /** Tokens of the system prompt, estimated. */
  readonly systemTokens: number;
  /** Messages since the last compaction. */
  readonly messages: number;
  readonly compaction: Compaction | null;
  /** Compactions so far, successful or not: part of their keys. */
  readonly compactions: number;
  readonly compactionFailures: number;
  /** The round that was compacted last, so that one round is not compacted twice. */
  readonly compactedRound: number;
  readonly dueAt: number | null;
  readonly idleSince: number;
  readonly abort: { readonly reason: 'client' | 'interrupt' | 'end' | 'deadline'; readonly at: number } | null;
  readonly endReason: string | null;
  /** Ids of messages that arrived and were not shown to the model yet; absent until the first one, as in logs of before there were any. */
  readonly arrived?: readonly string[];
}

export interface SessionInput {
  readonly at: number;
  readonly created: PayloadOf<'session:created'>;
}

/** Input of a tool that runs before generation: the prompt as its schema takes it. */
export function researchInput(tool: OfferedTool | undefined, query: string): Record<string, unknown> {
  const { field = 'query', charsMax, fixed } = tool?.research ?? {};
  return { ...fixed, [field]: charsMax === undefined ? query : query.slice(0, charsMax) };
}

const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };
/** Rough and the same everywhere: four characters of text are one token. */
const CHARS_PER_TOKEN = 4;

export function estimateTokens(chars: number): number {
  return Math.ceil(chars / CHARS_PER_TOKEN);
}

export function initialContext({ at, created }: SessionInput): SessionContext {
  return {
    session: created.session,
    provider: created.provider,
    model: created.model,
    summary: created.summary,
    contextLimit: created.contextLimit,
    limits: created.limits as unknown as SessionLimits,
    createdAt: at,
    bypassed: created.bypassed,
    degraded: false,
    turns: 0,
    turn: null,
    mailbox: [],
    steers: [],
    pending: [],
    calls: [],
    allowedTools: [],
    usage: NO_USAGE,
    costUsd: 0,
    contextTokens: estimateTokens(created.system?.length ?? 0),
    systemTokens: estimateTokens(created.system?.length ?? 0),
    messages: 0,
    compaction: null,
    compactions: 0,
    compactionFailures: 0,
    compactedRound: 0,
    dueAt: null,
    idleSince: at,
    abort: null,
    endReason: null,
  };
}

export function addUsage(a: Usage, b: Usage): Usage {
  const cacheRead = (a.cacheReadTokens ?? 0) + (b.cacheReadTokens ?? 0);
  const cacheWrite = (a.cacheWriteTokens ?? 0) + (b.cacheWriteTokens ?? 0);
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    ...(cacheRead > 0 ? { cacheReadTokens: cacheRead } : {}),
    ...(cacheWrite > 0 ? { cacheWriteTokens: cacheWrite } : {}),
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

export function addCost(a: number | null, b: number | null): number | null {
  return a === null || b === null ? null : a + b;
}
