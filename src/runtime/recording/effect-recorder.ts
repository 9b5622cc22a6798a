import type { RecordedEffect, RecordingMismatch, RecordingMode } from '../../contract/recording.ts';
import { AppError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { effectKey, type Recording, recordingLine } from '../../core/recording.ts';
import { type EffectCall, type RecordedPlace, RecordingIndex } from '../../core/recording-index.ts';
import { NOT_OWED } from '../effect-runner.ts';
import { OutcomeOrder } from './outcome-order.ts';
import { Quiet } from './quiet.ts';

/** Sessions whose first fault is remembered. */
const FAULTS_MAX = 1_000;

export type OutcomeOf<K extends RecordedEffect['kind']> = Extract<RecordedEffect, { kind: K }>['outcome'];

export interface EffectRecorderOptions {
  readonly mode: Exclude<RecordingMode, 'live'>;
  readonly mismatch: RecordingMismatch;
  readonly recording: Recording;
  /** Outcomes that are kept; null when none are. */
  readonly write: ((line: string) => void) | null;
  /** Outcomes take effect one at a time, in the recorded order. For a process that does nothing else. */
  readonly ordered: boolean;
  readonly log: Logger;
}

/** Whose call it is. */
export interface Caller {
  readonly agent: string;
  readonly session: string;
  /** Key of the work it belongs to; its first part is the turn. */
  readonly key: string;
}

/** Answers calls that would leave the process from a recording, and keeps the outcomes of those that do. */
export class EffectRecorder {
  readonly id: string;
  readonly mode: EffectRecorderOptions['mode'];
  readonly #quiet = new Quiet();
  readonly #options: EffectRecorderOptions;
  readonly #index: RecordingIndex;
  readonly #order: OutcomeOrder | null;
  /** By session, the first one first. */
  readonly #faults = new Map<string, AppError>();

  constructor(options: EffectRecorderOptions) {
    const { recording, ordered, mode } = options;
    this.#options = options;
    this.id = recording.header.id;
    this.mode = mode;
    this.#index = new RecordingIndex(mode === 'record' ? [] : recording.effects);
    // A call that was stopped ends when it is stopped again, whatever its place.
    const places = recording.effects.flatMap(({ outcome }, place) => ('aborted' in outcome ? [] : [place]));
    this.#order = ordered ? new OutcomeOrder({ settled: () => this.#quiet.settled(), places: mode === 'record' ? [] : places }) : null;
  }

  /** A port of the runtime: while a call to it is under way, no outcome takes effect. */
  watch<T extends object>(port: T): T {
    return this.#order ? this.#quiet.watch(port) : port;
  }

  /** The first call that was not recorded and had to be. */
  get fault(): AppError | null {
    const [first] = this.#faults.values();
    return first ?? null;
  }

  call(kind: RecordedEffect['kind'], { agent, session, key }: Caller, request: Readonly<Record<string, unknown>>): EffectCall {
    return { kind, agent, session, turn: key.split('.')[0]!, request, key: effectKey(kind, request) };
  }

  /**
   * What was recorded of a call; null when it is to be made.
   *
   * @throws AppError `recording_mismatch` when it must not be made
   */
  recorded(call: EffectCall): RecordedPlace | null {
    const { mode, mismatch, log } = this.#options;
    if (mode === 'record') return null;
    const found = this.#index.take(call) ?? (mode === 'replay' && mismatch === 'ordinal' ? this.#index.takeNext(call) : undefined);
    if (found) return found;
    if (mode === 'auto' || mismatch === 'passthrough') return null;
    // What a session does after its first such call is another story: the first one is the one to tell.
    const known = this.#faults.get(call.session);
    if (known) throw known;
    const fault = new AppError('recording_mismatch', { detail: this.#index.explain(call) });
    if (this.#faults.size < FAULTS_MAX) this.#faults.set(call.session, fault);
    this.#order?.giveUp();
    log.error({ session: call.session, detail: fault.detail }, 'a call was not recorded');
    throw fault;
  }

  /** Waits until a recorded outcome may take effect; one that was stopped until it is stopped. @throws the signal's reason */
  async replayed({ effect, place }: RecordedPlace, signal: AbortSignal): Promise<void> {
    if (!('aborted' in effect.outcome)) return this.#order?.enter(place, signal);
    signal.throwIfAborted();
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
  }

  /**
   * Keeps an outcome and waits until it may take effect.
   *
   * @param stopped  kept in its place when the session stops the call before that
   * @throws the signal's reason
   */
  async keep<K extends RecordedEffect['kind']>(
    call: EffectCall,
    outcome: OutcomeOf<K>,
    stopped: OutcomeOf<K>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      signal.throwIfAborted();
      await this.#order?.enter(null, signal);
      this.#write(call, outcome);
    } catch (error) {
      // A session that only leaves memory makes the call again.
      if (signal.reason === NOT_OWED) this.#write(call, stopped);
      throw error;
    }
  }

  #write({ kind, agent, turn, request, key, ...call }: EffectCall, outcome: RecordedEffect['outcome']): void {
    const session = this.#index.recordedSession(call.session);
    this.#options.write?.(recordingLine({ kind, agent, session, turn, request, key, outcome } as RecordedEffect));
  }
}
