import { createActor } from 'xstate';
import { sessionMachine } from '../../machines/session.machine.ts';
import { sessionRegistryLogic, supervisorMachine } from '../../machines/supervisor.machine.ts';
import type { PayloadOf } from '../contract/catalog.ts';
import type { Signal } from '../contract/signal.ts';
import type { Clock } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { createView, foldView, type SessionView } from '../core/session-view.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { ColdViews } from './cold-views.ts';
import type { LiveHub } from './live/live-hub.ts';
import { upgradeDrafts } from './machine-upgrade.ts';
import { type SessionActor, sessionActorLogic } from './session-actor.ts';
import { cardAfter, SETTLED_STATES } from './session-card.ts';
import { advance } from './session-core.ts';
import { type CrowdLimits, refuseCrowd } from './session-crowd.ts';
import { foldSession, foldWhole, sessionNotFound } from './session-fold.ts';
import { type RunEffect, SessionHost } from './session-host.ts';
import type { FoldedSession, InputDraft, SystemFact } from './session-state.ts';
import { SupervisorCrashes } from './supervisor-crashes.ts';
import { appendNoted } from './supervisor-notes.ts';

/** Wait before a session that could not be brought back, for want of the log, is tried again; unit: milliseconds. */
const COME_BACK_RETRY_MS = 1_000;
/** Sessions brought back at once when the process starts. */
const SWEEP_AT_ONCE = 8;

export interface SupervisorDeps extends CrowdLimits {
  readonly log: SignalLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly hub: LiveHub;
  readonly random: () => number;
  /** Why the process takes no new work now, null when it does. */
  readonly overload?: () => AppError | null;
}

