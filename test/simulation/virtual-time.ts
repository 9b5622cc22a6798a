import type { Clock } from '../../src/core/clock.ts';

const BEGIN = Date.UTC(2026, 0, 1);

interface VirtualTimer {
  readonly order: number;
  readonly dueAt: number;
  readonly run: () => void;
}

const real = {
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  setImmediate: globalThis.setImmediate,
  clearImmediate: globalThis.clearImmediate,
  timeout: AbortSignal.timeout,
};

/**
 * Time that moves only when the simulation says so. While installed it stands in for the timers of the platform, so that code with
 * timers in it runs at the simulation's pace and in its order. The wall clock may jump; timers, as in an operating system, do not care.
 */
export class VirtualTime implements Clock {
  /** What a timer or an immediate threw; nothing may. */
  readonly thrown: unknown[] = [];
  #elapsed = 0;
  #wall = BEGIN;
  #order = 0;
  readonly #timers = new Set<VirtualTimer>();
  #immediates: (() => void)[] = [];

  /** The wall clock. */
  now(): number {
    return this.#wall + this.#elapsed;
  }

  /** Milliseconds since the beginning, whatever the wall clock says. */
  get elapsed(): number {
    return this.#elapsed;
  }

  get immediates(): number {
    return this.#immediates.length;
  }

  /** The wall clock is set to another time. */
  jump(ms: number): void {
    this.#wall += ms;
  }

  /** When the next timer is due, on the clock of `elapsed`; null without timers. */
  get nextDue(): number | null {
    return this.#first()?.dueAt ?? null;
  }

  /** Moves on; timers that come due wait for `fireDue`. */
  advanceTo(elapsed: number): void {
    this.#elapsed = Math.max(this.#elapsed, elapsed);
  }

  /** Runs the first timer that is due. False when none is. */
  fireDue(): boolean {
    const timer = this.#first();
    if (!timer || timer.dueAt > this.#elapsed) return false;
    this.#timers.delete(timer);
    this.#run(timer.run);
    return true;
  }

  runImmediates(): void {
    for (const run of this.#immediates.splice(0)) this.#run(run);
  }

  /** The process is gone, and its timers with it. */
  clear(): void {
    this.#timers.clear();
    this.#immediates = [];
  }

  /** Takes the place of the platform's timers; call the result to give it back. */
  install(): () => void {
    const clock = performance.now;
    const add = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => this.#add(() => run(...args), ms);
    const drop = (timer: unknown) => void this.#timers.delete(timer as VirtualTimer);
    const soon = (run: (...args: unknown[]) => void, ...args: unknown[]) => void this.#immediates.push(() => run(...args));
    Object.assign(globalThis, { setTimeout: add, clearTimeout: drop, setImmediate: soon, clearImmediate: () => {} });
    Object.assign(performance, { now: () => this.#elapsed });
    AbortSignal.timeout = (ms) => {
      const controller = new AbortController();
      this.#add(() => controller.abort(new DOMException('the time is over', 'TimeoutError')), ms);
      return controller.signal;
    };
    return () => {
      const { timeout, ...timers } = real;
      Object.assign(globalThis, timers);
      Object.assign(performance, { now: clock });
      AbortSignal.timeout = timeout;
    };
  }

  #add(run: () => void, ms: number): VirtualTimer {
    const timer = { order: this.#order++, dueAt: this.#elapsed + Math.max(1, ms), run, unref: () => timer, ref: () => timer };
    this.#timers.add(timer);
    return timer;
  }

  #first(): VirtualTimer | null {
    let first: VirtualTimer | null = null;
    for (const timer of this.#timers) {
      if (!first || timer.dueAt < first.dueAt || (timer.dueAt === first.dueAt && timer.order < first.order)) first = timer;
    }
    return first;
  }

  #run(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.thrown.push(error);
    }
  }
}

/** Resolves when everything that can go on without time or outside has gone on. */
export function settleMicrotasks(): Promise<void> {
  return new Promise((resolve) => real.setImmediate(resolve));
}
