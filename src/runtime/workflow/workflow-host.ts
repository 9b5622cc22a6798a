import { type Activation, debounceTimer, isIdle, TIMEOUT_TIMER, type WorkflowContext } from '../../../machines/workflow-context.ts';
import type { WorkflowResult } from '../../contract/workflow.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import type { WorkflowDefinition } from '../../core/workflow.ts';
import { Wakeup } from '../live/wakeup.ts';
import { type ActivationPorts, endQuietly, runActivation } from './activation.ts';
import { endBroken, type WorkflowCore, type WorkflowDraft } from './workflow-core.ts';
import type { FeedSeat, WorkflowFeed } from './workflow-feed.ts';
import { type JournalPoint, WorkflowJournal } from './workflow-journal.ts';
import { WorkflowMatcher } from './workflow-matcher.ts';
import { readTrigger, resultDrafts } from './workflow-outcome.ts';
import type { WorkflowTrail } from './workflow-trail.ts';

/** Signals looked at together; what follows from them is one commit. */
const PAGE_SIGNALS = 200;
/** Longest wait setTimeout takes; longer ones are set again; unit: milliseconds. */
const TIMER_MS_MAX = 2_147_000_000;
/** What clients are told of a fault of this program; the log of the process has the rest. */
const FAULT = { code: 'internal', message: 'a fault of this server; its log has the cause' };
const NOTHING_USED = { usage: { inputTokens: 0, outputTokens: 0 }, costUsd: 0 };

export interface WorkflowStartPoint extends JournalPoint {
  readonly definition: WorkflowDefinition;
  /** Log-wide number up to which every signal has been looked at. */
  readonly cursor: number;
}

export interface WorkflowHostPorts extends ActivationPorts {
  readonly feed: WorkflowFeed;
}

/**
 * Carries one run: reads the log in its order, asks the agents, commits what follows, and sees to it that what the state owes is under
 * way. Inputs are decided one after the other; what they cause is appended behind them and read in its turn, so nothing recurses.
 */
export class WorkflowHost {
  readonly id: string;
  readonly done: Promise<WorkflowResult>;
  readonly #ports: WorkflowHostPorts;
  readonly #definition: WorkflowDefinition;
  readonly #matcher: WorkflowMatcher;
  readonly #trail: WorkflowTrail;
  readonly #journal: WorkflowJournal;
  readonly #wakeup = new Wakeup();
  readonly #leave = new AbortController();
  readonly #running = new Map<string, AbortController>();
  readonly #settled = Promise.withResolvers<WorkflowResult>();
  #cursor: number;
  #timer: NodeJS.Timeout | undefined;
  #seat: FeedSeat | null = null;
  /** A fault of this program was met: no agent is asked any more, and what runs is stopped. */
  #broken = false;

