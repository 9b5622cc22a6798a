import { type ActorRefFrom, createActor } from 'xstate';
import { type SessionMachine, sessionMachine } from '../../machines/session.machine.ts';
import { sessionRegistryLogic, supervisorMachine } from '../../machines/supervisor.machine.ts';
import type { PayloadOf } from '../contract/catalog.ts';
import type { SealedSignal, Signal } from '../contract/signal.ts';
import type { Clock } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { createView, foldView, type SessionView } from '../core/session-view.ts';
import type { SignalLog } from '../core/signal-log.ts';
import type { LiveHub } from './live/live-hub.ts';
import { cardAfter, SETTLED_STATES } from './session-card.ts';
import { advance, note } from './session-core.ts';
import { foldSession, sessionNotFound } from './session-fold.ts';
import { type RunEffect, SessionHost } from './session-host.ts';
import type { FoldedSession, SystemFact } from './session-state.ts';

/** Views of sessions that are not in memory, kept because lists and readers ask for them again and again. */
const COLD_VIEWS_MAX = 64;
/** Wait before a session that could not be brought back, for want of the log, is tried again; unit: milliseconds. */
const COME_BACK_RETRY_MS = 1_000;
/** Sessions brought back at once when the process starts. */
const SWEEP_AT_ONCE = 8;

export interface SupervisorDeps {
  readonly log: SignalLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly hub: LiveHub;
  readonly random: () => number;
  readonly sessionsMax: number;
}

/** Starts session actors, brings them back from their logs, restarts the ones that crash, and drains. */
export class Supervisor {
  readonly #deps: SupervisorDeps;
  readonly #machine = createActor(supervisorMachine);
  readonly #registry = createActor(sessionRegistryLogic);
  readonly #hosts = new Map<string, SessionHost>();
  readonly #coming = new Map<string, Promise<SessionHost>>();
  readonly #cold = new Map<string, SessionView>();
  readonly #restarts = new Set<NodeJS.Timeout>();
  /** What the log is told when a crashed session is back. */
  readonly #crashes = new Map<string, { attempt: number; delayMs: number; error: string }>();
  #runEffect: RunEffect | null = null;

  constructor(deps: SupervisorDeps) {
    this.#deps = deps;
    this.#machine.on('restart', ({ session, attempt, delayMs }) => this.#planRestart(session, attempt, delayMs));
    this.#machine.on('quarantine', ({ session, restarts }) => {
      deps.logger.error({ session, restarts }, 'a session crashed again and again; it is put aside until it is resumed');
      this.#noteQuarantine(session, restarts).catch((err: unknown) =>
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

  hosts(): IterableIterator<SessionHost> {
    return this.#hosts.values();
  }

  /** Begins a session with its first input. @throws AppError `id_conflict`, `too_many_sessions`, `draining`, `storage_failed` */
  async create(created: PayloadOf<'session:created'>, client: string): Promise<SessionHost> {
    this.refuseWhenDraining();
    if (this.#hosts.size + this.#coming.size >= this.#deps.sessionsMax) {
      throw new AppError('too_many_sessions', {
        detail: `${this.#deps.sessionsMax} sessions are open; end some, or raise runtime.limits.sessionsMax`,
        retryAfterMs: 5_000,
      });
    }
    return this.#once(created.session, async () => {
      const { core, signals } = advance(null, { name: 'session:created', payload: created, client }, this.#deps.clock.now());
      const view = createView(created, signals[0]!.timestamp);
      const card = cardAfter(view, core, signals);
      const stream = `session:${created.session}`;
      const { firstGseq } = await this.#deps.log.append({ stream, epoch: 0, expected: 0, signals, card });
      const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
      for (const signal of stored) foldView(view, signal);
      const seeded = created.seed && { snapshot: sessionMachine.getPersistedSnapshot(core.snapshot as never) };
      const actor = this.#startActor(created.session, seeded ?? { input: { at: core.at, created } });
      const host = this.#adopt({ core: { ...core, snapshot: actor.getSnapshot() }, view }, actor, 0);
      this.#deps.hub.publish(created.session, stored);
      // What was in flight where a fork was taken may have had its effect there.
      host.begin(created.seed !== undefined);
      return host;
    });
  }

  /** The session, brought back into memory when it is not there. @throws AppError `session_not_found`, `session_ended`, `draining` */
  async get(id: string): Promise<SessionHost> {
    const host = this.#hosts.get(id);
    if (host) return host;
    return this.#once(id, () => this.#activate(id));
  }

  /** Forgets the crashes of a quarantined session and brings it back. @throws as `get` does */
  async resume(id: string): Promise<SessionHost> {
    this.#machine.send({ type: 'CHILD_RESUMED', session: id });
    return this.get(id);
  }

  /** In memory now? */
  peek(id: string): SessionHost | undefined {
    return this.#hosts.get(id);
  }

