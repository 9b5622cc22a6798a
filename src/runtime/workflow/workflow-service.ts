import { hash } from 'node:crypto';
import { daemonOperations } from '../../contract/daemon.ts';
import type { Signal } from '../../contract/signal.ts';
import type { WorkflowAgentRules } from '../../contract/workflow.ts';
import type { WorkflowDamage } from '../../contract/workflow-operations.ts';
import type { WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { newId } from '../../core/clock.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import { nameHint } from '../../core/nearest-name.ts';
import { canonicalJson } from '../../core/signal-seal.ts';
import type { WorkflowAgent, WorkflowDefinition, WorkflowRun, WorkflowRuns, WorkflowStart } from '../../core/workflow.ts';
import { checkWorkflow, compileWorkflow } from '../../core/workflow-compile.ts';
import { compileOutputCheck } from '../../tools/tool-input.ts';
import { chooseModel } from '../model-choice.ts';
import { requireTools } from '../tool-choice.ts';
import type { ActivationPorts } from './activation.ts';
import { beginWorkflow, noteWorkflow, type WorkflowCore } from './workflow-core.ts';
import { damageOf } from './workflow-damage.ts';
import { WorkflowFeed } from './workflow-feed.ts';
import { type FoldedWorkflow, readWorkflow } from './workflow-fold.ts';
import { WorkflowHost, type WorkflowHostPorts } from './workflow-host.ts';
import { readTrace } from './workflow-trace.ts';
import { WorkflowTrail } from './workflow-trail.ts';

/** Workflows that may run at once. */
export const WORKFLOWS_MAX = 256;
/** Hosts of ended workflows that stay in memory. */
const ENDED_KEPT_MAX = 64;
/** Streams looked at together when the process starts. */
const SWEEP_STREAMS = 100;
const RETRY_AFTER_MS = 5_000;
const LOST = { code: 'workflow_lost', message: 'it was defined in code, and the process that had the code is gone' };

/** Starts workflows, brings them back after a restart, and lets go of them at shutdown. */
export class WorkflowService implements WorkflowRuns {
  readonly #ports: WorkflowHostPorts;
  readonly #hosts = new Map<string, WorkflowHost>();
  /** For readers that have not seen the end yet. */
  readonly #ended = new Map<string, WorkflowHost>();
  readonly #coming = new Map<string, Promise<WorkflowHost>>();
  readonly #starting = new Map<string, Promise<WorkflowRun>>();
  readonly #damaged = new Map<string, WorkflowDamage>();
  #closed = false;
  /** Until the unfinished runs of an earlier process are here, nobody knows what they have read. */
  #swept = false;

  constructor(ports: ActivationPorts) {
    this.#ports = { ...ports, feed: new WorkflowFeed(ports.deps) };
  }

  /** In memory now: running, or just ended. */
  peek(id: string): WorkflowHost | undefined {
    return this.#hosts.get(id) ?? this.#ended.get(id);
  }

  start(definition: WorkflowDefinition, options: WorkflowStart): Promise<WorkflowRun> {
    const id = options.id ?? newId('wfl');
    // Two starts of the same id at once are one after the other, so that the second finds the first.
    const before = this.#starting.get(id) ?? Promise.resolve(null);
    const started = before.catch(() => null).then(() => this.#start(id, definition, options));
    this.#starting.set(id, started);
    const forget = () => this.#starting.get(id) === started && this.#starting.delete(id);
    started.then(forget, forget);
    return started;
  }

  async get(id: string): Promise<WorkflowRun> {
    const host = this.#hosts.get(id);
    if (host) return this.#runOf(host.id, host.done);
    const { core } = await this.#read(id);
    if (core.end) return this.#runOf(id, Promise.resolve({ id, ...core.end }));
    // While the process shuts down a run is known and goes on at the next start: only waiting for its end fails.
    if (this.#closed) return this.#runOf(id, rejected(drainingError()));
    return this.#runOf(id, (await this.#comeBack(id)).done);
  }

  /** The state of a workflow, wherever it is. @throws AppError `workflow_not_found` */
  async coreOf(id: string): Promise<WorkflowCore> {
    return this.peek(id)?.core ?? (await this.#read(id)).core;
  }

  /** Workflows whose logs were found damaged; they do not go on. */
  get damaged(): ReadonlyMap<string, WorkflowDamage> {
    return this.#damaged;
  }

  /** Forgets the log of one that does not run. */
  async purge(id: string): Promise<void> {
    await this.#ports.deps.log.purge(`workflow:${id}`);
    this.#ended.delete(id);
    this.#damaged.delete(id);
  }

  async #read(id: string): Promise<FoldedWorkflow> {
    try {
      return await readWorkflow(this.#ports.deps.log, id);
    } catch (error) {
      const damage = damageOf(error);
      if (damage) this.#damaged.set(id, damage);
      throw error;
    }
  }

  /** Log-wide number up to which every run has read: what is newer must not be dropped. */
  get readUntil(): number {
    if (!this.#swept || this.#coming.size > 0) return 0;
    return Math.min(...[...this.#hosts.values()].map(({ cursor }) => cursor));
  }

  /** Workflows whose last process left them running go on. */
  async sweep(): Promise<number> {
    try {
      return await this.#sweep();
    } finally {
      this.#swept = true;
    }
  }

  async #sweep(): Promise<number> {
    const { log, logger } = this.#ports.deps;
    let resumed = 0;
    let before: number | undefined;
    for (;;) {
      const entries = await log.streams({ prefix: 'workflow:', limit: SWEEP_STREAMS, ...(before === undefined ? {} : { before }) });
      for (const { name, head } of entries) {
        const id = name.slice('workflow:'.length);
        if (head === 0 || this.#hosts.has(id)) continue;
        try {
          // One whose newest signal is unreadable is read whole, which tells what is wrong with it.
          const newest = await log.readBefore(name, head + 1, 1).catch(orNull);
          if (newest && (newest.length === 0 || newest[0]!.name === 'workflow:end')) continue;
          await this.#comeBack(id);
          resumed += 1;
        } catch (error) {
          logger.error({ err: error, workflow: id }, 'a workflow could not be resumed');
        }
      }
      if (entries.length < SWEEP_STREAMS) return resumed;
      before = entries.at(-1)!.place;
    }
  }

  /** Lets go of all runs: their logs keep what is owed. */
  close(): void {
    this.#closed = true;
    const reason = drainingError();
    for (const host of this.#hosts.values()) host.close(reason);
  }

  async #start(id: string, given: WorkflowDefinition, { client, limit }: WorkflowStart): Promise<WorkflowRun> {
    const { deps } = this.#ports;
    checkWorkflow(given);
    const bodyDigest = hash('sha256', canonicalJson(given.source ?? { ...given, agents: given.agents.map(rulesOf) }), 'base64url');
    const [existing] = await deps.log.read(`workflow:${id}`, 0, 1);
    if (existing) {
      if (existing.payload.bodyDigest === bodyDigest) return this.get(id);
      throw new AppError('id_conflict', { detail: `workflow ${id} exists and was started with another definition` });
    }
    // A run that exists is answered whatever the load; only a new one is refused.
    deps.supervisor.admit();
    this.#refuseTooMany();
    const definition = { ...given, agents: await this.#resolveAgents(given.agents) };
    const { core, signals } = beginWorkflow(
      { ...startOf(id, definition, bodyDigest), ...(limit ? { limit } : {}) },
      deps.clock.now(),
      client,
    );
    const { firstGseq } = await deps.log.append({ stream: `workflow:${id}`, epoch: 0, expected: 0, signals });
    const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
    const trail = new WorkflowTrail(id);
    for (const signal of stored) trail.take(signal);
    const point = { core, trail, definition, epoch: 0, cursor: firstGseq - 1, head: stored.at(-1)!.gseq };
    const host = this.#adopt(new WorkflowHost(this.#ports, point));
    deps.hub.publish(`workflow:${id}`, stored);
    host.begin();
    return this.#runOf(id, host.done);
  }

  #comeBack(id: string): Promise<WorkflowHost> {
    const coming = this.#coming.get(id) ?? this.#bringBack(id).finally(() => this.#coming.delete(id));
    this.#coming.set(id, coming);
    return coming;
  }

  async #bringBack(id: string): Promise<WorkflowHost> {
    this.#refuseClosed();
    const { log, clock, hub } = this.#ports.deps;
    const stream = `workflow:${id}`;
    const { epoch } = await log.own(stream);
    const { core: folded, trail, cursor } = await this.#read(id);
    const { core, signals } = noteWorkflow(folded, { name: 'workflow:owned', payload: { epoch, pid: process.pid } }, clock.now());
    const { firstGseq } = await log.append({ stream, epoch, expected: folded.seq, signals });
    const { definition, fault } = definitionOf(core);
    const host = this.#adopt(new WorkflowHost(this.#ports, { core, trail, definition, epoch, cursor, head: firstGseq }));
    hub.publish(stream, [{ ...signals[0]!, gseq: firstGseq }]);
    host.begin(fault);
    return host;
  }

  #adopt(host: WorkflowHost): WorkflowHost {
    this.#hosts.set(host.id, host);
    const leave = () => {
      this.#hosts.delete(host.id);
      this.#ended.set(host.id, host);
      if (this.#ended.size > ENDED_KEPT_MAX) this.#ended.delete(this.#ended.keys().next().value!);
    };
    host.done.then(leave, leave);
    return host;
  }

  #refuseTooMany(): void {
    this.#refuseClosed();
    if (this.#hosts.size < WORKFLOWS_MAX) return;
    throw new AppError('too_many_workflows', {
      detail: `${WORKFLOWS_MAX} workflows run; wait for one to end`,
      retryAfterMs: RETRY_AFTER_MS,
    });
  }

  #refuseClosed(): void {
    if (this.#closed) throw drainingError();
  }

  /** Which agents of the roster they are, and whether their models exist; fixed at the start. @throws AppError `unknown_agent`, `unknown_tool`, `unknown_provider`, `unknown_model` */
  async #resolveAgents(agents: readonly WorkflowAgent[]): Promise<WorkflowAgent[]> {
    const { deps } = this.#ports;
    const roster = (await deps.daemon.call(daemonOperations.listAgents, {})).agents.map(({ name }) => name);
    const own = agents.map(({ name }) => name).filter((name) => !roster.includes(name));
    return agents.map((agent, index) => {
      if (agent.tools) requireTools(deps, agent.tools, `/agents/${index}/tools`);
      if (agent.output) requireSchema(agent.output, `/agents/${index}/output`);
      if (agent.agent !== undefined) requireAgent(agent.agent, roster, `/agents/${index}/agent`);
      for (const [at, name] of agent.from.agents?.entries() ?? [])
        requireAgent(name, [...own, ...roster], `/agents/${index}/from/agents/${at}`);
      if (agent.provider !== undefined || agent.model !== undefined) chooseModel(deps, agent);
      return agent.agent === undefined && roster.includes(agent.name) ? { ...agent, agent: agent.name } : agent;
    });
  }

  #runOf(id: string, done: WorkflowRun['done']): WorkflowRun {
    return {
      id,
      done,
      abort: async (reason) => (await this.#hosts.get(id)?.abort('code', reason)) ?? done,
      signals: () => readTrace(this.#ports.deps.log, id),
    };
  }
}

function drainingError(): AppError {
  return new AppError('draining', { detail: 'the runtime is shutting down; the workflow goes on at the next start' });
}

function rejected(error: AppError): Promise<never> {
  const done = Promise.reject(error);
  done.catch(() => undefined); // Whoever waits hears of it; nobody has to wait.
  return done;
}

/** @throws AppError `unknown_agent` with the names most like it */
function requireAgent(name: string, names: readonly string[], pointer: string): void {
  if (names.includes(name)) return;
  const detail = `no agent "${name}"; ${nameHint(name, names, 'known')}. Or add it to agents.roster in agent.yaml`;
  throw new AppError('unknown_agent', { detail, errors: [{ pointer, detail }] });
}

/** Told before a model is paid for an answer that nobody can check. @throws AppError `invalid_workflow` */
function requireSchema(schema: Readonly<Record<string, unknown>>, pointer: string): void {
  try {
    compileOutputCheck(schema);
  } catch (error) {
    if (!isAppError(error)) throw error;
    const detail = `\`output\` ${error.errors?.[0]?.detail ?? error.detail}`;
    throw new AppError('invalid_workflow', { detail, errors: [{ pointer, detail }] });
  }
}

/** @throws what is no damage of the log */
function orNull(error: unknown): null {
  if (damageOf(error)) return null;
  throw error;
}

function startOf(id: string, definition: WorkflowDefinition, bodyDigest: string): WorkflowPayloadOf<'workflow:start'> {
  const { name, agents, state, input = null, timeoutMs, limits, project, source } = definition;
  const rules = agents.map(rulesOf);
  return { workflow: id, name, agents: rules, state: { ...state }, input, limits: { ...limits, timeoutMs }, project, source, bodyDigest };
}

/** What is data of an agent. */
function rulesOf({ prompt: _prompt, when: _when, emitWhen: _emitWhen, ...rules }: WorkflowAgent): WorkflowAgentRules {
  return rules;
}

/** Compiled again from what its first signal says; one that was defined in code can only end. */
function definitionOf({ started }: WorkflowCore): { definition: WorkflowDefinition; fault?: { code: string; message: string } } {
  if (started.source) {
    const compiled = compileWorkflow(started.source);
    const agents = compiled.agents.map((agent, index) => ({ ...agent, ...started.agents[index]! }));
    return { definition: { ...compiled, agents } };
  }
  const agents = started.agents.map((rules): WorkflowAgent => ({ ...rules, prompt: () => '' }));
  const { name, state, input, limits, project } = started;
  return { definition: { name, agents, state, input, timeoutMs: limits.timeoutMs, limits, project, source: null }, fault: LOST };
}
