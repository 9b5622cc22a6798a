/** How long the outcome whose turn it is may be away before others go on without it, a wait between two attempts included; unit: milliseconds. */
const ABSENT_MS_MAX = 10_000;

interface Waiting {
  /** Number in the recording; null when it is not recorded yet. */
  readonly place: number | null;
  readonly enter: () => void;
}

export interface OrderOptions {
  /** Resolves when what the last outcome caused is done. */
  readonly settled: () => Promise<void>;
  /** Places in the order in which they took effect. */
  readonly places: readonly number[];
}

/**
 * Lets outcomes in one at a time, each when all that the one before has caused is in the log, and recorded ones in their recorded order. So
 * parallel work takes effect in the same order in a replay as it did when it was recorded.
 */
export class OutcomeOrder {
  readonly #settled: () => Promise<void>;
  readonly #due: Set<number>;
  readonly #waiting = new Set<Waiting>();
  #running = false;
  #free = false;
  #arrived: () => void = () => {};

  constructor({ settled, places }: OrderOptions) {
    this.#settled = settled;
    this.#due = new Set(places);
  }

  /** Resolves when it is this outcome's turn. @throws the signal's reason */
  async enter(place: number | null, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiting: Waiting = { place, enter: resolve };
    const onAbort = () => {
      this.#leave(waiting);
      reject(signal.reason);
    };
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(waiting);
    this.#arrived();
    if (!this.#running) void this.#run();
    try {
      await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** This outcome takes effect at another time, or never: nobody waits for it. */
  forgo(place: number): void {
    this.#due.delete(place);
    this.#arrived();
  }

  /** The run is another one than the recorded: from now on outcomes enter as they come. */
  giveUp(): void {
    this.#free = true;
    this.#arrived();
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.size > 0) {
      await this.#settled();
      const next = this.#next() ?? (await this.#arrival());
      if (!next) continue;
      this.#leave(next);
      next.enter();
    }
    this.#running = false;
  }

  #next(): Waiting | undefined {
    const [due] = this.#due;
    for (const waiting of this.#waiting) if (this.#free || waiting.place === null || waiting.place === due) return waiting;
    return undefined;
  }

  /** Waits for another outcome; when none comes, the first of those that are there. */
  async #arrival(): Promise<Waiting | undefined> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#arrived = () => resolve(true);
    const timer = setTimeout(() => resolve(false), ABSENT_MS_MAX);
    const arrived = await promise;
    clearTimeout(timer);
    this.#arrived = () => {};
    return arrived ? undefined : [...this.#waiting].sort((a, b) => (a.place ?? 0) - (b.place ?? 0))[0];
  }

  #leave(waiting: Waiting): void {
    this.#waiting.delete(waiting);
    if (waiting.place !== null) this.#due.delete(waiting.place);
    this.#arrived();
  }
}