  /** What clients are shown of a session, wherever it is. Not to be changed. @throws AppError `session_not_found` */
  async view(id: string): Promise<SessionView> {
    const live = this.#hosts.get(id)?.view ?? (await this.#coming.get(id)?.catch(() => undefined))?.view;
    if (live) return live;
    const card = await this.#deps.log.card(id);
    if (!card) throw sessionNotFound(id);
    const known = this.#cold.get(id);
    if (known && known.session.updatedAt === card.updatedAt) return known;
    const { view } = await foldSession(this.#deps.log, id);
    this.#cold.set(id, view);
    if (this.#cold.size > COLD_VIEWS_MAX) this.#cold.delete(this.#cold.keys().next().value!);
    return view;
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
    for (const timer of this.#restarts) clearTimeout(timer);
    for (const host of [...this.#hosts.values()].reverse())
      this.#drop(host, new AppError('draining', { detail: 'the runtime is shutting down; the session goes on at the next start' }));
    this.#machine.send({ type: 'DRAINED' });
    return { interrupted };
  }

  /** Forget a session's log for good; it must have ended. */
  async purge(id: string): Promise<void> {
    const host = this.#hosts.get(id);
    if (host) this.#drop(host, sessionNotFound(id));
    this.#cold.delete(id);
    await this.#deps.log.purge(`session:${id}`);
  }

  refuseWhenDraining(): void {
    if (this.draining)
      throw new AppError('draining', { detail: 'the runtime is shutting down; try again when it is back', retryAfterMs: 2_000 });
  }

  async #activate(id: string): Promise<SessionHost> {
    this.refuseWhenDraining();
    if (!(await this.#deps.log.card(id))) throw sessionNotFound(id);
    if (this.#machine.getSnapshot().context.quarantined.includes(id)) {
      throw new AppError('session_quarantined', {
        detail: `session ${id} crashed again and again and is put aside; POST /session/${id}/resume tries it once more`,
      });
    }
    const stream = `session:${id}`;
    const { epoch } = await this.#deps.log.own(stream);
    const folded = await foldSession(this.#deps.log, id);
    if (folded.core.snapshot.status !== 'active')
      throw new AppError('session_ended', { detail: `session ${id} has ended; create a new one` });
    const owned = await this.#noteOwned(folded, epoch);
    const snapshot = sessionMachine.getPersistedSnapshot(owned.core.snapshot as never);
    const actor = this.#startActor(id, { snapshot });
    const host = this.#adopt(owned, actor, epoch);
    host.begin(true);
    return host;
  }

  async #noteOwned(folded: FoldedSession, epoch: number): Promise<FoldedSession> {
    const now = this.#deps.clock.now();
    const restarted = folded.core.snapshot.context.pending.map((pending) => pending.key);
    const crash = this.#crashes.get(folded.core.id);
    this.#crashes.delete(folded.core.id);
    const facts: SystemFact[] = [{ name: 'session:owned', payload: { epoch, pid: process.pid } }];
    if (crash) facts.push({ name: 'supervisor:child:restarted', payload: { session: folded.core.id, ...crash } });
    if (restarted.length > 0) facts.push({ name: 'session:resumed', payload: { fromSeq: folded.core.seq, restarted } });
    let { core } = folded;
    const signals: SealedSignal[] = [];
    for (const fact of facts) {
      const noted = note(core, fact, now);
      core = noted.core;
      signals.push(...noted.signals);
    }
    const { firstGseq } = await this.#deps.log.append({ stream: `session:${core.id}`, epoch, expected: folded.core.seq, signals });
    const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
    for (const signal of stored) foldView(folded.view, signal);
    this.#deps.hub.publish(core.id, stored);
    return { core, view: folded.view };
  }

  async #noteQuarantine(id: string, restarts: number): Promise<void> {
    const error = this.#crashes.get(id)?.error ?? 'Error';
    const stream = `session:${id}`;
    const { epoch } = await this.#deps.log.own(stream);
    const { core } = await foldSession(this.#deps.log, id);
    const { signals } = note(core, { name: 'session:quarantined', payload: { restarts, error } }, this.#deps.clock.now());
    const { firstGseq } = await this.#deps.log.append({ stream, epoch, expected: core.seq, signals });
    this.#deps.hub.publish(id, [{ ...signals[0]!, gseq: firstGseq }]);
  }

  #adopt({ core, view }: FoldedSession, actor: ActorRefFrom<SessionMachine>, epoch: number): SessionHost {
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
    this.#cold.delete(host.id);
    this.#machine.send({ type: 'CHILD_STARTED', session: host.id });
    return host;
  }

  #startActor(id: string, start: { input: unknown } | { snapshot: unknown }): ActorRefFrom<SessionMachine> {
    this.#registry.send({ type: 'STOP', id });
    this.#registry.send({ type: 'START', id, logic: sessionMachine, ...start } as never);
    return this.#registry.getSnapshot().actors.get(id) as ActorRefFrom<SessionMachine>;
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
    this.#crashes.set(host.id, { attempt: 0, delayMs: 0, error: error instanceof Error ? error.name : 'Error' });
    // A fenced session belongs to another process now.
    if (isAppError(error, 'session_fenced')) this.#machine.send({ type: 'CHILD_STOPPED', session: host.id });
    else this.#machine.send({ type: 'CHILD_CRASHED', session: host.id, at: this.#deps.clock.now(), jitter: this.#deps.random() });
  }

  #planRestart(session: string, attempt: number, delayMs: number): void {
    const crash = this.#crashes.get(session);
    if (crash) this.#crashes.set(session, { ...crash, attempt, delayMs });
    this.#later(delayMs, () => this.#comeBack(session));
  }

  /** False when it is not back now. What is owed is not left lying: a log that did not take a write is asked again. */
  async #comeBack(session: string): Promise<boolean> {
    try {
      await this.get(session);
      return true;
    } catch (error) {
      this.#deps.logger.error({ err: error, session }, 'a session could not be resumed');
      const mayPass = isAppError(error, 'storage_failed') || isAppError(error, 'overloaded');
      if (mayPass && !this.draining) this.#later(COME_BACK_RETRY_MS, () => this.#comeBack(session));
      return false;
    }
  }

  #later(delayMs: number, run: () => void): void {
    const timer = setTimeout(() => {
      this.#restarts.delete(timer);
      run();
    }, delayMs);
    timer.unref();
    this.#restarts.add(timer);
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
