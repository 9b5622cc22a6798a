import type { Signal } from './contract/signal.ts';
import { CustomSignalName, StoredWorkflow, type WorkflowAgentSource, type WorkflowLimits } from './contract/workflow.ts';
import { isCustomName } from './contract/workflow-signals.ts';
import { AppError } from './core/errors.ts';
import type { Provider } from './core/provider.ts';
import { PAYLOAD_DEPTH_MAX } from './core/signal-seal.ts';
import type { WorkflowAgent, WorkflowDefinition } from './core/workflow.ts';
import { compileWorkflow } from './core/workflow-compile.ts';

export type WorkflowStateShape = Readonly<Record<string, unknown>>;

/** A signal by name, with the type of its payload. */
export interface SignalDefinition<Payload> {
  readonly name: string;
  /** Is it this signal? Then its payload is known. */
  is(signal: Signal): signal is Signal & { readonly payload: Payload & Signal['payload'] };
}

/** What an agent's functions look at: frozen, as it was at the place of the trigger in the log. */
export interface ReactiveScope<State> {
  readonly signal: Pick<Signal, 'id' | 'name' | 'payload' | 'timestamp' | 'source'>;
  readonly state: State;
  readonly input: unknown;
  readonly workflow: { readonly id: string; readonly name: string };
}

export interface ReactiveOutcome<State> extends ReactiveScope<State> {
  /** The answer; parsed when the agent has an output schema. */
  readonly output: unknown;
}

type Rules = Partial<
  Omit<WorkflowAgentSource, 'name' | 'prompt' | 'activateOn' | 'when' | 'emits' | 'emitWhen' | 'updates' | 'provider' | 'from' | 'limits'>
>;

/** An agent that reacts to signals. Functions are pure: what they throw skips or fails the activation. */
export interface ReactiveAgent<State extends WorkflowStateShape = WorkflowStateShape> extends Rules {
  /** What the model is asked: a template with `{{ signal.payload.x }}`, `{{ state.x }}` and `{{ input }}`, or a function. */
  readonly prompt: string | ((scope: ReactiveScope<State>) => string);
  /** Patterns of signal names, and regular expressions over the whole name, without the flags g and y. */
  readonly activateOn: readonly (string | RegExp | SignalDefinition<unknown>)[];
  /** Signals that follow its success; the payload is its output. */
  readonly emits?: readonly (string | SignalDefinition<unknown>)[];
  /** Signals that follow only when their condition holds. */
  readonly emitWhen?: Readonly<Record<string, string | ((scope: ReactiveOutcome<State>) => boolean)>>;
  /** Whether it works on a signal: an expression, or a function. */
  readonly when?: string | ((scope: ReactiveScope<State>) => boolean);
  /** Key of the state its output is written to. */
  readonly updates?: Extract<keyof State, string>;
  /** The name of a configured provider, or one of your own. */
  readonly provider?: string | Provider;
  readonly from?: Partial<WorkflowAgentSource['from']>;
  readonly limits?: Partial<WorkflowAgentSource['limits']>;
}

/** What a workflow is, without how it is run. */
export interface WorkflowTerms<State extends WorkflowStateShape> {
  readonly name?: string;
  /** By name. */
  readonly agents: Readonly<Record<string, ReactiveAgent<State>>>;
  /** State it begins with. */
  readonly state?: State;
  readonly input?: unknown;
  /** The run ends when it holds: an expression over `state`, or a function; looked at after each update. */
  readonly endWhen?: string | ((state: State) => boolean);
  /** Longest run; unit: milliseconds. */
  readonly timeout?: number;
  readonly limits?: Partial<WorkflowLimits>;
  readonly project?: string;
}

/**
 * A signal of your own. @throws AppError `invalid_workflow` when the name is none, or one of Signet's own
 */
export function defineSignal<Payload = unknown>(name: string): SignalDefinition<Payload> {
  const isName = CustomSignalName.safeParse(name).success;
  if (!isName || !isCustomName(name)) {
    const why = isName ? 'is a name of Signet’s own signals; choose another' : 'must be a signal name such as `analysis:complete`';
    throw new AppError('invalid_workflow', { detail: `"${name}" ${why}` });
  }
  return { name, is: (signal): signal is never => signal.name === name };
}

const PROVIDER_TEXTS = ['id', 'kind', 'defaultModel'] as const;
const PROVIDER_FUNCTIONS = ['complete', 'stream', 'available', 'models'] as const;

/**
 * Undefined is none, which is right as well.
 *
 * @throws AppError `invalid_workflow`: what is given is no provider, for example the settings of one
 */
export function requireProvider(given: unknown, pointer: string): void {
  if (given === undefined) return;
  const members: Readonly<Record<string, unknown>> = typeof given === 'object' && given !== null ? membersOf(given) : {};
  const missing = [
    ...PROVIDER_TEXTS.filter((name) => typeof members[name] !== 'string' || members[name] === ''),
    ...PROVIDER_FUNCTIONS.filter((name) => typeof members[name] !== 'function'),
  ];
  if (missing.length === 0) return;
  const accepted =
    `a Provider: an object with the texts ${PROVIDER_TEXTS.join(', ')} and the functions ${PROVIDER_FUNCTIONS.join(', ')}. ` +
    "A provider of agent.yaml (runtime.providers) or the environment is given by its name, as `provider: 'name'` of an agent";
  const detail = `must be ${accepted}. This one lacks ${missing.join(', ')}`;
  throw new AppError('invalid_workflow', { detail: `${pointer} ${detail}`, errors: [{ pointer, detail }] });
}

