import type { SealedSignal, Signal } from '../../contract/signal.ts';
import { isAppError } from '../../core/errors.ts';
import type { RuntimeDeps } from '../runtime-deps.ts';
import { advanceWorkflow, type WorkflowCore, type WorkflowDraft } from './workflow-core.ts';
import type { WorkflowTrail } from './workflow-trail.ts';

/** Wait before something that the log did not take, or give, is tried again; unit: milliseconds. */
const RETRY_MS = 500;

/** The inputs to commit in a state; none when it is over. */
export type Decide = (core: WorkflowCore) => readonly WorkflowDraft[];

export interface JournalPoint {
  readonly core: WorkflowCore;
  readonly trail: WorkflowTrail;
  readonly epoch: number;
  /** Log-wide number of the newest signal of the run's stream. */
  readonly head: number;
}

/** Writes the stream of one run: inputs are decided one after the other, each on the state that the one before has left. */
export class WorkflowJournal {
  readonly #deps: Pick<RuntimeDeps, 'log' | 'hub' | 'clock' | 'logger'>;
  readonly #trail: WorkflowTrail;
  readonly #epoch: number;
  readonly #left: AbortSignal;
  readonly #onCommitted: () => void;
  #core: WorkflowCore;
  #head: number;
  #last: Promise<void> = Promise.resolve();

  /** @param left  the process has let go of the run: nothing is written any more */
  constructor(deps: RuntimeDeps, { core, trail, epoch, head }: JournalPoint, left: AbortSignal, onCommitted: () => void) {
    this.#deps = deps;
    this.#trail = trail;
    this.#epoch = epoch;
    this.#left = left;
    this.#onCommitted = onCommitted;
    this.#core = core;
    this.#head = head;
  }

  get core(): WorkflowCore {
    return this.#core;
  }

  get head(): number {
    return this.#head;
  }

  get over(): boolean {
    return this.#left.aborted || this.#core.end !== null;
  }

  /** Offered until the log takes it: a full disk must not lose an outcome. */
  async record(decide: Decide): Promise<void> {
    await this.retried(() => this.submit(decide));
  }

  submit(decide: Decide): Promise<void> {
    return this.append((core) => {
      let last = core;
      const signals: SealedSignal[] = [];
      for (const draft of decide(core)) {
        if (last.end) break;
        const step = advanceWorkflow(last, draft, this.#deps.clock.now());
        last = step.core;
        signals.push(...step.signals);
      }
      return { core: last, signals };
    });
  }

  /** The same for what is written without the machine. */
  append(decide: (core: WorkflowCore) => { core: WorkflowCore; signals: readonly SealedSignal[] }): Promise<void> {
    const committed = this.#last.then(() => this.#commit(decide));
    this.#last = committed.catch(() => undefined); // The one who submitted hears of it.
    return committed;
  }

  /** Does it again as long as the log cannot be written or read; undefined when the run is over before. */
  async retried<T>(work: () => Promise<T>): Promise<T | undefined> {
    while (!this.over) {
      try {
        return await work();
      } catch (error) {
        if (!mayPass(error)) throw error;
        const workflow = this.#core.id;
        this.#deps.logger.warn({ err: error, workflow }, 'the log does not serve a workflow now; it is tried again');
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    }
    return undefined;
  }

  async #commit(decide: (core: WorkflowCore) => { core: WorkflowCore; signals: readonly SealedSignal[] }): Promise<void> {
    if (this.over) return;
    const { log, hub } = this.#deps;
    const stream = `workflow:${this.#core.id}`;
    const { core, signals } = decide(this.#core);
    if (signals.length === 0) return;
    const { firstGseq } = await log.append({ stream, epoch: this.#epoch, expected: this.#core.seq, signals });
    const stored = signals.map((signal, index): Signal => ({ ...signal, gseq: firstGseq + index }));
    for (const signal of stored) this.#trail.take(signal);
    this.#core = core;
    this.#head = stored.at(-1)!.gseq;
    hub.publish(stream, stored);
    this.#onCommitted();
  }
}

/** Not now. */
function mayPass(error: unknown): boolean {
  return isAppError(error, 'storage_failed') || isAppError(error, 'overloaded');
}