  constructor(ports: WorkflowHostPorts, point: WorkflowStartPoint) {
    const { log } = ports.deps;
    const { core, trail, definition, cursor } = point;
    this.id = core.id;
    this.done = this.#settled.promise;
    this.done.catch(() => undefined); // Whoever waits hears of it; nobody has to wait.
    this.#ports = ports;
    this.#definition = definition;
    this.#matcher = new WorkflowMatcher(
      core.id,
      definition,
      async (session) => (await log.card(session))?.project ?? null,
      core.started.limit,
    );
    this.#trail = trail;
    this.#journal = new WorkflowJournal(ports.deps, point, this.#leave.signal, () => this.#reconcile());
    this.#cursor = cursor;
  }

  get core(): WorkflowCore {
    return this.#journal.core;
  }

  /** Log-wide number up to which this run needs nothing of other streams any more. */
  get cursor(): number {
    return this.#seat?.skip(this.#cursor) ?? this.#cursor;
  }

  /** Starts the router and what the state owes. Call once. */
  begin(fault?: { code: string; message: string }): void {
    this.#seat = this.#ports.feed.join({ id: this.id, ...this.#matcher.wishes, wake: () => this.#wakeup.wake() });
    this.#reconcile();
    void this.#route(fault);
  }

  /** Resolves when all has settled and workflow:end is in the log. */
  async abort(by: string, reason?: string): Promise<WorkflowResult> {
    const abort: WorkflowDraft = { name: 'workflow:abort', payload: { by, ...(reason ? { reason } : {}) }, client: by };
    try {
      await this.#journal.submit(({ snapshot }) => (snapshot.context.ending?.stops ? [] : [abort]));
    } catch (error) {
      if (isAppError(error)) throw error;
      await this.#break(error);
    }
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

  async #route(fault: { code: string; message: string } | undefined): Promise<void> {
    try {
      if (fault) await this.#journal.record(() => [{ name: 'workflow:fault', payload: fault }]);
    } catch (error) {
      await this.#break(error);
    }
    while (!this.#journal.over) {
      try {
        await this.#journal.retried(() => this.#follow());
      } catch (error) {
        await this.#break(error);
      }
    }
    this.#seat?.leave();
  }

  async #follow(): Promise<void> {
    while (!this.#journal.over) {
      if (await this.#readOn()) continue;
      if (await this.#settle()) return;
      await this.#wakeup.sleep();
    }
  }

  /** The next page of the log with something in it that an agent may want; false when there is none. */
  async #readOn(): Promise<boolean> {
    const { hub, log } = this.#ports.deps;
    const seat = this.#seat!;
    if (this.#broken) this.#pass(Math.max(this.#cursor, this.#journal.head));
    this.#pass(seat.skip(this.#cursor));
    if (this.#broken || !seat.isBehind(this.#cursor)) return false;
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
    if (drafts.length > 0) await this.#journal.record(() => drafts);
    this.#pass(page.at(-1)!.gseq);
    return true;
  }

  #pass(gseq: number): void {
    if (gseq === this.#cursor) return;
    this.#cursor = gseq;
    this.#trail.pass(gseq);
  }

  /** A fault of this program ends the run with an error, never silently. What it met goes to the process's log only. */
  async #break(error: unknown): Promise<void> {
    if (this.#journal.over) return;
    const { logger } = this.#ports.deps;
    // Another process has the run now, or nothing can be written any more.
    if (isAppError(error, 'session_fenced') || isAppError(error, 'storage_corrupt')) {
      logger.error({ err: error, workflow: this.id }, 'the log of a workflow does not take its inputs any more; the run is let go');
      this.close(error);
      return;
    }
    logger.error({ err: error, workflow: this.id }, 'the router of a workflow failed; the run ends with an error');
    const again = this.#broken;
    this.#broken = true;
    try {
      if (again) throw error;
      await this.#journal.record(() => [{ name: 'workflow:fault', payload: FAULT }]);
      this.#wakeup.wake();
    } catch {
      await this.#endAtOnce();
    }
  }

  /** The machine itself cannot go on, so its end is written without it. */
  async #endAtOnce(): Promise<void> {
    for (const controller of this.#running.values()) controller.abort();
    for (const state of [this.#journal.core.snapshot.context.state, {}]) {
      try {
        const end = (core: WorkflowCore) => endBroken(core, FAULT, this.#ports.deps.clock.now(), state);
        await this.#journal.retried(() => this.#journal.append(end));
        return;
      } catch (error) {
        if (this.#journal.over) return;
        this.#ports.deps.logger.error({ err: error, workflow: this.id }, 'the end of a workflow could not be written');
      }
    }
    this.close(new AppError('internal', { detail: FAULT.message }));
  }

  /** True when the run has ended: nothing is owed and nothing is left to be looked at. */
  async #settle(): Promise<boolean> {
    const isSettled = ({ snapshot }: WorkflowCore) => isIdle(snapshot.context) && this.#cursor >= this.#journal.head;
    if (!isSettled(this.#journal.core)) return false;
    await this.#journal.record((core) => (isSettled(core) ? [{ name: 'workflow:settled', payload: { gseq: this.#cursor } }] : []));
    return this.#journal.over;
  }

  #reconcile(): void {
    if (this.#leave.signal.aborted) return;
    const { context } = this.#journal.core.snapshot;
    if (this.#journal.core.end) {
      this.#end();
      return;
    }
    for (const activation of context.live) if (!this.#running.has(keyOf(activation))) void this.#run(activation);
    if (context.ending?.stops) for (const controller of this.#running.values()) controller.abort();
    this.#arm(context);
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#wakeup.wake();
    this.#ports.deps.hub.forget(`workflow:${this.id}`);
    for (const [index, { session }] of this.#journal.core.started.agents.entries())
      if (session === 'reuse') void endQuietly(this.#ports, this.id, `${this.id}_r${index + 1}`);
    this.#settled.resolve({ id: this.id, ...this.#journal.core.end! });
  }

  async #run(activation: Activation): Promise<void> {
    const key = keyOf(activation);
    const controller = new AbortController();
    this.#running.set(key, controller);
    const rules = this.#journal.core.started.agents.find(({ name }) => name === activation.agent)!;
    const { name, project } = this.#journal.core.started;
    const cause = this.#journal.core.activated.get(activation.activation) ?? this.#journal.core.start;
    try {
      const job = {
        workflow: { id: this.id, name, project, limit: this.core.started.limit },
        rules,
        activation,
        cause,
        stop: controller.signal,
        leave: this.#leave.signal,
      };
      const asks = this.#definition.agents.some((agent) => agent.name === activation.agent && agent.emitWhen);
      // Read before the turn: when it is over, the trigger may have been trimmed.
      const trigger = asks ? await this.#journal.retried(() => readTrigger(this.#ports.deps.log, this.id, activation)) : null;
      // Doing it again joins what is there.
      const outcome = await this.#journal.retried(() => runActivation(this.#ports, job));
      if (!outcome) return;
      const asked = { definition: this.#definition, matcher: this.#matcher, activation, outcome, trigger: trigger ?? null };
      await this.#journal.record((core) => resultDrafts(core, asked));
    } catch (error) {
      if (!this.#leave.signal.aborted) await this.#give(activation, error);
    } finally {
      this.#running.delete(key);
    }
  }

  /** The outcome of an activation cannot be told as it is, so the run ends; first its place becomes free. */
  async #give({ activation, attempt }: Activation, error: unknown): Promise<void> {
    if (!this.#broken) await this.#break(error);
    const result = { activation, attempt, ok: false, output: null, error: FAULT, ...NOTHING_USED, emits: [], ends: false };
    try {
      await this.#journal.record(() => [{ name: 'workflow:result', payload: result }]);
      this.#wakeup.wake();
    } catch (cause) {
      await this.#break(cause);
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
      this.#journal
        .record((core) => due(core).map(({ id }) => ({ name: 'timer:fired', payload: { id } })))
        .then(() => !this.#journal.over && this.#arm(this.#journal.core.snapshot.context))
        .catch((error: unknown) => this.#break(error));
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
