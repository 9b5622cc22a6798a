/** How it is told of time; tests bring their own. */
export interface SyncTimer {
  /** Unit: milliseconds. */
  now(): number;
  /** Call once, later; answers how to call it off. */
  after(ms: number, run: () => void): () => void;
}

export const systemTimer: SyncTimer = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

export interface TouchedOptions {
  /** How long nothing may have been touched before the work begins; unit: milliseconds. */
  readonly quietMs: number;
  /** Who keeps touching waits no longer than this; unit: milliseconds. */
  readonly waitMsMax: number;
  readonly timer: SyncTimer;
  /** Never called again while it runs. Must not reject. */
  readonly run: (names: readonly string[]) => Promise<void>;
}

/** Collects what was touched until it is quiet: however often something changes, there is one run for it. */
export class TouchedAgents {
  readonly #options: TouchedOptions;
  readonly #names = new Set<string>();
  #since: number | undefined;
  #cancel: (() => void) | undefined;
  #running: Promise<void> = Promise.resolve();
  #isRunning = false;
  #isClosed = false;

  constructor(options: TouchedOptions) {
    this.#options = options;
  }

  touch(names: Iterable<string>): void {
    if (this.#isClosed) return;
    for (const name of names) this.#names.add(name);
    if (this.#names.size > 0) this.#wait();
  }

  /** Nothing begins any more; resolves when what runs is done. */
  close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel?.();
    return this.#running;
  }

  #wait(): void {
    // What is touched while a run goes on waits for its end.
    if (this.#isRunning) return;
    const { timer, quietMs, waitMsMax } = this.#options;
    this.#since ??= timer.now();
    this.#cancel?.();
    const left = Math.max(0, this.#since + waitMsMax - timer.now());
    this.#cancel = timer.after(Math.min(quietMs, left), () => this.#begin());
  }

  #begin(): void {
    const names = [...this.#names].sort();
    this.#names.clear();
    this.#since = undefined;
    this.#isRunning = true;
    this.#running = this.#options.run(names).finally(() => {
      this.#isRunning = false;
      if (this.#names.size > 0 && !this.#isClosed) this.#wait();
    });
  }
}
