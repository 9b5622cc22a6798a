import { once } from 'node:events';
import type { RuntimeClient } from '../../src/client/runtime-client.ts';
import { isAppError } from '../../src/core/errors.ts';
import type { ProcessLimits } from '../helpers/process-limits.ts';
import { type SignetProcess, startSignetProcess } from '../helpers/signet.ts';

const KILL_POINT = new URL('./kill-point.ts', import.meta.url).href;
/** How long one command may go unanswered over all restarts; unit: milliseconds. */
const COMMAND_TIMEOUT_MS = 1_800_000;
/** Between two tries of a command that nobody answered; unit: milliseconds. */
const RETRY_PAUSE_MS = 10;
/** Starts that may fail one after the other before something is wrong with them. */
const START_TRIES = 3;
/** A boundary that no life reaches. */
const NEVER = 0;
/** Answers that say: not now. The same command again is answered. */
const PASSING = ['daemon_unreachable', 'draining', 'storage_failed', 'overloaded'] as const;

export interface MortalOptions {
  readonly folder: string;
  readonly yaml: string;
  readonly env: Readonly<Record<string, string>>;
  /** Boundary at which the n-th life ends by itself; a life without one goes on until somebody kills it. */
  readonly killAt: readonly number[];
  /** Between a death and the next start: the files are as the dead process left them. */
  readonly onDeath: () => void;
  /** Bounds on each process. */
  readonly limits?: ProcessLimits;
}

/** A daemon that is started again on its workspace each time it dies, and a client that does not mind. */
export class MortalDaemon {
  readonly #options: MortalOptions;
  #lives = 0;
  #alive: Promise<SignetProcess>;
  #stopping = false;
  #fault: unknown = null;

  constructor(options: MortalOptions) {
    this.#options = options;
    this.#alive = this.#live();
  }

  /** Processes so far; 1 is the first. */
  get lives(): number {
    return this.#lives;
  }

  /**
   * The command, sent again with the same ids until a process answers it.
   *
   * @throws AppError what the runtime refuses with; whatever `onDeath` threw
   */
  async call<T>(command: (client: RuntimeClient) => Promise<T>): Promise<T> {
    const deadline = performance.now() + COMMAND_TIMEOUT_MS;
    for (;;) {
      const { client } = await this.#alive;
      try {
        return await command(client);
      } catch (error) {
        if (this.#fault !== null) throw this.#fault;
        if (!PASSING.some((code) => isAppError(error, code)) || performance.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, RETRY_PAUSE_MS));
      }
    }
  }

  /** Address of the runtime of the process that lives now. */
  async runtimeUrl(): Promise<string> {
    return (await this.#alive).runtimeUrl;
  }

  /** kill -9, now. Resolves when the next process has bound its ports. */
  async kill(): Promise<void> {
    const dying = await this.#alive;
    dying.process.kill('SIGKILL');
    if (dying.process.exitCode === null && dying.process.signalCode === null) await once(dying.process, 'exit');
    await this.#alive;
  }

  /** Ends the last life in order. @returns how many boundaries of its log that life passed */
  async stop(): Promise<number> {
    const last = await this.#alive;
    this.#stopping = true;
    await last.close();
    if (this.#fault !== null) throw this.#fault;
    return Number(/boundaries: (\d+)/.exec(last.output())?.[1] ?? Number.NaN);
  }

  async #live(tries = START_TRIES): Promise<SignetProcess> {
    const killAt = this.#options.killAt[this.#lives];
    this.#lives += 1;
    const { folder, yaml, env, limits = {} } = this.#options;
    const point = { KILL_AT_BOUNDARY: String(killAt ?? NEVER) };
    try {
      const signet = await startSignetProcess({ folder, yaml, limits, env: { ...env, NODE_OPTIONS: `--import=${KILL_POINT}`, ...point } });
      const { process: child } = signet;
      if (child.exitCode === null && child.signalCode === null) child.once('exit', () => this.#died());
      else this.#died();
      return signet;
    } catch (error) {
      // It ended at its boundary before it had bound its ports; or the machine had no time for it.
      if (killAt === undefined && tries === 1) throw error;
      this.#look();
      return this.#live(tries - 1);
    }
  }

  #died(): void {
    if (this.#stopping) return;
    this.#look();
    this.#alive = this.#live();
    // Who waits for it hears of a start that failed.
    this.#alive.catch(() => undefined);
  }

  #look(): void {
    try {
      this.#options.onDeath();
    } catch (error) {
      this.#fault ??= error;
    }
  }
}
