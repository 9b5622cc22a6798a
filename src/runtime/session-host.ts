import type { Pending } from '../../machines/session-context.ts';
import type { SealedSignal, Signal } from '../contract/signal.ts';
import type { Clock } from '../core/clock.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { foldView, type SessionView } from '../core/session-view.ts';
import type { Appended, SignalLog, Snapshot } from '../core/signal-log.ts';
import { EffectRunner, type Restored } from './effect-runner.ts';
import type { CommittedInput, SessionActor } from './session-actor.ts';
import { cardAfter } from './session-card.ts';
import { advance, note } from './session-core.ts';
import { SNAPSHOT_SIGNALS, takeSnapshot } from './session-snapshot.ts';
import { type InputDraft, isInput, type SessionCore, type SystemFact } from './session-state.ts';

/** Commands one session may hold before they are decided; the mailbox bounds prompts, this bounds everything. */
export const COMMANDS_WAITING_MAX = 1_024;
const MS_PER_SECOND = 1_000;

/** Makes the inputs of a command from the state at the moment it is decided, or throws AppError to refuse it. Pure. */
export type Decide = (core: SessionCore, view: SessionView) => readonly (InputDraft | SystemFact)[];

export interface Committed {
  readonly signals: readonly Signal[];
  readonly head: number;
}

interface Command {
  readonly decide: Decide;
  readonly resolve: (committed: Committed) => void;
  readonly reject: (error: unknown) => void;
  /** Outcomes of effects may share an append; commands of clients are decided one by one, on what is committed. */
  readonly joins: boolean;
}

/** Does one piece of owed work and says how it ended; never throws. `restored`: another one than this host may have begun it. */
export type RunEffect = (
  host: SessionHost,
  pending: Pending,
  signal: AbortSignal,
  restored: Restored | null,
) => Promise<readonly InputDraft[]>;

export interface SessionHostDeps {
  readonly log: SignalLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly runEffect: RunEffect;
  /** Called after each commit, in order, with signals that have their log-wide number. */
  readonly publish: (host: SessionHost, signals: readonly Signal[]) => void;
  /** A commit took this many seconds, fsync included. */
  readonly onAppended: (seconds: number) => void;
  /** The actor or its folding failed: a bug, or a fenced writer. The host is dead from here on. */
  readonly onCrash: (host: SessionHost, error: unknown) => void;
}

/**
 * Carries one session: decides commands, commits their signals, moves the actor by the committed inputs, publishes, and sees to it that
 * what the state owes is under way. Nothing else may change the session.
 */
export class SessionHost {
  readonly id: string;
  readonly view: SessionView;
  #core: SessionCore;
  readonly #actor: SessionActor;
  readonly #deps: SessionHostDeps;
  readonly #epoch: number;
  readonly #effects: EffectRunner;
  readonly #watchers = new Set<() => void>();
  #commands: Command[] = [];
  #pumping = false;
  #snapshotSeq: number;
  #closed: unknown = null;

