import type { PayloadOf } from '../contract/catalog.ts';
import type { SealedSignal } from '../contract/signal.ts';
import { AppError } from './errors.ts';
import { checkHeader, createLogCheck, readLogFile } from './log-file.ts';
import { createView, foldView, plainView, type SessionView } from './session-view.ts';
import { compilePatterns } from './signal-pattern.ts';

/** What the signals up to a place add up to. */
export interface PlayedState {
  /** State of the workflow; null when there is none. */
  readonly workflow: Readonly<Record<string, unknown>> | null;
  /** What is shown of each session, by its id. */
  readonly sessions: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Goes through signals that were recorded, forwards and back, with the state they add up to. Changes nothing and calls nobody. */
export class Player {
  readonly signals: readonly SealedSignal[];
  #position = 0;
  #fold = new Fold();

  /** @param signals  in the order of the log, from the first on */
  constructor(signals: readonly SealedSignal[]) {
    this.signals = signals;
  }

  /** The text that `signet export` wrote. @throws AppError `invalid_request` naming the line that is wrong */
  static fromLog(text: string): Player {
    const { header, signals } = readLogFile(text);
    const check = createLogCheck(checkHeader(header));
    const checked = signals.map((signal) => check.take(signal));
    check.finish();
    return new Player(checked);
  }

  /** Signals that have been played. */
  get position(): number {
    return this.#position;
  }

  /** The last one that has been played; null at the beginning. */
  get current(): SealedSignal | null {
    return this.signals[this.#position - 1] ?? null;
  }

  get state(): PlayedState {
    return this.#fold.state();
  }

  /** Plays the next ones. False when there were fewer. */
  step(count = 1): boolean {
    return this.goto(this.#position + count);
  }

  /** Takes the last ones back. False when there were fewer. */
  back(count = 1): boolean {
    return this.goto(this.#position - count);
  }

  /** To where so many have been played; to the nearest end when there is no such place, and then false. */
  goto(position: number): boolean {
    if (!Number.isInteger(position)) throw new AppError('invalid_request', { detail: `a position is a whole number, not ${position}` });
    const target = Math.min(Math.max(position, 0), this.signals.length);
    if (target < this.#position) {
      this.#fold = new Fold();
      this.#position = 0;
    }
    for (; this.#position < target; this.#position += 1) this.#fold.take(this.signals[this.#position]!);
    return target === position;
  }

  /** Plays up to the next signal that matches. Null, and nothing is played, when there is none. @throws AppError `invalid_pattern` */
  gotoNext(pattern: string | RegExp): SealedSignal | null {
    const matches = compilePatterns([pattern]);
    const index = this.signals.findIndex(({ name }, at) => at >= this.#position && matches(name));
    if (index < 0) return null;
    this.goto(index + 1);
    return this.current;
  }

  /** @throws AppError `invalid_pattern` */
  findAll(pattern: string | RegExp): SealedSignal[] {
    const matches = compilePatterns([pattern]);
    return this.signals.filter(({ name }) => matches(name));
  }
}

class Fold {
  #workflow: Record<string, unknown> | null = null;
  readonly #sessions = new Map<string, SessionView>();

  take(signal: SealedSignal): void {
    const { name, payload, stream, timestamp } = signal;
    if (name === 'workflow:start') this.#workflow = { ...(payload.state as Record<string, unknown>) };
    else if (name.startsWith('state:') && this.#workflow) this.#workflow[payload.key as string] = payload.newValue;
    const view =
      this.#sessions.get(stream) ?? (name === 'session:created' ? createView(payload as PayloadOf<'session:created'>, timestamp) : null);
    if (!view) return;
    this.#sessions.set(stream, view);
    foldView(view, signal);
  }

  state(): PlayedState {
    const sessions = [...this.#sessions].map(([stream, view]) => [stream.slice('session:'.length), structuredClone(plainView(view))]);
    return { workflow: structuredClone(this.#workflow), sessions: Object.fromEntries(sessions) };
  }
}
