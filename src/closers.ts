import type { Logger } from './core/logger.ts';

/** What was opened, closed in reverse order; one that fails does not keep the others open. */
export class Closers {
  readonly #logger: Logger;
  readonly #closers: (() => void | Promise<void>)[] = [];

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(close: () => void | Promise<void>): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        this.#logger.error({ err: error }, 'something did not close cleanly');
      }
    }
  }
}
