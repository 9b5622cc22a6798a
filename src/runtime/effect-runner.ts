import type { Pending } from '../../machines/session-context.ts';
import type { Clock } from '../core/clock.ts';
import { isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { type OwedTimer, obligationsOf } from './obligations.ts';
import type { InputDraft, SessionCore } from './session-state.ts';

/** Longest wait setTimeout takes; longer ones are set again; unit: milliseconds. */
const TIMER_MS_MAX = 2_147_000_000;
/** Wait before an outcome that could not be written is offered to the log again; unit: milliseconds. */
const REPORT_RETRY_MS = 500;

/** Where work was under way before: in a process that is gone, or in the session a fork was taken from. */
export type Restored = 'restart' | 'fork';
const isNew = (_pending: Pending) => null;

interface Ports {
  /** Names the session in the log. */
  readonly session: string;
  run(pending: Pending, signal: AbortSignal, restored: Restored | null): Promise<readonly InputDraft[]>;
  /** `holds` is asked when the drafts are decided: what is no longer true by then is not recorded. */
  report(drafts: readonly InputDraft[], holds?: (core: SessionCore) => boolean): Promise<unknown>;
}

/** Why an effect's signal aborts when its session no longer owes the work. */
export const NOT_OWED = new DOMException('the session no longer owes this work', 'AbortError');
/** Why it aborts when the session leaves memory and still owes the work. */
const LET_GO = new DOMException('the session leaves memory', 'AbortError');

/** Keeps what runs for one session equal to what its state owes. */
export class EffectRunner {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #ports: Ports;
  readonly #running = new Map<string, AbortController>();
  readonly #timers = new Map<string, { dueAt: number; timer: NodeJS.Timeout }>();
  #reports = 0;
  #closed = false;

  constructor(clock: Clock, logger: Logger, ports: Ports) {
    this.#clock = clock;
    this.#logger = logger;
    this.#ports = ports;
  }

  /** Nothing that is owed runs. What was given up and does not hear it keeps nobody. */
  get idle(): boolean {
    return [...this.#running.values()].every((controller) => controller.signal.aborted);
  }

  /** An outcome is there, and the log has not taken it yet. */
  get recording(): boolean {
    return this.#reports > 0;
  }

  /** Start what is owed and not running, abort what runs and is not owed. */
  reconcile(core: SessionCore, restored: (pending: Pending) => Restored | null = isNew): void {
    if (this.#closed) return;
    const { effects, settle, timers } = obligationsOf(core.snapshot);
    const owed = new Set(effects.map((pending) => pending.key));
    for (const [key, controller] of this.#running) if (!owed.has(key)) controller.abort(NOT_OWED);
    for (const pending of effects) if (!this.#running.has(pending.key)) void this.#start(pending, restored(pending));
    for (const pending of settle) if (!this.#running.has(pending.key)) void this.#start(pending, restored(pending), true);
    this.#setTimers(timers);
  }

  /** Aborts everything; what comes back later is dropped, the log still owes it. */
  close(): void {
    this.#closed = true;
    for (const controller of this.#running.values()) controller.abort(LET_GO);
    for (const { timer } of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  /** An effect that throws is a bug, but its session must not wait for an outcome that never comes. */
  async #run(pending: Pending, signal: AbortSignal, restored: Restored | null): Promise<readonly InputDraft[]> {
    try {
      return await this.#ports.run(pending, signal, restored);
    } catch (error) {
      this.#logger.error({ err: error, session: this.#ports.session, key: pending.key }, 'an effect failed unexpectedly');
      return [brokenOutcome(pending)];
    }
  }

  async #start(pending: Pending, restored: Restored | null, abortAtOnce = false): Promise<void> {
    const controller = new AbortController();
    this.#running.set(pending.key, controller);
    if (abortAtOnce) controller.abort(NOT_OWED);
    try {
      const drafts = await this.#run(pending, controller.signal, restored);
      await this.#report(drafts);
    } catch (error) {
      if (!this.#closed)
        this.#logger.error({ err: error, session: this.#ports.session, key: pending.key }, 'an outcome could not be recorded');
    } finally {
      if (this.#running.get(pending.key) === controller) this.#running.delete(pending.key);
    }
  }

  /** An outcome is offered until the log takes it: a full disk must not lose a finished tool call. */
  async #report(drafts: readonly InputDraft[], holds?: (core: SessionCore) => boolean): Promise<void> {
    this.#reports += 1;
    try {
      while (!this.#closed && drafts.length > 0 && !(await this.#offer(drafts, holds))) {
        await new Promise((resolve) => setTimeout(resolve, REPORT_RETRY_MS));
      }
    } finally {
      this.#reports -= 1;
    }
  }

  async #offer(drafts: readonly InputDraft[], holds?: (core: SessionCore) => boolean): Promise<boolean> {
    try {
      await this.#ports.report(drafts, holds);
      return true;
    } catch (error) {
      if (!isAppError(error, 'storage_failed') && !isAppError(error, 'overloaded')) throw error;
      this.#logger.warn({ err: error }, 'the log did not take an outcome; it is offered again');
      return false;
    }
  }

  #setTimers(timers: readonly OwedTimer[]): void {
    const wanted = new Map(timers.map((timer) => [timer.id, timer]));
    for (const [id, { dueAt, timer }] of this.#timers) {
      if (wanted.get(id)?.dueAt === dueAt) continue;
      clearTimeout(timer);
      this.#timers.delete(id);
    }
    for (const timer of timers) if (!this.#timers.has(timer.id)) this.#arm(timer);
  }

  #arm({ id, dueAt, fires }: OwedTimer): void {
    const wait = Math.min(Math.max(0, dueAt - this.#clock.now()), TIMER_MS_MAX);
    const timer = setTimeout(() => {
      if (this.#clock.now() < dueAt) return this.#arm({ id, dueAt, fires });
      this.#timers.delete(id);
      const draft = draftOf(id, fires);
      // Between this moment and the commit the wait may end otherwise, and another one of the same name begin.
      const holds = ({ snapshot }: SessionCore) => obligationsOf(snapshot).timers.some((owed) => owed.id === id && owed.dueAt === dueAt);
      void this.#report([draft], holds).catch((error: unknown) => {
        if (!this.#closed) this.#logger.error({ err: error, session: this.#ports.session, id }, 'a timer could not be recorded');
      });
    }, wait);
    // A daemon with nothing but waiting sessions may still exit.
    timer.unref();
    this.#timers.set(id, { dueAt, timer });
  }
}

function draftOf(id: string, fires: OwedTimer['fires']): InputDraft {
  if (fires === 'timer:fired') return { name: 'timer:fired', payload: { id } };
  const decision = fires === 'approval:allow' ? 'once' : 'deny';
  return { name: 'tool:approval:resolved', payload: { id, decision, by: 'expiry', message: 'nobody decided in time' } };
}

function brokenOutcome(pending: Pending): InputDraft {
  const error = { code: 'internal', message: 'a fault of this server; the log has the cause' };
  switch (pending.kind) {
    case 'hook':
      return { name: 'hook:error', payload: { hook: pending.hook, key: pending.key, ...error, durationMs: 0 } };
    case 'model':
      return {
        name: 'harness:error',
        payload: { key: pending.key, error: error.message, ...error, recoverable: false, jitter: 0, durationMs: 0, partialChars: 0 },
      };
    case 'tool': {
      const { id, name, key } = pending;
      return {
        name: 'tool:result',
        payload: { id, name, key, output: error.message, isError: true, error, durationMs: 0, bytes: error.message.length },
      };
    }
  }
}