  constructor(deps: SessionHostDeps, start: { core: SessionCore; view: SessionView; actor: SessionActor; epoch: number }) {
    this.id = start.core.id;
    this.view = start.view;
    this.#core = start.core;
    this.#actor = start.actor;
    this.#epoch = start.epoch;
    this.#snapshotSeq = start.core.seq;
    this.#deps = deps;
    this.#effects = new EffectRunner(deps.clock, deps.logger, {
      session: start.core.id,
      run: (pending, signal, restored) => deps.runEffect(this, pending, signal, restored),
      report: (drafts, holds) => this.#submit((core) => (!holds || holds(core) ? drafts : []), true),
    });
  }

  get core(): SessionCore {
    return this.#core;
  }

  get closed(): boolean {
    return this.#closed !== null;
  }

  /** Something has happened that the log has not taken yet: the session waits for the disk, not for itself. */
  get recording(): boolean {
    return this.#pumping || this.#effects.recording;
  }

  /** Nothing is owed and nothing waits to be decided: the host may be dropped without losing anything. */
  get quiet(): boolean {
    return this.#commands.length === 0 && !this.#pumping && this.#effects.idle && this.#watchers.size === 0;
  }

  /**
   * Decide a command and commit what follows from it. Resolves after the commit, when effects have been started.
   *
   * @throws AppError what `decide` refuses with, `storage_failed`, `overloaded`, `session_fenced`
   */
  handle(decide: Decide): Promise<Committed> {
    return this.#submit(decide, false);
  }

  /** Records a fact about the session that moves nothing; not when it is gone by then. */
  note(fact: SystemFact): void {
    this.#submit(() => [fact], true).catch((error: unknown) => {
      if (!this.#closed) this.#deps.logger.warn({ err: error, session: this.id, fact: fact.name }, 'a fact could not be noted');
    });
  }

  /** Starts what the state owes; `restored` tells which work was under way before this host. Call once. */
  begin(restored: (pending: Pending) => Restored | null): void {
    this.#effects.reconcile(this.#core, restored);
  }

  /**
   * Resolves with the first value of `probe` that is not undefined, looked at now and after each commit.
   *
   * @throws AppError `timeout`, the signal's reason, or what closed the host
   */
  async until<T>(probe: (view: SessionView) => T | undefined, options: { timeoutMs?: number; signal?: AbortSignal } = {}): Promise<T> {
    const first = probe(this.view);
    if (first !== undefined) return first;
    if (this.#closed) throw this.#closed;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const look = () => {
      const value = probe(this.view);
      if (value !== undefined) resolve(value);
      else if (this.#closed) reject(this.#closed);
    };
    const timer =
      options.timeoutMs === undefined
        ? undefined
        : setTimeout(() => reject(new AppError('timeout', { detail: `not reached within ${options.timeoutMs} ms` })), options.timeoutMs);
    const onAbort = () => reject(options.signal?.reason);
    options.signal?.addEventListener('abort', onAbort, { once: true });
    if (options.signal?.aborted) onAbort();
    this.#watchers.add(look);
    try {
      return await promise;
    } finally {
      this.#watchers.delete(look);
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Stops everything of this host in memory; the log is untouched. Waiting callers get `reason`. */
  close(reason: unknown): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#effects.close();
    for (const command of this.#commands.splice(0)) command.reject(reason);
    for (const look of [...this.#watchers]) look();
  }

  #submit(decide: Decide, joins: boolean): Promise<Committed> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (this.#commands.length >= COMMANDS_WAITING_MAX) {
      return Promise.reject(
        new AppError('overloaded', { detail: `session ${this.id} holds ${COMMANDS_WAITING_MAX} undecided commands`, retryAfterMs: 1_000 }),
      );
    }
    const { promise, resolve, reject } = Promise.withResolvers<Committed>();
    this.#commands.push({ decide, resolve, reject, joins });
    if (!this.#pumping) void this.#pump();
    return promise;
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    try {
      while (this.#commands.length > 0 && !this.#closed) {
        const count = this.#commands[0]!.joins ? countJoining(this.#commands) : 1;
        await this.#commit(this.#commands.splice(0, count));
      }
    } catch (error) {
      this.#crash(error);
    } finally {
      this.#pumping = false;
    }
  }

  async #commit(commands: readonly Command[]): Promise<void> {
    let core = this.#core;
    const signals: SealedSignal[] = [];
    const inputs: CommittedInput[] = [];
    const decided: Command[] = [];
    const take = (draft: InputDraft | SystemFact) => {
      const now = this.#deps.clock.now();
      const step = isInput(draft) ? advance(core, draft, now) : note(core, draft, now);
      core = step.core;
      signals.push(...step.signals);
      if (isInput(draft)) inputs.push({ type: draft.name, at: core.at, payload: draft.payload, next: core.snapshot } as CommittedInput);
    };
    for (const command of commands) {
      try {
        const drafts = this.#drafts(command, core);
        const first = drafts.find(isInput);
        if (first && core.snapshot.value === 'passivated') take({ name: 'session:activated', payload: { reason: first.name } });
        for (const draft of drafts) take(draft);
        decided.push(command);
      } catch (error) {
        command.reject(error);
        if (!isAppError(error)) throw error;
      }
    }
    if (signals.length === 0) {
      for (const command of decided) command.resolve({ signals: [], head: this.#core.seq });
      return;
    }
    const appended = await this.#append(core, signals, decided);
    if (!appended) return;
    this.#apply(core, inputs);
    const committed = signals.map((signal, index): Signal => ({ ...signal, gseq: appended.firstGseq + index }));
    for (const signal of committed) foldView(this.view, signal);
    this.#deps.publish(this, committed);
    this.#effects.reconcile(this.#core);
    for (const command of decided) command.resolve({ signals: committed, head: this.#core.seq });
    for (const look of [...this.#watchers]) look();
  }

  /** What has ended stays as it is: late outcomes are dropped, commands are refused. */
  #drafts(command: Command, core: SessionCore): ReturnType<Decide> {
    const drafts = command.decide(core, this.view);
    if (core.snapshot.status === 'active' || drafts.length === 0) return drafts;
    if (command.joins) return [];
    throw new AppError('session_ended', { detail: `session ${this.id} has ended; create a new one` });
  }

  /** Null when nothing was written: the callers know, the session stands where it stood. */
  async #append(core: SessionCore, signals: readonly SealedSignal[], decided: readonly Command[]): Promise<Appended | null> {
    const started = performance.now();
    try {
      const appended = await this.#deps.log.append({
        stream: `session:${this.id}`,
        epoch: this.#epoch,
        expected: this.#core.seq,
        signals,
        card: cardAfter(this.view, core, signals),
        ...this.#dueSnapshot(),
      });
      this.#deps.onAppended((performance.now() - started) / MS_PER_SECOND);
      return appended;
    } catch (error) {
      for (const command of decided) command.reject(error);
      if (isAppError(error, 'session_fenced') || !isAppError(error)) throw error;
      return null;
    }
  }

  /** Of the state before this append, which is committed and shown; what follows is folded on top of it. */
  #dueSnapshot(): { snapshot?: Snapshot } {
    if (this.#core.seq - this.#snapshotSeq < SNAPSHOT_SIGNALS) return {};
    this.#snapshotSeq = this.#core.seq;
    return { snapshot: takeSnapshot({ core: this.#core, view: this.view }) };
  }

  #apply(core: SessionCore, inputs: readonly CommittedInput[]): void {
    // Dropped while the commit was under way: the log has it, and the actor takes nothing any more.
    if (this.#closed) {
      this.#core = core;
      return;
    }
    for (const input of inputs) this.#actor.send(input);
    const moved = this.#actor.getSnapshot();
    if (moved.status === 'error') throw moved.error;
    this.#core = { ...core, snapshot: moved };
  }

  #crash(error: unknown): void {
    if (this.#closed) return;
    this.close(error);
    this.#deps.onCrash(this, error);
  }
}

function countJoining(commands: readonly Command[]): number {
  const end = commands.findIndex((command) => !command.joins);
  return end < 0 ? commands.length : end;
}
