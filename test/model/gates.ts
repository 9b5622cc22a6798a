import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { AppError } from '../../src/core/errors.ts';
import type { Append, Appended, SignalLog } from '../../src/core/signal-log.ts';
import type { Tool } from '../../src/core/tool.ts';
import type { DaemonHandlers } from '../../src/daemon/routes.ts';

/** How long a test waits for something that must come; unit: milliseconds. */
const ARRIVAL_TIMEOUT_MS = 15_000;

/** Things that come to be handled one by one, in order. */
export class Arrivals<T> {
  readonly #what: string;
  readonly #here: T[] = [];
  readonly #waiting: ((thing: T) => void)[] = [];
  readonly #timeoutMs: number;

  constructor(what: string, timeoutMs = ARRIVAL_TIMEOUT_MS) {
    this.#what = what;
    this.#timeoutMs = timeoutMs;
  }

  get waiting(): readonly T[] {
    return this.#here;
  }

  push(thing: T): void {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(thing);
    else this.#here.push(thing);
  }

  /** Those that are here are of no interest any more. */
  clear(): T[] {
    return this.#here.splice(0);
  }

  /** The oldest one. @throws in time, saying what for */
  next(why: string): Promise<T> {
    const first = this.#here.shift();
    if (first !== undefined) return Promise.resolve(first);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => {
      this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
      reject(new Error(`no ${this.#what} within ${this.#timeoutMs} ms; it was expected for: ${why}`));
    }, this.#timeoutMs);
    const waiter = (thing: T) => {
      clearTimeout(timer);
      resolve(thing);
    };
    this.#waiting.push(waiter);
    return promise;
  }
}

/** Work of the outside that waits until the test says how it ends. */
export interface HeldWork {
  /** Name of the hook, or key of the tool call. */
  readonly name: string;
  /** The real thing goes on. */
  pass(): void;
  fail(): void;
}

/** A commit that waits at the door of the log. */
export interface HeldAppend {
  readonly append: Append;
  /** Resolves when the session has taken up what was written. */
  permit(): Promise<void>;
  /** The disk is full: nothing is written. */
  refuse(): void;
}

/** Doors between the runtime and the real daemon, tools and log.  */
export class Gates {
  readonly work = new Arrivals<HeldWork>('call of a hook or tool');
  readonly appends = new Arrivals<HeldAppend>('commit');
  #open = false;
  #shut = false;
  #session = '';
  readonly #parked: HeldAppend[] = [];

  /** From now on only this session can write; others stay where they are until the end. */
  admit(session: string): void {
    this.#session = session;
    this.#parked.push(...this.appends.clear());
    this.work.clear();
  }

  /** Nothing waits from now on. */
  open(): void {
    this.#open = true;
  }

  /** Nothing of a session is written any more, as if the process were gone. */
  shut(): void {
    this.#shut = true;
    for (const held of [...this.appends.waiting, ...this.#parked]) held.refuse();
  }

  /** The log itself, but commits of sessions wait. */
  gateLog(log: SignalLog): SignalLog {
    const append = async (batch: Append): Promise<Appended> => {
      if (!batch.stream.startsWith('session:')) return log.append(batch);
      if (this.#shut) throw new AppError('storage_failed', { detail: 'the process is gone' });
      if (this.#open) return log.append(batch);
      const verdict = Promise.withResolvers<boolean>();
      const written = Promise.withResolvers<void>();
      const permit = () => {
        verdict.resolve(true);
        return written.promise;
      };
      const held = { append: batch, permit, refuse: () => verdict.resolve(false) };
      if (batch.stream === `session:${this.#session}`) this.appends.push(held);
      else this.#parked.push(held);
      if (!(await verdict.promise)) throw new AppError('storage_failed', { detail: 'the disk is full' });
      const appended = await log.append(batch);
      // The session applies, publishes and starts what it owes in microtasks of this turn of the loop.
      void turnOfLoop().then(() => written.resolve());
      return appended;
    };
    return withMethods(log, { append });
  }

  /** The daemon's own handlers, but hooks wait. */
  gateHooks(handlers: DaemonHandlers): DaemonHandlers {
    const gated = HOOKS.map(([operation, hook]) => {
      const handler = handlers[operation] as (input: unknown, context: unknown) => unknown;
      const held = async (input: unknown, context: unknown) => {
        await this.#hold(hook);
        return handler(input, context);
      };
      return [operation, held] as const;
    });
    return { ...handlers, ...Object.fromEntries(gated) };
  }

  /** A tool that waits for the test. */
  tool(name: string, more: Partial<Tool> = {}): Tool {
    return {
      name,
      description: `${name} waits until the test lets it answer.`,
      inputSchema: { type: 'object' },
      class: 'pure',
      origin: 'custom',
      execute: async (_input, { callKey }) => {
        await this.#hold(callKey);
        return 'found';
      },
      ...more,
    };
  }

  async #hold(name: string): Promise<void> {
    if (this.#open) return;
    const verdict = Promise.withResolvers<boolean>();
    this.work.push({ name, pass: () => verdict.resolve(true), fail: () => verdict.resolve(false) });
    if (!(await verdict.promise)) throw new AppError('storage_failed', { detail: 'scripted' });
  }
}

/** The thing itself with other methods in some places. */
export function withMethods<T extends object>(thing: T, methods: Partial<T>): T {
  return new Proxy(thing, {
    get: (target, name) => {
      if (name in methods) return methods[name as keyof T];
      const value = Reflect.get(target, name) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const HOOKS = [
  ['hookSessionStart', 'session-start'],
  ['hookUserPromptSubmit', 'user-prompt-submit'],
  ['hookPreCompaction', 'pre-compaction'],
  ['hookCompactionComplete', 'compaction-complete'],
  ['hookSessionEnd', 'session-end'],
] as const;
