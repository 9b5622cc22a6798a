import type { Usage } from '../src/contract/provider.ts';
import type { WorkflowAgentRules } from '../src/contract/workflow.ts';
import type { SkipReason, WorkflowPayloadOf } from '../src/contract/workflow-signals.ts';
import { debounceTimer, type Trigger, tallyOf, type WorkflowContext, type WorkflowEvent, type WorkflowOutput } from './workflow-context.ts';

/** Triggers that may wait for one agent; further ones are skipped. */
export const WAITING_TRIGGERS_MAX = 256;

type Result = WorkflowPayloadOf<'workflow:result'>;
type Observed = WorkflowPayloadOf<'workflow:signal'>;

export interface WorkflowStep {
  readonly set?: Partial<WorkflowContext>;
  readonly say?: readonly WorkflowOutput[];
}

/** What follows from one input, gathered: the context as it becomes, and what is said on the way. */
class Course {
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
    const overRun = exceeds(run, limits);
    if (!overRun && !exceeds(tally, rules.limits)) return false;
    if (overRun) this.set({ overBudget: true });
    this.skip(rules.name, trigger, 'budget');
    return true;
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

/** Every action of the workflow machine by the name its graph shows; each is a pure function of context and event. */
export const workflowSteps = {
  /** Exactly one agent:activated or agent:skipped for each agent that listens, now or later. */
  react(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const seen = payloadOf(event, 'workflow:signal');
    const course = new Course(context, event.at);
    for (const match of seen.matches) {
      const rules = rulesOf(context, match.agent);
      const trigger = triggerOf(seen, match);
      const depth = Math.min(rules.limits.depth ?? context.limits.depth, context.limits.depth);
      if (!match.when) course.skip(rules.name, trigger, 'when');
      else if (!rules.allowSelf && seen.within.includes(rules.name)) course.skip(rules.name, trigger, 'self');
      else if (seen.chain >= depth) course.skip(rules.name, trigger, 'depth');
      else if (rules.debounceMs > 0) course.debounce(rules, trigger);
      else course.admit(rules, trigger);
      if (match.when && seen.failed !== undefined)
        course.set({ failures: course.context.failures.filter(({ activation }) => activation !== seen.failed) });
    }
    return course.result();
  },

  refuse(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const seen = payloadOf(event, 'workflow:signal');
    const course = new Course(context, event.at);
    for (const match of seen.matches) course.skip(match.agent, triggerOf(seen, match), match.when ? 'terminated' : 'when');
    return course.result();
  },

  endDebounce(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const { id } = payloadOf(event, 'timer:fired');
    const course = new Course(context, event.at);
    for (const rules of context.agents) {
      const waited = context.debounced[rules.name];
      if (!waited || id !== debounceTimer(rules.name)) continue;
      course.set({ debounced: without(context.debounced, rules.name) });
      course.admit(rules, waited.trigger);
    }
    return course.result();
  },

  takeResult(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const result = payloadOf(event, 'workflow:result');
    const entry = context.live.find(({ activation }) => activation === result.activation)!;
    const rules = rulesOf(context, entry.agent);
    const course = new Course(context, event.at);
    course.tally(entry.agent, result.usage, result.costUsd);
    if (result.ok) complete(course, rules, result);
    else fail(course, rules, result);
    if (result.ok && result.ends) course.terminate({ reason: 'end-when', stops: false }, entry.agent);
    if (course.context.ending === null) course.release(rules);
    return course.result();
  },

  stopLate(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const course = new Course(context, event.at);
    course.terminate({ reason: 'timeout', stops: true });
    return course.result();
  },

  stopAborted(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const course = new Course(context, event.at);
    course.terminate({ reason: 'aborted', stops: true });
    return course.result();
  },

  stopBroken(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const course = new Course(context, event.at);
    const { code, message } = payloadOf(event, 'workflow:fault');
    course.terminate({ reason: 'error', stops: true, error: { code, message } });
    return course.result();
  },

  end(context: WorkflowContext, event: WorkflowEvent): WorkflowStep {
    const { activations, skipped, usage, costUsd, state } = context;
    const [failure] = context.failures;
    const quiet = failure ? 'error' : context.overBudget ? 'budget' : 'quiescent';
    const reason = context.ending?.reason ?? quiet;
    const error = context.ending?.error ?? (reason === 'error' && failure ? { code: failure.code, message: failure.message } : undefined);
    const metrics = { durationMs: event.at - context.startedAt, activations, skipped, usage, costUsd };
    return { say: [{ type: 'workflow:end', payload: { reason, state, metrics, ...(error ? { error } : {}) } }] };
  },
};

function complete(course: Course, { name: agent, updates }: WorkflowAgentRules, result: Result): void {
  const { activation, output, usage, costUsd, emits } = result;
  const entry = course.context.live.find((candidate) => candidate.activation === activation)!;
  const said = (type: string, payload: Readonly<Record<string, unknown>>) => course.say.push({ type, payload, agent, activation });
  if (updates !== undefined) {
    const { state } = course.context;
    const oldValue = Object.hasOwn(state, updates) ? state[updates] : null;
    said(`state:${updates}:changed`, { value: output, key: updates, path: updates, oldValue, newValue: output, agent });
    course.set({ state: { ...state, [updates]: output } });
  }
  const durationMs = course.at - entry.startedAt;
  said('agent:completed', { agent, activation, session: entry.session, output, usage, costUsd, durationMs });
  for (const name of emits) said(name, isObject(output) ? output : { output, agent });
  course.set({ live: course.context.live.filter((candidate) => candidate !== entry) });
}

function fail(course: Course, rules: WorkflowAgentRules, { activation, attempt, error }: Result): void {
  const entry = course.context.live.find((candidate) => candidate.activation === activation)!;
  const { code, message } = error ?? { code: 'internal', message: 'the activation failed' };
  const willRetry = course.context.ending === null && attempt <= rules.limits.retries;
  const { agent, session } = entry;
  const payload = { agent, activation, session, code, message, willRetry, durationMs: course.at - entry.startedAt };
  course.say.push({ type: 'agent:failed', payload, agent, activation });
  const again = {
    ...entry,
    attempt: attempt + 1,
    session: rules.session === 'new' ? newSession(course.context, activation, attempt + 1) : session,
  };
  course.set({
    live: course.context.live.flatMap((candidate) => (candidate !== entry ? [candidate] : willRetry ? [again] : [])),
    ...(willRetry ? {} : { failures: [...course.context.failures, { activation, code, message }] }),
  });
}

function exceeds(
  used: { activations: number; tokens: number; usd: number },
  limits: { activations?: number | undefined; tokens?: number | undefined; usd?: number | undefined },
): boolean {
  const over = (value: number, limit: number | undefined) => limit !== undefined && value >= limit;
  return over(used.activations, limits.activations) || over(used.tokens, limits.tokens) || over(used.usd, limits.usd);
}

/** Known before it is created, so that a restart cannot create a second one. */
function sessionOf(context: WorkflowContext, rules: WorkflowAgentRules, trigger: Trigger, activation: number, attempt: number): string {
  if (rules.session === 'attach' && trigger.session !== null) return trigger.session;
  if (rules.session === 'reuse') return `${context.workflow}_r${context.agents.indexOf(rules) + 1}`;
  return newSession(context, activation, attempt);
}

function newSession({ workflow }: WorkflowContext, activation: number, attempt: number): string {
  return attempt === 1 ? `${workflow}_a${activation}` : `${workflow}_a${activation}_${attempt}`;
}

function triggerOf(seen: Observed, match: Observed['matches'][number]): Trigger {
  const { signal, root, depth, name, cause, chain, session } = seen;
  return { signal, root, depth, name, cause, chain, session: session ?? null, prompt: match.prompt, fault: match.fault ?? null };
}

function causeOf({ signal, root, depth }: Trigger) {
  return { signal, root, depth };
}

function rulesOf(context: WorkflowContext, agent: string): WorkflowAgentRules {
  const rules = context.agents.find(({ name }) => name === agent);
  if (!rules) throw new Error(`the workflow has no agent ${agent}`);
  return rules;
}

type PayloadFor<T extends WorkflowEvent['type']> = Extract<WorkflowEvent, { readonly type: T }>['payload'];

function payloadOf<T extends WorkflowEvent['type']>(event: WorkflowEvent, type: T): PayloadFor<T> {
  if (event.type !== type) throw new Error(`the workflow machine met ${event.type} where only ${type} can be`);
  return event.payload as PayloadFor<T>;
}

function addUsage(a: Usage, b: Usage): Usage {
  return { inputTokens: a.inputTokens + b.inputTokens, outputTokens: a.outputTokens + b.outputTokens };
}

function without<T>(record: Readonly<Record<string, T>>, key: string): Record<string, T> {
  const { [key]: _gone, ...rest } = record;
  return rest;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
