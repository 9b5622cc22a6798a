/** Lets one reader sleep until there is something new; a wake-up that comes while it works is not lost. */
export class Wakeup {
  #woken = false;
  #resolve: (() => void) | null = null;

  wake(): void {
    this.#woken = true;
    this.#resolve?.();
  }

  /** Resolves at the next wake-up, at once when one has come since the last sleep. */
  async sleep(): Promise<void> {
    if (!this.#woken) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#resolve = resolve;
      await promise;
      this.#resolve = null;
    }
    this.#woken = false;
  }
}
