import { setTimeout as wait } from 'node:timers/promises';

/** Nothing goes on any more when no call was begun or answered for so long: readers are woken some milliseconds after a commit; unit: milliseconds. */
const QUIET_MS = 10;
/** A process that is never quiet, because it serves others as well, is not waited for longer; unit: milliseconds. */
const SETTLE_MS_MAX = 2_000;

/** Tells when all that an outcome has caused is done: no call to the log or the daemon is under way, and none follows. */
export class Quiet {
  #calls = 0;
  #changes = 0;

  /** The same object; its calls count until they are answered. */
  watch<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, member) => {
        const value: unknown = Reflect.get(target, member, target);
        return typeof value === 'function' ? (...input: unknown[]) => this.#counted(value.apply(target, input)) : value;
      },
    });
  }

  /** Resolves when nothing goes on, at the latest after SETTLE_MS_MAX. */
  async settled(): Promise<void> {
    const deadline = performance.now() + SETTLE_MS_MAX;
    for (let quiet = false; !quiet && performance.now() < deadline; ) {
      const changes = this.#changes;
      await wait(QUIET_MS);
      quiet = this.#calls === 0 && this.#changes === changes;
    }
  }

  #counted(answer: unknown): unknown {
    if (!(answer instanceof Promise)) return answer;
    this.#calls += 1;
    this.#changes += 1;
    const done = () => {
      this.#calls -= 1;
      this.#changes += 1;
    };
    answer.then(done, done);
    return answer;
  }
}
