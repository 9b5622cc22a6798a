import type { Usage } from '../src/contract/provider.ts';
import type { CauseRef } from '../src/contract/signal.ts';
import type { WorkflowAgentRules } from '../src/contract/workflow.ts';
import type { SkipReason } from '../src/contract/workflow-signals.ts';
import { debounceTimer, type Trigger, tallyOf, type WorkflowContext, type WorkflowOutput } from './workflow-context.ts';

/** Triggers that may wait for one agent; further ones are skipped. */
export const WAITING_TRIGGERS_MAX = 256;

const BUDGETS = ['activations', 'tokens', 'usd'] as const;

export interface WorkflowStep {
  readonly set?: Partial<WorkflowContext>;
  readonly say?: readonly WorkflowOutput[];
}

/** What follows from one input, gathered: the context as it becomes, and what is said on the way. */
export class Course {
  context: WorkflowContext;
  readonly at: number;
  readonly say: WorkflowOutput[] = [];

  constructor(context: WorkflowContext, at: number) {
    this.context = context;
    this.at = at;
  }

  set(change: Partial<WorkflowContext>): void {
    this.context = { ...this.context, ...change };
  }

  result(): WorkflowStep {
    return { set: this.context, say: this.say };
  }

  skip(agent: string, trigger: Trigger, reason: SkipReason): void {
    const message = trigger.fault ? { message: trigger.fault.message } : {};
    const payload = { agent, trigger: trigger.name, signal: trigger.signal, reason, ...message };
    this.say.push({ type: 'agent:skipped', payload, cause: causeOf(trigger), agent });
    this.set({ skipped: this.context.skipped + 1 });
  }

  /** The agent works on it now, waits, or refuses, as its bounds say. */
  admit(rules: WorkflowAgentRules, trigger: Trigger): void {
    if (this.#refuseOverBudget(rules, trigger)) return;
    const running = this.context.live.filter((entry) => entry.agent === rules.name).length;
    if (running < rules.concurrency) this.#activate(rules, trigger);
    else this.#wait(rules, trigger);
  }

  debounce(rules: WorkflowAgentRules, trigger: Trigger): void {
    const before = this.context.debounced[rules.name];
    if (before) this.skip(rules.name, before.trigger, 'debounced');
    const dueAt = this.at + rules.debounceMs;
    this.set({ debounced: { ...this.context.debounced, [rules.name]: { trigger, dueAt } } });
    const timer = { id: debounceTimer(rules.name), ms: rules.debounceMs, dueAt: new Date(dueAt).toISOString() };
    this.say.push({ type: 'timer:set', payload: timer, cause: causeOf(trigger), agent: rules.name });
  }

  /** Waiting triggers get the places that have become free. */
  release(rules: WorkflowAgentRules): void {
    for (;;) {
      const [next, ...rest] = this.context.waiting[rules.name] ?? [];
      if (!next || this.context.live.filter((entry) => entry.agent === rules.name).length >= rules.concurrency) return;
      this.set({
        waiting: rest.length > 0 ? { ...this.context.waiting, [rules.name]: rest } : without(this.context.waiting, rules.name),
      });
      this.admit(rules, next);
    }
  }

  tally(agent: string, usage: Usage, costUsd: number | null): void {
    const { context } = this;
    const tally = tallyOf(context, agent);
    const tokens = tally.tokens + usage.inputTokens + usage.outputTokens;
    this.set({
      usage: addUsage(context.usage, usage),
      costUsd: context.costUsd === null || costUsd === null ? null : context.costUsd + costUsd,
      tallies: { ...context.tallies, [agent]: { ...tally, tokens, usd: tally.usd + (costUsd ?? 0) } },
    });
  }

  /** Nothing is activated any more, and what waits never will be. */
  terminate(ending: NonNullable<WorkflowContext['ending']>, agent?: string): void {
    if (this.context.ending) {
      // A run that ends by itself may still be stopped; it keeps its first reason.
      this.set({ ending: { ...this.context.ending, stops: this.context.ending.stops || ending.stops } });
      return;
    }
    this.set({ ending });
    this.say.push({ type: 'workflow:terminating', payload: { reason: ending.reason, ...(agent ? { agent } : {}) } });
    for (const [name, { trigger }] of Object.entries(this.context.debounced)) this.skip(name, trigger, 'terminated');
    for (const [name, triggers] of Object.entries(this.context.waiting))
      for (const trigger of triggers) this.skip(name, trigger, 'terminated');
    this.set({ debounced: {}, waiting: {} });
  }

  #wait({ name, overflow }: WorkflowAgentRules, trigger: Trigger): void {
    const waiting = this.context.waiting[name] ?? [];
    if (overflow === 'skip' || waiting.length >= WAITING_TRIGGERS_MAX) {
      this.skip(name, trigger, 'concurrency');
      return;
    }
    if (overflow === 'drop-oldest') for (const oldest of waiting) this.skip(name, oldest, 'concurrency');
    const kept = overflow === 'drop-oldest' ? [trigger] : [...waiting, trigger];
    this.set({ waiting: { ...this.context.waiting, [name]: kept } });
  }

