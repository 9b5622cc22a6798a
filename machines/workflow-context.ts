import type { PayloadOf } from '../src/contract/catalog.ts';
import type { Usage } from '../src/contract/provider.ts';
import type { CauseRef } from '../src/contract/signal.ts';
import type { WorkflowAgentRules, WorkflowEndReason } from '../src/contract/workflow.ts';
import type { WorkflowNamesOfKind, WorkflowPayloadOf } from '../src/contract/workflow-signals.ts';

type Started = WorkflowPayloadOf<'workflow:start'>;

export interface WorkflowInput {
  readonly at: number;
  readonly started: Started;
}

/** An input signal of the stream as the machine receives it. `at` is its timestamp in ms; the machine knows no other clock. */
export type WorkflowEvent =
  | {
      [N in WorkflowNamesOfKind<'input'>]: { readonly type: N; readonly at: number; readonly payload: WorkflowPayloadOf<N> };
    }[WorkflowNamesOfKind<'input'>]
  | { readonly type: 'timer:fired'; readonly at: number; readonly payload: PayloadOf<'timer:fired'> };

/** A signal the machine asks to be recorded with the input that caused it. */
export interface WorkflowOutput {
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** What it is put down to, when that is not the input itself. */
  readonly cause?: CauseRef;
  /** Whose doing it is. */
  readonly agent?: string;
  readonly activation?: number;
}

/** A signal an agent listens to, with the prompt that was made of it. */
export interface Trigger extends CauseRef {
  readonly name: string;
  readonly cause: number | null;
  readonly chain: number;
  readonly session: string | null;
  readonly prompt: string;
  readonly fault: { readonly code: string; readonly message: string } | null;
}

/** Work under way: its agent:activated is recorded, its outcome is not. */
export interface Activation {
  readonly activation: number;
  readonly agent: string;
  readonly attempt: number;
  readonly session: string;
  readonly prompt: string;
  readonly trigger: { readonly signal: string; readonly session: string | null };
  readonly startedAt: number;
}

export interface AgentTally {
  readonly activations: number;
  readonly tokens: number;
  readonly usd: number;
}

export interface WorkflowContext {
  readonly workflow: string;
  readonly agents: readonly WorkflowAgentRules[];
  readonly limits: Started['limits'];
  readonly startedAt: number;
  readonly deadlineAt: number;
  readonly state: Readonly<Record<string, unknown>>;
  readonly activations: number;
  readonly skipped: number;
  readonly usage: Usage;
  /** Null as soon as the price of one activation is not known. */
  readonly costUsd: number | null;
  readonly tallies: Readonly<Record<string, AgentTally>>;
  readonly live: readonly Activation[];
  /** Triggers that wait for an activation of their agent to end, oldest first. */
  readonly waiting: Readonly<Record<string, readonly Trigger[]>>;
  /** The newest trigger of agents that wait for more to come. */
  readonly debounced: Readonly<Record<string, { readonly trigger: Trigger; readonly dueAt: number }>>;
  /** Failed activations that no agent has reacted to. */
  readonly failures: readonly { readonly activation: number; readonly code: string; readonly message: string }[];
  /** A limit of the whole run has refused work. */
  readonly overBudget: boolean;
  /** Limits of which budget:exceeded has told: `<agent>:<kind>`, without an agent for the whole run. */
  readonly budgetsTold: readonly string[];
  readonly ending: {
    readonly reason: WorkflowEndReason;
    /** What runs is stopped instead of waited for. */
    readonly stops: boolean;
    readonly error?: { readonly code: string; readonly message: string };
  } | null;
}

export const TIMEOUT_TIMER = 'timeout';
const DEBOUNCE_TIMER = 'debounce:';
const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };
const NO_TALLY: AgentTally = { activations: 0, tokens: 0, usd: 0 };

export function initialWorkflow({ at, started }: WorkflowInput): WorkflowContext {
  return {
    workflow: started.workflow,
    agents: started.agents,
    limits: started.limits,
    startedAt: at,
    deadlineAt: at + started.limits.timeoutMs,
    state: started.state,
    activations: 0,
    skipped: 0,
    usage: NO_USAGE,
    costUsd: 0,
    tallies: {},
    live: [],
    waiting: {},
    debounced: {},
    failures: [],
    overBudget: false,
    budgetsTold: [],
    ending: null,
  };
}

export function debounceTimer(agent: string): string {
  return `${DEBOUNCE_TIMER}${agent}`;
}

export function tallyOf(context: WorkflowContext, agent: string): AgentTally {
  return context.tallies[agent] ?? NO_TALLY;
}

/** Nothing runs and nothing waits; whether every signal has been looked at is known outside. */
export function isIdle({ live, waiting, debounced }: WorkflowContext): boolean {
  return live.length === 0 && Object.keys(waiting).length === 0 && Object.keys(debounced).length === 0;
}
