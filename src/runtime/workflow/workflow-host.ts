import { type Activation, debounceTimer, isIdle, TIMEOUT_TIMER, type WorkflowContext } from '../../../machines/workflow-context.ts';
import type { Signal } from '../../contract/signal.ts';
import type { WorkflowResult } from '../../contract/workflow.ts';
import { isAppError } from '../../core/errors.ts';
import type { WorkflowDefinition } from '../../core/workflow.ts';
import { Wakeup } from '../live/wakeup.ts';
import { type ActivationPorts, endQuietly, runActivation } from './activation.ts';
import { advanceWorkflow, type WorkflowCore, type WorkflowDraft } from './workflow-core.ts';
import { WorkflowMatcher } from './workflow-matcher.ts';
import { readTrigger, resultDrafts } from './workflow-outcome.ts';
import type { WorkflowTrail } from './workflow-trail.ts';

/** Signals looked at together; what follows from them is one commit. */
const PAGE_SIGNALS = 200;
/** Wait before an input that the log did not take is offered again; unit: milliseconds. */
const RETRY_MS = 500;
/** Longest wait setTimeout takes; longer ones are set again; unit: milliseconds. */
const TIMER_MS_MAX = 2_147_000_000;

export interface WorkflowStartPoint {
  readonly core: WorkflowCore;
  readonly trail: WorkflowTrail;
  readonly definition: WorkflowDefinition;
  readonly epoch: number;
  /** Log-wide number up to which every signal has been looked at. */
  readonly cursor: number;
  /** Log-wide number of the newest signal of the run's stream. */
  readonly head: number;
}

type Decide = (core: WorkflowCore) => readonly WorkflowDraft[];

/**
 * Carries one run: reads the log in its order, asks the agents, commits what follows, and sees to it that what the state owes is under
 * way. Inputs are decided one after the other; what they cause is appended behind them and read in its turn, so nothing recurses.
 */
