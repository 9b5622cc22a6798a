/** Which limit a caller met, and how much of it is in use. */
export interface LimitMet {
  readonly scope: 'total' | 'key';
  readonly limit: number;
  readonly current: number;
}

/** A limit on how much runs at once, with another one for each key. */
export interface FairSlots {
  /**
   * Resolves with the function that gives the slot back. Slots that come free go to the keys that wait in turn, and within a key in order:
   * one with much to do does not hold up the others.
   *
   * @param onQueued  called when the caller has to wait, before it does
   * @throws the signal's reason when it aborts before a slot is free
   */
  take(key: string, signal: AbortSignal, onQueued?: (met: LimitMet) => void): Promise<() => void>;
  readonly waiting: number;
}

interface Waiter {
  readonly key: string;
  readonly grant: () => void;
}

/** @param limitOf  slots one key may have at once; asked at each grant, so it may change */
export function createFairSlots(limit: number, limitOf: (key: string) => number): FairSlots {
  return new RoundRobin(limit, limitOf);
}

class RoundRobin implements FairSlots {
  readonly #limit: number;
  readonly #limitOf: (key: string) => number;
  readonly #taken = new Map<string, number>();
  /** Who waits by key; the key that was served last stands last. */
  readonly #lines = new Map<string, Set<Waiter>>();
  #total = 0;

  constructor(limit: number, limitOf: (key: string) => number) {
    this.#limit = limit;
    this.#limitOf = limitOf;
  }

  get waiting(): number {
    return [...this.#lines.values()].reduce((sum, line) => sum + line.size, 0);
  }

  take(key: string, signal: AbortSignal, onQueued?: (met: LimitMet) => void): Promise<() => void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const met = this.#met(key);
    if (!met) return Promise.resolve(this.#occupy(key));
    onQueued?.(met);
    const { promise, resolve, reject } = Promise.withResolvers<() => void>();
    const giveUp = () => {
      this.#leave(waiter);
      reject(signal.reason);
    };
    const waiter = {
      key,
      grant: () => {
        signal.removeEventListener('abort', giveUp);
        resolve(this.#occupy(key));
      },
    };
    this.#lines.set(key, (this.#lines.get(key) ?? new Set()).add(waiter));
    signal.addEventListener('abort', giveUp, { once: true });
    return promise;
  }

  #met(key: string): LimitMet | null {
    const [own, current] = [this.#limitOf(key), this.#taken.get(key) ?? 0];
    if (current >= own) return { scope: 'key', limit: own, current };
    return this.#total < this.#limit ? null : { scope: 'total', limit: this.#limit, current: this.#total };
  }

  #occupy(key: string): () => void {
    this.#total += 1;
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
    let isHeld = true;
    return () => {
      if (isHeld) this.#release(key);
      isHeld = false;
    };
  }

  #release(key: string): void {
    this.#total -= 1;
    const left = this.#taken.get(key)! - 1;
    if (left > 0) this.#taken.set(key, left);
    else this.#taken.delete(key);
    const next = [...this.#lines.keys()].find((waiting) => this.#met(waiting) === null);
    if (next !== undefined) this.#serve(next);
  }

  #serve(key: string): void {
    const line = this.#lines.get(key)!;
    const waiter = line.values().next().value!;
    this.#leave(waiter);
    if (this.#lines.delete(key)) this.#lines.set(key, line);
    waiter.grant();
  }

  #leave(waiter: Waiter): void {
    const line = this.#lines.get(waiter.key);
    line?.delete(waiter);
    if (line?.size === 0) this.#lines.delete(waiter.key);
  }
}
