import type { WorkflowAgentRules } from '../src/contract/workflow.ts';
import type { WorkflowPayloadOf } from '../src/contract/workflow-signals.ts';
import { debounceTimer, type Trigger, type WorkflowContext, type WorkflowEvent } from './workflow-context.ts';
import { Course, newSession, type WorkflowStep, without } from './workflow-course.ts';

type Result = WorkflowPayloadOf<'workflow:result'>;
type Observed = WorkflowPayloadOf<'workflow:signal'>;

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

function triggerOf(seen: Observed, match: Observed['matches'][number]): Trigger {
  const { signal, root, depth, name, cause, chain, session } = seen;
  return { signal, root, depth, name, cause, chain, session: session ?? null, prompt: match.prompt, fault: match.fault ?? null };
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