/** Members by name, those of its class too. */
function membersOf(given: object): Record<string, unknown> {
  return Object.fromEntries([...PROVIDER_TEXTS, ...PROVIDER_FUNCTIONS].map((name) => [name, Reflect.get(given, name)]));
}

/** JSON knows no BigInt, and nothing that is in itself. @throws AppError `invalid_workflow`, naming the place */
function requireJson(value: unknown, pointer: string, above: readonly unknown[] = []): void {
  const refuse = (detail: string) => new AppError('invalid_workflow', { detail: `${pointer} ${detail}`, errors: [{ pointer, detail }] });
  if (typeof value === 'bigint') throw refuse(`is the BigInt ${value}n, which JSON does not know; give a number or a text`);
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return;
  if (above.includes(value)) throw refuse('holds itself, which JSON cannot say; give a copy without the circle');
  if (above.length >= PAYLOAD_DEPTH_MAX) throw refuse(`is nested deeper than ${PAYLOAD_DEPTH_MAX}`);
  for (const [key, member] of Object.entries(value)) requireJson(member, `${pointer}/${escaped(key)}`, [...above, value]);
}

/** A part of a JSON pointer, RFC 6901. */
function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Providers given as objects, each once. */
export function providersOf(agents: Readonly<Record<string, ReactiveAgent<never>>>): Provider[] {
  const providers = Object.values(agents).flatMap(({ provider }) => (typeof provider === 'object' ? [provider] : []));
  return [...new Set(providers)];
}

/**
 * The definition in the form the runtime takes. Text is compiled; functions are taken as they are, and then only this process can run it.
 *
 * @throws AppError `invalid_workflow`, `invalid_expression`, `invalid_pattern`, naming the field
 */
export function defineWorkflow<State extends WorkflowStateShape>(terms: WorkflowTerms<State>): WorkflowDefinition {
  const { name = 'workflow', agents, state, input, endWhen, timeout, limits, project } = terms;
  for (const [index, { provider }] of Object.values(agents).entries())
    if (typeof provider !== 'string') requireProvider(provider, `/agents/${index}/provider`);
  requireJson(input, '/input');
  requireJson(state, '/state');
  const parsed = StoredWorkflow.safeParse(
    defined({
      name,
      agents: Object.entries(agents).map(([key, agent]) => sourceOf(key, agent as ReactiveAgent<never>)),
      state,
      input: input ?? null,
      endWhen: typeof endWhen === 'function' ? 'false' : endWhen,
      timeoutMs: timeout,
      limits,
      project,
    }),
  );
  if (!parsed.success) {
    const errors = parsed.error.issues.map(({ path, message }) => ({
      pointer: path.map((part) => `/${String(part)}`).join(''),
      detail: message,
    }));
    const detail = errors.map((error) => `${error.pointer} ${error.detail}`).join('; ');
    throw new AppError('invalid_workflow', { detail, errors });
  }
  const compiled = compileWorkflow(parsed.data);
  const inCode = Object.values(agents).map((agent) => functionsOf(agent as ReactiveAgent<never>));
  const hasCode = typeof endWhen === 'function' || inCode.some((functions) => Object.keys(functions).length > 0);
  return {
    ...compiled,
    agents: compiled.agents.map((agent, index) => withFunctions(agent, inCode[index]!)),
    ...(typeof endWhen === 'function' ? { endWhen: endWhen as WorkflowDefinition['endWhen'] } : {}),
    source: hasCode ? null : compiled.source,
  };
}

/** As data; a text stands for each function. */
function sourceOf(name: string, agent: ReactiveAgent<never>): Record<string, unknown> {
  const { prompt, activateOn, emits, emitWhen, when, provider, ...rules } = agent;
  const text = (value: unknown) => (typeof value === 'function' ? 'true' : value);
  return defined({
    ...rules,
    name,
    prompt: text(prompt),
    activateOn: activateOn.map((signal) => (signal instanceof RegExp ? storedOf(signal) : nameOf(signal))),
    emits: emits?.map(nameOf),
    when: text(when),
    emitWhen: emitWhen && Object.fromEntries(Object.entries(emitWhen).map(([emitted, condition]) => [emitted, text(condition)])),
    provider: typeof provider === 'object' ? provider.id : provider,
  });
}

function storedOf({ source, flags }: RegExp): { regexp: string; flags: string } {
  return { regexp: source, flags };
}

type Functions = Partial<Pick<WorkflowAgent, 'prompt' | 'when' | 'emitWhen'>>;

function functionsOf({ prompt, when, emitWhen = {} }: ReactiveAgent<never>): Functions {
  const conditions = Object.entries(emitWhen).filter(([, condition]) => typeof condition === 'function');
  return {
    ...(typeof prompt === 'function' ? { prompt: prompt as WorkflowAgent['prompt'] } : {}),
    ...(typeof when === 'function' ? { when: when as WorkflowAgent['when'] } : {}),
    ...(conditions.length > 0 ? { emitWhen: Object.fromEntries(conditions) as WorkflowAgent['emitWhen'] } : {}),
  };
}

function withFunctions(agent: WorkflowAgent, functions: Functions): WorkflowAgent {
  const emitWhen = { ...agent.emitWhen, ...functions.emitWhen };
  return { ...agent, ...functions, ...(Object.keys(emitWhen).length > 0 ? { emitWhen } : {}) };
}

function nameOf(signal: string | SignalDefinition<unknown>): string {
  return typeof signal === 'string' ? signal : signal.name;
}

function defined(members: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