/** Starts session actors, brings them back from their logs, restarts the ones that crash, and drains. */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #machine = createActor(supervisorMachine);
  readonly #registry = createActor(sessionRegistryLogic);
  readonly #hosts = new Map<string, SessionHost>();
  readonly #coming = new Map<string, Promise<SessionHost>>();
  /** Agents of sessions that are being created. */
  readonly #creating = new Map<string, string>();
  /** Sessions whose logs are worked on; they come back into memory when that is done. */
  readonly #aside = new Map<string, Promise<void>>();
  readonly #cold: ColdViews;
  readonly #crashes = new SupervisorCrashes();
  #runEffect: RunEffect | null = null;

  constructor(deps: SupervisorDeps) {
    this.#deps = deps;
    this.#cold = new ColdViews(deps.log);
    this.#machine.on('restart', ({ session, attempt, delayMs }) => this.#planRestart(session, attempt, delayMs));
    this.#machine.on('quarantine', ({ session, restarts, scope }) => {
      deps.logger.error({ session, restarts, scope }, 'a session crashed again and again; it is put aside until it is resumed');
      this.#noteQuarantine(session, restarts, scope).catch((err: unknown) =>
        deps.logger.error({ err, session }, 'the quarantine could not be noted'),
      );
    });
    this.#registry.subscribe({ error: (err) => deps.logger.error({ err }, 'the session registry failed') });
    this.#machine.start();
    this.#registry.start();
  }

  /** Effects need the supervisor's parts and the supervisor needs effects; composition closes the ring. Call once, before anything else. */
  useEffects(runEffect: RunEffect): void {
    this.#runEffect = runEffect;
  }

  get alive(): number {
    return this.#hosts.size;
  }

  get draining(): boolean {
    return this.#machine.getSnapshot().value !== 'running';
  }

  /** Sessions that wait for somebody to resume them. */
  get quarantined(): number {
    return this.#machine.getSnapshot().context.quarantined.length;
  }

  /** Why a session does not go on, as far as that is known: a damaged log shows when it is read. */
  whyAside(id: string): AppError | null {
    const isAside = this.#machine.getSnapshot().context.quarantined.includes(id);
    return isAside ? this.#crashes.refusal(id) : this.#cold.damageOf(id);
  }

  hosts(): IterableIterator<SessionHost> {
    return this.#hosts.values();
  }

  /** Begins a session with its first input, and those that are to count before anything it owes is begun. @throws AppError `id_conflict`, `too_many_sessions`, `overloaded`, `draining`, `storage_failed` */
  async create(created: PayloadOf<'session:created'>, client: string, then: readonly InputDraft[] = []): Promise<SessionHost> {
    this.admit();
    refuseCrowd(this.#deps, { hosts: this.#hosts, coming: this.#coming.size, creating: this.#creating }, created.agent);
    this.#creating.set(created.session, created.agent);
    return this.#once(created.session, () => this.#begin(created, client, then)).finally(() => this.#creating.delete(created.session));
  }

  async #begin(created: PayloadOf<'session:created'>, client: string, then: readonly InputDraft[]): Promise<SessionHost> {
    const now = this.#deps.clock.now();
    const first = advance(null, { name: 'session:created', payload: created, client }, now);
    let { core, signals } = first;
    for (const draft of then) {
      const step = advance(core, draft, now);
      core = step.core;
      signals = [...signals, ...step.signals];
    }
    const view = createView(created, signals[0]!.timestamp);
    const card = cardAfter(view, core, signals);
    const stream = `session:${created.session}`;
    const { firstGseq } = await this.#deps.log.append({ stream, epoch: 0, expected: 0, signals, card });
    const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
    for (const signal of stored) foldView(view, signal);
    this.refuseWhenDraining();
    const seeded = created.seed && { snapshot: sessionMachine.getPersistedSnapshot(core.snapshot as never) };
    const actor = this.#startActor(created.session, seeded ?? { input: { at: core.at, created } });
    const host = this.#adopt({ core: { ...core, snapshot: actor.getSnapshot() }, view }, actor, 0);
    this.#deps.hub.publish(created.session, stored);
    // What was in flight where a fork was taken may have had its effect there.
    const inFlight = new Set(created.seed ? first.core.snapshot.context.pending.map(({ key }) => key) : []);
    host.begin(({ key }) => (inFlight.has(key) ? 'fork' : null));
    return host;
  }

  /** The session, brought back into memory when it is not there. @throws AppError `session_not_found`, `session_ended`, `draining` */
  async get(id: string): Promise<SessionHost> {
    const host = this.#hosts.get(id);
    if (host) return host;
    return this.#once(id, () => this.#activate(id));
  }

  /** Forgets the crashes of a quarantined session and brings it back. @throws as `get` does */
  async resume(id: string): Promise<SessionHost> {
    this.#forgive(id);
    return this.get(id);
  }

  /** Begins a session that does not go on by itself anew from its log. */
  restart(host: SessionHost, error: Error): void {
    if (this.#hosts.get(host.id) !== host || host.closed) return;
    host.close(error);
    this.#crashed(host, error);
  }

  /** In memory now? */
  peek(id: string): SessionHost | undefined {
    return this.#hosts.get(id);
  }

  /** What clients are shown of a session, wherever it is. Not to be changed. @throws AppError `session_not_found` */
  async view(id: string): Promise<SessionView> {
    const live = this.#hosts.get(id)?.view ?? (await this.#coming.get(id)?.catch(() => undefined))?.view;
    return live ?? this.#cold.get(id);
  }

  /** Sessions whose last process left work undone go on. Resolves when all are in memory. */
  async sweep(): Promise<number> {
    let resumed = 0;
    let after: { updatedAt: string; id: string } | undefined;
    for (;;) {
      const cards = await this.#deps.log.cards({ open: true, limit: SWEEP_AT_ONCE, ...(after ? { after } : {}) });
      if (cards.length === 0) return resumed;
      const last = cards.at(-1)!;
      after = { updatedAt: last.updatedAt, id: last.id };
      const outcomes = await Promise.all(cards.map((card) => this.#comeBack(card.id)));
      resumed += outcomes.filter((isBack) => isBack).length;
    }
  }

  /** No new turns; running ones get `timeoutMs`, then their sessions leave memory and go on at the next start. */
  async drain(timeoutMs: number): Promise<{ interrupted: number }> {
    this.#machine.send({ type: 'DRAIN' });
    const deadline = AbortSignal.timeout(timeoutMs);
    await Promise.allSettled(
      [...this.#hosts.values()].map((host) =>
        host.until((view) => (SETTLED_STATES.has(view.session.state) && view.session.queue.length === 0 ? true : undefined), {
          signal: deadline,
        }),
      ),
    );
    const interrupted = [...this.#hosts.values()].filter((host) => !SETTLED_STATES.has(host.view.session.state)).length;
    this.#crashes.stop();
    for (const host of [...this.#hosts.values()].reverse())
      this.#drop(host, new AppError('draining', { detail: 'the runtime is shutting down; the session goes on at the next start' }));
    this.#machine.send({ type: 'DRAINED' });
    return { interrupted };
  }

  /** Forget a session's log for good; it must have ended. */
  async purge(id: string): Promise<void> {
    const host = this.#hosts.get(id);
    if (host) this.#drop(host, sessionNotFound(id));
    this.#cold.forget(id);
    this.#forgive(id);
    await this.#deps.log.purge(`session:${id}`);
  }

  /**
   * Works on the log of a session at rest, which stays out of memory as long: whoever wants it waits.
   *
   * @throws AppError `session_not_found`, `turn_open`, `draining`, and what `work` throws
   */
  async aside<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.refuseWhenDraining();
    const { session } = await this.view(id);
    const host = this.#hosts.get(id);
    const rests = SETTLED_STATES.has(session.state) && session.queue.length === 0 && (host?.quiet ?? true);
    if (!rests || this.#coming.has(id) || this.#aside.has(id)) {
      throw new AppError('turn_open', { detail: `session ${id} is busy; wait for it to be idle`, retryAfterMs: 1_000 });
    }
    if (host) this.#drop(host, gone(id, session.state));
    const done = Promise.withResolvers<void>();
    this.#aside.set(id, done.promise);
    try {
      return await work();
    } finally {
      this.#aside.delete(id);
      this.#cold.forget(id);
      done.resolve();
    }
  }

  /** Is new work taken? @throws AppError `draining`, `overloaded` */
  admit(): void {
    this.refuseWhenDraining();
    const refusal = this.#deps.overload?.();
    if (refusal) throw refusal;
  }

  refuseWhenDraining(): void {
    if (this.draining)
      throw new AppError('draining', { detail: 'the runtime is shutting down; try again when it is back', retryAfterMs: 2_000 });
  }

  async #activate(id: string): Promise<SessionHost> {
    await this.#aside.get(id);
    this.refuseWhenDraining();
    if (!(await this.#deps.log.card(id))) throw sessionNotFound(id);
    if (this.#machine.getSnapshot().context.quarantined.includes(id)) throw this.#crashes.refusal(id);
    const { epoch, head } = await this.#deps.log.own(`session:${id}`);
    const folded = await foldWhole(this.#deps.log, id, head).catch((error: unknown) => this.#putAside(id, error));
    if (folded.core.snapshot.status !== 'active' || folded.view.session.state === 'ended')
      throw new AppError('session_ended', { detail: `session ${id} has ended; create a new one` });
    const owned = await this.#noteOwned(folded, epoch);
    // What was on its way when a drain began must not begin to work behind it.
    this.refuseWhenDraining();
    const snapshot = sessionMachine.getPersistedSnapshot(owned.core.snapshot as never);
    const actor = this.#startActor(id, { snapshot });
    const host = this.#adopt(owned, actor, epoch);
    host.begin(() => 'restart');
    return host;
  }

  async #noteOwned(folded: FoldedSession, epoch: number): Promise<FoldedSession> {
    const { id, seq, snapshot } = folded.core;
    const restarted = snapshot.context.pending.map((pending) => pending.key);
    const crash = this.#crashes.take(id);
    const facts: SystemFact[] = [{ name: 'session:owned', payload: { epoch, pid: process.pid } }];
    if (crash) facts.push({ name: 'supervisor:child:restarted', payload: { session: id, ...crash } });
    if (restarted.length > 0) facts.push({ name: 'session:resumed', payload: { fromSeq: seq, restarted } });
    return appendNoted(this.#deps, folded, epoch, [...facts, ...upgradeDrafts(folded)]);
  }

  async #noteQuarantine(id: string, restarts: number, scope: 'session' | 'agent'): Promise<void> {
    const error = this.#crashes.errorOf(id);
    const { epoch } = await this.#deps.log.own(`session:${id}`);
    const folded = await foldSession(this.#deps.log, id);
    await appendNoted(this.#deps, folded, epoch, [{ name: 'session:quarantined', payload: { restarts, error, scope } }]);
  }

  /** A session whose log cannot be folded waits for somebody who mends it; trying again does not help. */
  #putAside(id: string, error: unknown): never {
    if (isAppError(error, 'log_divergence')) {
      this.#deps.logger.error({ err: error, session: id }, 'the log of a session is damaged; it is put aside until it is resumed');
      this.#crashes.damage(id, error);
      this.#machine.send({ type: 'CHILD_DAMAGED', session: id });
    }
    throw error;
  }

  #forgive(id: string): void {
    this.#crashes.forgive(id);
    this.#machine.send({ type: 'CHILD_RESUMED', session: id });
  }

  #adopt({ core, view }: FoldedSession, actor: SessionActor, epoch: number): SessionHost {
    const { log, clock, logger } = this.#deps;
    const host = new SessionHost(
      {
        log,
        clock,
        logger,
        runEffect: this.#runEffect!,
        onAppended: (seconds) => this.#deps.hub.appended(seconds),
        publish: (owner, signals) => this.#published(owner, signals),
        onCrash: (owner, error) => this.#crashed(owner, error),
      },
      { core, view, actor, epoch },
    );
    this.#hosts.set(host.id, host);
    this.#cold.forget(host.id);
    this.#machine.send({ type: 'CHILD_STARTED', session: host.id });
    return host;
  }

  #startActor(id: string, start: { input: unknown } | { snapshot: unknown }): SessionActor {
    this.#registry.send({ type: 'STOP', id });
    this.#registry.send({ type: 'START', id, logic: sessionActorLogic, ...start } as never);
    return this.#registry.getSnapshot().actors.get(id) as SessionActor;
  }

  #published(host: SessionHost, signals: readonly Signal[]): void {
    this.#deps.hub.publish(host.id, signals);
    const { state } = host.view.session;
    if (state === 'ended' || state === 'passivated') setImmediate(() => this.#dropSettled(host, state));
  }

  /** A command may have come in the meantime; then the session stays. */
  #dropSettled(host: SessionHost, state: string): void {
    if (host.view.session.state === state && (state === 'ended' || host.quiet)) this.#drop(host, gone(host.id, state));
  }

  #drop(host: SessionHost, reason: AppError): void {
    if (this.#hosts.get(host.id) !== host) return;
    this.#hosts.delete(host.id);
    host.close(reason);
    this.#registry.send({ type: 'STOP', id: host.id });
    this.#machine.send({ type: 'CHILD_STOPPED', session: host.id });
    this.#deps.hub.forget(host.id);
  }

  #crashed(host: SessionHost, error: unknown): void {
    this.#deps.logger.error({ err: error, session: host.id }, 'a session crashed; it is restarted from its log');
    this.#hosts.delete(host.id);
    this.#registry.send({ type: 'STOP', id: host.id });
    this.#crashes.note(host.id, error);
    // A fenced session belongs to another process now.
    if (isAppError(error, 'session_fenced')) this.#machine.send({ type: 'CHILD_STOPPED', session: host.id });
    else {
      const [at, jitter] = [this.#deps.clock.now(), this.#deps.random()];
      this.#machine.send({ type: 'CHILD_CRASHED', session: host.id, agent: host.core.agent, at, jitter });
    }
  }

  #planRestart(session: string, attempt: number, delayMs: number): void {
    this.#crashes.plan(session, attempt, delayMs);
    this.#crashes.later(delayMs, () => this.#comeBack(session));
  }

  /** False when it is not back now. What is owed is not left lying: a log that did not take a write is asked again. */
  async #comeBack(session: string): Promise<boolean> {
    try {
      await this.get(session);
      return true;
    } catch (error) {
      // Not now: it goes on at the next start.
      if (isAppError(error, 'draining')) return false;
      this.#deps.logger.error({ err: error, session }, 'a session could not be resumed');
      const mayPass = isAppError(error, 'storage_failed') || isAppError(error, 'overloaded');
      if (mayPass && !this.draining) this.#crashes.later(COME_BACK_RETRY_MS, () => this.#comeBack(session));
      return false;
    }
  }

  #once(id: string, bring: () => Promise<SessionHost>): Promise<SessionHost> {
    const coming = this.#coming.get(id);
    if (coming) return coming;
    const promise = bring().finally(() => this.#coming.delete(id));
    this.#coming.set(id, promise);
    return promise;
  }
}

function gone(id: string, state: string): AppError {
  return state === 'ended'
    ? new AppError('session_ended', { detail: `session ${id} has ended; create a new one` })
    : new AppError('session_not_found', { detail: `session ${id} left memory; ask again` });
}
