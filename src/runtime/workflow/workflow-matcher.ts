import type { CallerLimit } from '../../contract/scope.ts';
import { PROMPT_CHARS_MAX } from '../../contract/session.ts';
import type { Signal } from '../../contract/signal.ts';
import { deepFreeze } from '../../core/deep-freeze.ts';
import { AppError } from '../../core/errors.ts';
import type { NameMatcher } from '../../core/signal-pattern.ts';
import type { TriggerScope, WorkflowAgent, WorkflowDefinition } from '../../core/workflow.ts';
import { compileListener } from '../../core/workflow-compile.ts';
import type { WorkflowDraft } from './workflow-core.ts';
import type { Origin } from './workflow-trail.ts';

/** What is told of a failure in code of a user; unit: characters. */
const MESSAGE_CHARS_MAX = 2_000;
/** Sessions whose project is remembered. */
const PROJECTS_CACHED_MAX = 10_000;
/** The router's own notes: they tell what it did, and start nothing. A refusal must not be refused again. */
const NOTES = new Set([
  'workflow:signal',
  'workflow:result',
  'workflow:settled',
  'workflow:abort',
  'workflow:fault',
  'workflow:owned',
  'workflow:terminating',
  'workflow:end',
  'agent:skipped',
  'timer:set',
  'timer:fired',
]);

type SignalDraft = Extract<WorkflowDraft, { name: 'workflow:signal' }>;
type Match = SignalDraft['payload']['matches'][number];

interface Listener {
  readonly agent: WorkflowAgent;
  readonly wants: NameMatcher;
}

/** Asks the agents of one run what they say of a signal. */
export class WorkflowMatcher {
  readonly #id: string;
  readonly #definition: WorkflowDefinition;
  readonly #listeners: readonly Listener[];
  readonly #projectOf: (session: string) => Promise<string | null>;
  readonly #projects = new Map<string, string | null>();
  readonly #limit: CallerLimit | undefined;

  /** @throws AppError `invalid_pattern` */
  /** @param limit  of the token that started the run: what it may not read starts nothing */
  constructor(id: string, definition: WorkflowDefinition, projectOf: (session: string) => Promise<string | null>, limit?: CallerLimit) {
    this.#limit = limit;
    this.#id = id;
    this.#definition = definition;
    this.#projectOf = projectOf;
    this.#listeners = definition.agents.map((agent, index) => ({
      agent,
      wants: compileListener(agent.activateOn, `/agents/${index}/activateOn`),
    }));
  }

  /** What has to be looked at: names of the run's own signals, and names that count wherever they come from. */
  get wishes(): { own: NameMatcher; elsewhere: NameMatcher | null } {
    const { agents } = this.#definition;
    // Which sessions an attached run is in only its trail knows, so their signals are taken by name.
    const isAttached = agents.some(({ session }) => session === 'attach');
    const wide = this.#listeners.filter(({ agent }) => isAttached || agent.from.scope !== 'self');
    const anyOf = (listeners: readonly Listener[]) => (name: string) => listeners.some(({ wants }) => wants(name));
    return { own: anyOf(this.#listeners), elsewhere: wide.length === 0 ? null : anyOf(wide) };
  }

  /** Null when nobody listens to it. */
  async look(signal: Signal, originOf: () => Origin, stateAt: () => TriggerScope['state']): Promise<SignalDraft | null> {
    const ours = signal.stream === `workflow:${this.#id}`;
    if (ours ? NOTES.has(signal.name) : signal.stream.startsWith('workflow:')) return null;
    const named = this.#listeners.filter(({ wants }) => wants(signal.name));
    if (named.length === 0) return null;
    if (!ours && !(await this.#mayRead(signal))) return null;
    const origin = originOf();
    const matches: Match[] = [];
    for (const { agent } of named)
      if (await this.#inScope(agent, signal, origin)) matches.push(ask(agent, this.scopeOf(signal, stateAt())));
    if (matches.length === 0) return null;
    const { id, name, gseq, source } = signal;
    return {
      name: 'workflow:signal',
      payload: {
        signal: id,
        root: source.root,
        depth: source.depth,
        name,
        gseq,
        cause: origin.activation,
        chain: origin.chain,
        within: [...origin.within],
        ...(source.session === undefined ? {} : { session: source.session }),
        ...(ours && name === 'agent:failed' ? { failed: signal.payload.activation as number } : {}),
        matches,
      },
    };
  }

  scopeOf({ id, name, payload, timestamp, source }: Signal, state: TriggerScope['state']): TriggerScope {
    const { name: workflow, input } = this.#definition;
    const signal = structuredClone({ id, name, payload, timestamp, source });
    return deepFreeze({ signal, state, input, workflow: { id: this.#id, name: workflow } });
  }

  async #inScope({ name, agent, from }: WorkflowAgent, { source }: Signal, origin: Origin): Promise<boolean> {
    if (from.agents && !(origin.agent !== undefined && from.agents.includes(origin.agent))) return false;
    if (origin.own || from.scope === 'global') return true;
    if (from.scope === 'agent') return source.agent === (agent ?? name);
    return from.scope === 'project' && source.session !== undefined && (await this.#project(source.session)) === this.#definition.project;
  }

  /** Signals of no session belong to no project. */
  async #mayRead({ source }: Signal): Promise<boolean> {
    const { agent, project } = this.#limit ?? {};
    if (agent !== undefined && source.agent !== agent) return false;
    return project === undefined || (source.session !== undefined && (await this.#project(source.session)) === project);
  }

  async #project(session: string): Promise<string | null> {
    const known = this.#projects.get(session);
    if (known !== undefined) return known;
    const project = await this.#projectOf(session);
    if (this.#projects.size >= PROJECTS_CACHED_MAX) this.#projects.clear();
    this.#projects.set(session, project);
    return project;
  }
}

function ask({ name: agent, when, prompt }: WorkflowAgent, scope: TriggerScope): Match {
  try {
    if (when && !when(scope)) return { agent, when: false, prompt: '' };
  } catch (error) {
    return { agent, when: false, prompt: '', fault: faultOf(error, 'when') };
  }
  try {
    const text = prompt(scope);
    if (text.trim() === '') throw new AppError('invalid_workflow', { detail: 'the prompt came out empty' });
    if (text.length > PROMPT_CHARS_MAX)
      throw new AppError('invalid_workflow', { detail: `the prompt came out longer than ${PROMPT_CHARS_MAX} characters` });
    return { agent, when: true, prompt: text };
  } catch (error) {
    return { agent, when: true, prompt: '', fault: faultOf(error, 'prompt') };
  }
}

/** Code of a user failed; it is told like any failure. */
export function faultOf(error: unknown, part: string): { code: string; message: string } {
  return { code: error instanceof AppError ? error.code : 'invalid_workflow', message: `${part}: ${messageOf(error)}` };
}

/** Anything can be thrown, also what has no text. */
function messageOf(error: unknown): string {
  try {
    return String(error instanceof AppError ? error.detail : error instanceof Error ? error.message : error).slice(0, MESSAGE_CHARS_MAX);
  } catch {
    return 'it threw something that has no text';
  }
}
