import type { CallerLimit } from '../contract/scope.ts';
import type { Signal } from '../contract/signal.ts';
import type { StoredWorkflow, WorkflowAgentRules, WorkflowLimits, WorkflowResult } from '../contract/workflow.ts';

/** What an agent's `when` and `prompt` may look at: the workflow as it was at the trigger's place in the log. Frozen, all of it. */
export interface TriggerScope {
  readonly signal: Pick<Signal, 'id' | 'name' | 'payload' | 'timestamp' | 'source'>;
  readonly state: Readonly<Record<string, unknown>>;
  readonly input: unknown;
  readonly workflow: { readonly id: string; readonly name: string };
}

/** What `emitWhen` may look at: the same, with the agent's answer (parsed when it has an output schema) and the state after its update. */
export interface OutcomeScope extends TriggerScope {
  readonly output: unknown;
}

/** A reactive agent, checked, with the parts that need user code compiled. The functions are pure; what they throw skips or fails the activation. */
export interface WorkflowAgent extends WorkflowAgentRules {
  readonly prompt: (scope: TriggerScope) => string;
  readonly when?: (scope: TriggerScope) => boolean;
  /** Chosen signals by name; a name of `emits` that stands here as well is emitted only when its condition holds. */
  readonly emitWhen?: Readonly<Record<string, (scope: OutcomeScope) => boolean>>;
}

/** A workflow ready to run. */
export interface WorkflowDefinition {
  readonly name: string;
  readonly agents: readonly WorkflowAgent[];
  readonly state: Readonly<Record<string, unknown>>;
  readonly input: unknown;
  /** Looked at after each update. */
  readonly endWhen?: (state: Readonly<Record<string, unknown>>) => boolean;
  readonly timeoutMs: number;
  readonly limits: WorkflowLimits;
  /** Sessions of the workflow belong to it; also what the scope `project` means. */
  readonly project: string | null;
  /** The definition as data: another process compiles it again from here and goes on. Null when it holds functions; such a run dies with its process. */
  readonly source: StoredWorkflow | null;
}

export interface WorkflowStart {
  /** Of the caller's choosing; the same id with the same definition is the same run. */
  readonly id?: string;
  /** Who asks. */
  readonly client: string;
  /** Of the token that asks. */
  readonly limit?: CallerLimit | undefined;
}

/** A workflow under way, or over. */
export interface WorkflowRun {
  readonly id: string;
  /** Resolves when workflow:end is in the log; rejects only when the process lets go of the run (shutdown, log gone). */
  readonly done: Promise<WorkflowResult>;
  /** Stops the work of all activations; resolves when they have settled and workflow:end is in the log. Idempotent. */
  abort(reason?: string): Promise<WorkflowResult>;
  /** The complete trace so far: the workflow's own signals and those of the sessions it activated, in log order. */
  signals(): Promise<Signal[]>;
}

/** Starts workflows. */
export interface WorkflowRuns {
  /** @throws AppError `id_conflict`, `unknown_agent`, `unknown_provider`, `unknown_model`, `too_many_workflows`, `draining` */
  start(definition: WorkflowDefinition, options: WorkflowStart): Promise<WorkflowRun>;
  /** @throws AppError `workflow_not_found` */
  get(id: string): Promise<WorkflowRun>;
}