export class WorkflowHost {
  readonly id: string;
  readonly done: Promise<WorkflowResult>;
  readonly #ports: ActivationPorts;
  readonly #definition: WorkflowDefinition;
  readonly #matcher: WorkflowMatcher;
  readonly #trail: WorkflowTrail;
  readonly #epoch: number;
  readonly #wakeup = new Wakeup();
  readonly #leave = new AbortController();
  readonly #running = new Map<string, AbortController>();
  readonly #settled = Promise.withResolvers<WorkflowResult>();
  #core: WorkflowCore;
  #cursor: number;
  #head: number;
  #last: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(ports: ActivationPorts, { core, trail, definition, epoch, cursor, head }: WorkflowStartPoint) {
    const { log } = ports.deps;
    this.id = core.id;
    this.done = this.#settled.promise;
    this.done.catch(() => undefined); // Whoever waits hears of it; nobody has to wait.
    this.#ports = ports;
    this.#definition = definition;
    this.#matcher = new WorkflowMatcher(core.id, definition, async (session) => (await log.card(session))?.project ?? null);
    this.#trail = trail;
    this.#epoch = epoch;
    this.#core = core;
    this.#cursor = cursor;
    this.#head = head;
  }

  get core(): WorkflowCore {
    return this.#core;
  }

  /** Starts the router and what the state owes. Call once. */
  begin(fault?: { code: string; message: string }): void {
    this.#reconcile();
    void this.#route(fault);
  }

  /** Resolves when all has settled and workflow:end is in the log. */
  async abort(by: string, reason?: string): Promise<WorkflowResult> {
    await this.#submit(({ snapshot }) =>
      snapshot.context.ending?.stops ? [] : [{ name: 'workflow:abort', payload: { by, ...(reason ? { reason } : {}) }, client: by }],
    );
    return this.done;
  }

  /** Stops everything of this host in memory; the log is untouched and the next process goes on. */
  close(reason: unknown): void {
    if (this.#leave.signal.aborted) return;
    this.#leave.abort(reason);
    clearTimeout(this.#timer);
    this.#wakeup.wake();
    this.#settled.reject(reason);
  }

  get #over(): boolean {
    return this.#leave.signal.aborted || this.#core.snapshot.status !== 'active';
  }

  async #route(fault: { code: string; message: string } | undefined): Promise<void> {
    const { hub, logger } = this.#ports.deps;
    const unwatch = hub.watchAll(() => this.#wakeup.wake());
    try {
      if (fault) await this.#record(() => [{ name: 'workflow:fault', payload: fault }]);
      await this.#follow();
    } catch (error) {
      if (this.#leave.signal.aborted) return;
      logger.error({ err: error, workflow: this.id }, 'the router of a workflow failed; the run is let go, and goes on at the next start');
      this.close(error);
    } finally {
      unwatch();
    }
  }

  async #follow(): Promise<void> {
    while (!this.#over) {
      if (await this.#readOn()) continue;
      if (await this.#settle()) return;
      await this.#wakeup.sleep();
    }
  }

  /** The next page of the log; false when there is none. */
  async #readOn(): Promise<boolean> {
    const { hub, log } = this.#ports.deps;
    if (this.#cursor >= hub.headGseq) return false;
    const recent = hub.recentAllAfter(this.#cursor, PAGE_SIGNALS);
    const page = recent ?? (await log.feed({ after: this.#cursor, limit: PAGE_SIGNALS }));
    if (page.length === 0) return false;
    const drafts: WorkflowDraft[] = [];
    for (const signal of page) {
      const draft = await this.#matcher.look(
        signal,
        () => this.#trail.originOf(signal),
        () => this.#trail.stateAt(signal.gseq),
      );
      if (draft) drafts.push(draft);
    }
    if (drafts.length > 0) await this.#record(() => drafts);
    this.#cursor = page.at(-1)!.gseq;
    this.#trail.pass(this.#cursor);
    return true;
  }

  /** True when the run has ended: nothing is owed and nothing is left to be looked at. */
  async #settle(): Promise<boolean> {
    const isSettled = ({ snapshot }: WorkflowCore) => isIdle(snapshot.context) && this.#cursor >= this.#head;
    if (!isSettled(this.#core)) return false;
    await this.#record((core) => (isSettled(core) ? [{ name: 'workflow:settled', payload: { gseq: this.#cursor } }] : []));
    return this.#over;
  }

  /** An input is offered until the log takes it: a full disk must not lose an outcome. */
  async #record(decide: Decide): Promise<void> {
    while (!this.#over) {
      try {
        return await this.#submit(decide);
      } catch (error) {
        if (!isAppError(error, 'storage_failed') && !isAppError(error, 'overloaded')) throw error;
        this.#ports.deps.logger.warn({ err: error, workflow: this.id }, 'the log did not take an input of a workflow; it is offered again');
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
  }

  #submit(decide: Decide): Promise<void> {
    const committed = this.#last.then(() => this.#commit(decide));
    this.#last = committed.catch(() => undefined); // The one who submitted hears of it.
    return committed;
  }

  async #commit(decide: Decide): Promise<void> {
    if (this.#over) return;
    const { log, clock, hub } = this.#ports.deps;
    const stream = `workflow:${this.id}`;
    let core = this.#core;
    const signals = [];
    for (const draft of decide(core)) {
      if (core.snapshot.status !== 'active') break;
      const step = advanceWorkflow(core, draft, clock.now());
      core = step.core;
      signals.push(...step.signals);
    }
    if (signals.length === 0) return;
    const { firstGseq } = await log.append({ stream, epoch: this.#epoch, expected: this.#core.seq, signals });
    const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
    for (const signal of stored) this.#trail.take(signal);
    this.#core = core;
    this.#head = stored.at(-1)!.gseq;
    hub.publish(stream, stored);
    this.#reconcile();
  }

  #reconcile(): void {
    if (this.#leave.signal.aborted) return;
    const { context, status } = this.#core.snapshot;
    if (status !== 'active') {
      this.#end();
      return;
    }
    for (const activation of context.live) if (!this.#running.has(keyOf(activation))) void this.#run(activation);
    if (context.ending?.stops) for (const controller of this.#running.values()) controller.abort();
    this.#arm(context);
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#ports.deps.hub.forget(`workflow:${this.id}`);
    for (const [index, { session }] of this.#core.started.agents.entries())
      if (session === 'reuse') void endQuietly(this.#ports, this.id, `${this.id}_r${index + 1}`);
    this.#settled.resolve({ id: this.id, ...this.#core.end! });
  }

  async #run(activation: Activation): Promise<void> {
    const key = keyOf(activation);
    const controller = new AbortController();
    this.#running.set(key, controller);
    const rules = this.#core.started.agents.find(({ name }) => name === activation.agent)!;
    const { name, project } = this.#core.started;
    const cause = this.#core.activated.get(activation.activation) ?? this.#core.start;
    try {
      const job = {
        workflow: { id: this.id, name, project },
        rules,
        activation,
        cause,
        stop: controller.signal,
        leave: this.#leave.signal,
      };
      const outcome = await runActivation(this.#ports, job);
      const asks = this.#definition.agents.some((agent) => agent.name === activation.agent && agent.emitWhen);
      const trigger = asks ? await readTrigger(this.#ports.deps.log, this.id, activation) : null;
      const asked = { definition: this.#definition, matcher: this.#matcher, activation, outcome, trigger };
      await this.#record((core) => resultDrafts(core, asked));
    } catch (error) {
      if (!this.#leave.signal.aborted)
        this.#ports.deps.logger.error({ err: error, workflow: this.id, key }, 'a result could not be recorded');
    } finally {
      this.#running.delete(key);
    }
  }

  #arm(context: WorkflowContext): void {
    clearTimeout(this.#timer);
    const dueAt = Math.min(...timersOf(context).map((timer) => timer.dueAt));
    if (!Number.isFinite(dueAt)) return;
    const { clock } = this.#ports.deps;
    const wait = Math.min(Math.max(0, dueAt - clock.now()), TIMER_MS_MAX);
    this.#timer = setTimeout(() => {
      const due = (core: WorkflowCore) => timersOf(core.snapshot.context).filter((timer) => timer.dueAt <= clock.now());
      this.#record((core) => due(core).map(({ id }) => ({ name: 'timer:fired', payload: { id } })))
        .then(() => !this.#over && this.#arm(this.#core.snapshot.context))
        .catch((error: unknown) => this.#ports.deps.logger.error({ err: error, workflow: this.id }, 'a timer could not be recorded'));
    }, wait);
    this.#timer.unref();
  }
}

function timersOf({ debounced, deadlineAt, ending }: WorkflowContext): { id: string; dueAt: number }[] {
  const debounces = Object.entries(debounced).map(([agent, { dueAt }]) => ({ id: debounceTimer(agent), dueAt }));
  return ending?.stops ? debounces : [...debounces, { id: TIMEOUT_TIMER, dueAt: deadlineAt }];
}

function keyOf({ activation, attempt }: Activation): string {
  return `${activation}.${attempt}`;
}