  #refuseOverBudget(rules: WorkflowAgentRules, trigger: Trigger): boolean {
    const { limits, activations, usage, costUsd } = this.context;
    const tally = tallyOf(this.context, rules.name);
    const run = { activations, tokens: usage.inputTokens + usage.outputTokens, usd: costUsd ?? 0 };
    const overRun = exceeded(run, limits);
    const over = overRun ?? exceeded(tally, rules.limits);
    if (!over) return false;
    if (overRun) this.set({ overBudget: true });
    this.#tellBudget(over, overRun ? null : rules.name, causeOf(trigger));
    this.skip(rules.name, trigger, 'budget');
    return true;
  }

  /** Once for each limit: what it refuses is told by agent:skipped. */
  #tellBudget({ kind, used, limit }: Exceeded, agent: string | null, cause: CauseRef): void {
    const budget = `${agent ?? ''}:${kind}`;
    if (this.context.budgetsTold.includes(budget)) return;
    this.set({ budgetsTold: [...this.context.budgetsTold, budget] });
    const scope = agent === null ? 'workflow' : 'agent';
    this.say.push({
      type: 'budget:exceeded',
      payload: { scope, ...(agent === null ? {} : { agent }), kind, used, limit },
      cause,
      ...(agent === null ? {} : { agent }),
    });
  }

  #activate(rules: WorkflowAgentRules, trigger: Trigger): void {
    const { context } = this;
    const agent = rules.name;
    const activation = context.activations + 1;
    const session = sessionOf(context, rules, trigger, activation, 1);
    const tally = tallyOf(context, agent);
    const { name, signal, cause, chain } = trigger;
    this.say.push({
      type: 'agent:activated',
      payload: { agent, activation, trigger: name, signal, session, cause, chain: chain + 1 },
      cause: causeOf(trigger),
      agent,
      activation,
    });
    this.set({ activations: activation, tallies: { ...context.tallies, [agent]: { ...tally, activations: tally.activations + 1 } } });
    if (trigger.fault) {
      const failure = { ...trigger.fault, activation };
      const failed = { agent, activation, session, ...trigger.fault, willRetry: false, durationMs: 0 };
      this.say.push({ type: 'agent:failed', payload: failed, agent, activation });
      this.set({ failures: [...context.failures, failure] });
      return;
    }
    const seen = { signal, session: trigger.session };
    const live = { activation, agent, attempt: 1, session, prompt: trigger.prompt, trigger: seen, startedAt: this.at };
    this.set({ live: [...context.live, live] });
  }
}

type Budgets = Readonly<Partial<Record<(typeof BUDGETS)[number], number | undefined>>>;

interface Exceeded {
  readonly kind: (typeof BUDGETS)[number];
  readonly used: number;
  readonly limit: number;
}

/** The first limit that is used up. */
function exceeded(used: Required<Budgets>, limits: Budgets): Exceeded | null {
  for (const kind of BUDGETS) {
    const limit = limits[kind];
    if (limit !== undefined && used[kind]! >= limit) return { kind, used: used[kind]!, limit };
  }
  return null;
}

/** Known before it is created, so that a restart cannot create a second one. */
function sessionOf(context: WorkflowContext, rules: WorkflowAgentRules, trigger: Trigger, activation: number, attempt: number): string {
  if (rules.session === 'attach' && trigger.session !== null) return trigger.session;
  if (rules.session === 'reuse') return `${context.workflow}_r${context.agents.indexOf(rules) + 1}`;
  return newSession(context, activation, attempt);
}

export function newSession({ workflow }: WorkflowContext, activation: number, attempt: number): string {
  return attempt === 1 ? `${workflow}_a${activation}` : `${workflow}_a${activation}_${attempt}`;
}

function causeOf({ signal, root, depth }: Trigger) {
  return { signal, root, depth };
}

function addUsage(a: Usage, b: Usage): Usage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    ...(a.estimated || b.estimated ? { estimated: true } : {}),
  };
}

export function without<T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> {
  const { [key]: _gone, ...rest } = record;
  return rest;
}
