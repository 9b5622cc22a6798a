import { SESSION_MACHINE_VERSION } from '../../machines/session.machine.ts';
import type { PayloadOf } from '../contract/catalog.ts';
import type { MachineRef } from '../contract/runtime.ts';
import type { SealedSignal, Signal } from '../contract/signal.ts';
import type { Checkpoint, SignalLog } from '../core/signal-log.ts';
import { canonicalJson, sealSignal } from '../core/signal-seal.ts';
import { readAhead } from './fork-point.ts';
import { sessionMachineRef } from './machine-service.ts';
import { checkpointDigest, restoreCheckpoint } from './session-checkpoint.ts';
import { advance, type Folding, foldCore, note } from './session-core.ts';
import { sessionNotFound } from './session-fold.ts';
import type { InputDraft, SessionCore, SystemFact } from './session-state.ts';

/** Stored signals read at once. */
const PAGE_SIGNALS = 1_000;
/** A log that is trimmed between two reads is begun again. */
const TRIES_MAX = 3;
const MISSING = 'missing';

export interface Divergence {
  /** First signal that is not what it should be. */
  readonly seq: number;
  /** Member of the signal that differs, or `missing`, `unreadable`, `unexpected`, `refused` or `checkpoint`. */
  readonly what: string;
  /** The same in a sentence, which names the signal. */
  readonly message: string;
  readonly expected: unknown;
  readonly actual: unknown;
}

export interface MachinePart {
  readonly version: string;
  readonly digest: string;
  /** First signal it wrote. */
  readonly fromSeq: number;
  /** Written anew and compared; signals of another version than this program's are checked by their chain of digests alone. */
  readonly replayed: boolean;
}

export interface Verification {
  readonly verified: boolean;
  /** Last signal a checkpoint stands for, 0 when the log is whole. */
  readonly trimmedTo: number;
  /** Signals that were compared and found equal. */
  readonly signals: number;
  /** Digest of the last of them. */
  readonly digest: string;
  /** Versions of the machine that wrote the log, in order. */
  readonly machines: MachinePart[];
  readonly divergence: Divergence | null;
}

/** Without `head` the log is taken to end where it ends. */
type VerifiedLog = Pick<SignalLog, 'read' | 'loadCheckpoint'> & Partial<Pick<SignalLog, 'head'>>;

/**
 * Folds the inputs of a session's log and writes everything else anew: names, payloads, parents, numbers and digests must come out as they
 * are stored. A trimmed log is verified from its checkpoint on, which must be the one the log speaks of. The log is never compared with itself, so a changed byte or a changed machine shows at the very signal.
 *
 * @param folding  another machine than the program's own, to see where it would have gone another way
 * @throws AppError `session_not_found`
 */
export async function verifySession(log: VerifiedLog, id: string, folding: Pick<Folding, 'advance'> = { advance }): Promise<Verification> {
  for (let attempt = 1; ; attempt += 1) {
    const checkpoint = await log.loadCheckpoint(`session:${id}`);
    const verifier = new Verifier(folding, checkpoint);
    await takeAll(verifier, log, `session:${id}`, checkpoint?.seq ?? 0);
    if (verifier.isEmpty) throw sessionNotFound(id);
    const result = verifier.result();
    if (result.divergence?.what !== MISSING || attempt === TRIES_MAX) return result;
    const now = await log.loadCheckpoint(`session:${id}`);
    if (now?.seq === checkpoint?.seq) return result;
  }
}

async function takeAll(verifier: Verifier, log: VerifiedLog, stream: string, after: number): Promise<void> {
  const head = (await log.head?.(stream))?.head ?? 0;
  for (let seq = after; ; ) {
    const { signals, torn } = await readAhead(log, stream, seq, PAGE_SIGNALS);
    for (const signal of signals) if (!verifier.take(signal)) return;
    seq = signals.at(-1)?.seq ?? seq;
    if (torn !== null) return verifier.stopAtUnreadable(torn);
    if (signals.length < PAGE_SIGNALS) return verifier.finish(head);
  }
}

class Verifier {
  readonly #folding: Pick<Folding, 'advance'>;
  readonly #checkpoint: Checkpoint | null;
  #core: SessionCore | null;
  /** Digest of the checkpoint by the signal that tells of it. */
  #attested: unknown = null;
  readonly #machines: MachinePart[] = [];
  /** What must follow in the log, from the last input or fact. */
  #expected: SealedSignal[] = [];
  #equal = 0;
  /** Last signal that was taken, or that the checkpoint stands for. */
  #seq: number;
  #digest: string;
  #divergence: Divergence | null = null;

  constructor(folding: Pick<Folding, 'advance'>, checkpoint: Checkpoint | null) {
    this.#folding = folding;
    this.#checkpoint = checkpoint;
    this.#core = checkpoint && restoreCheckpoint(checkpoint).core;
    this.#digest = this.#core?.digest ?? '';
    this.#seq = checkpoint?.seq ?? 0;
    if (this.#core) this.#noteMachine(this.#core.foreign?.machine ?? sessionMachineRef(), this.#core.seq + 1);
  }

  get isEmpty(): boolean {
    return this.#equal === 0 && this.#divergence === null;
  }

  /** False at the first difference. */
  take(signal: Signal): boolean {
    if (signal.seq > this.#seq + 1) return this.#miss(`the log goes on with signal ${signal.seq}`);
    if (this.#expected.length === 0 && !this.#regenerate(signal)) return false;
    const divergence = compare(this.#expected.shift()!, signal, this.#seq + 1);
    if (divergence) {
      this.#divergence = divergence;
      return false;
    }
    if (signal.name === 'log:pruned' && signal.payload.toSeq === this.#checkpoint?.seq) this.#attested = signal.payload.digest;
    this.#equal += 1;
    this.#seq = signal.seq;
    this.#digest = signal.digest ?? '';
    return true;
  }

  /** @param head  last signal the stream has had */
  finish(head: number): void {
    if (this.#expected.length > 0 || (this.#equal > 0 && this.#seq < head)) this.#miss('the log ends before it');
    if (!this.#checkpoint || this.#divergence?.what === MISSING) return;
    const actual = checkpointDigest(this.#checkpoint);
    const { seq } = this.#checkpoint;
    if (actual !== this.#attested)
      this.#divergence = {
        seq,
        what: 'checkpoint',
        message: `the checkpoint that stands for the signals up to ${seq} is not the one the log tells of in log:pruned`,
        expected: this.#attested,
        actual,
      };
  }

  stopAtUnreadable(fault: string): void {
    const seq = this.#seq + 1;
    const message = `signal ${seq} cannot be read: ${fault}`;
    this.#divergence = { seq, what: 'unreadable', message, expected: this.#expected[0]?.name ?? null, actual: null };
  }

  #miss(instead: string): false {
    const seq = this.#seq + 1;
    const name = this.#expected[0]?.name ?? null;
    const message = `signal ${seq}${name === null ? '' : ` (${name})`} is missing: ${instead}`;
    this.#divergence = { seq, what: MISSING, message, expected: name, actual: null };
    return false;
  }

  result(): Verification {
    return {
      verified: this.#divergence === null,
      trimmedTo: this.#checkpoint?.seq ?? 0,
      signals: this.#equal,
      digest: this.#digest,
      machines: this.#machines,
      divergence: this.#divergence,
    };
  }

  #regenerate(signal: Signal): boolean {
    const { name } = signal;
    const seq = this.#seq + 1;
    try {
      const step = this.#stepFor(signal);
      if (!step) {
        const message = `signal ${seq} (${name}) follows from nothing: nothing before it makes the machine say it`;
        this.#divergence = { seq, what: 'unexpected', message, expected: null, actual: name };
        return false;
      }
      this.#core = step.core;
      this.#expected = [...step.signals];
      return true;
    } catch (error) {
      const message = `signal ${seq} (${name}) cannot be taken by the machine`;
      this.#divergence = { seq, what: 'refused', message, expected: null, actual: String(error) };
      return false;
    }
  }

  #noteMachine({ version, digest }: MachineRef, fromSeq: number): void {
    this.#machines.push({ version, digest, fromSeq, replayed: version === SESSION_MACHINE_VERSION });
  }

  #stepFor(signal: Signal): { core: SessionCore; signals: SealedSignal[] } | null {
    const at = Date.parse(signal.timestamp);
    if (signal.name === 'session:created')
      this.#noteMachine((signal.payload as unknown as PayloadOf<'session:created'>).machine, signal.seq);
    if (signal.name === 'session:upgraded')
      this.#noteMachine((signal.payload as unknown as PayloadOf<'session:upgraded'>).machine.to, signal.seq);
    if (this.#machines.at(-1)?.replayed === false) {
      const { gseq: _ofThisWorkspace, digest: _compared, ...draft } = signal;
      return { core: foldCore(this.#core, signal), signals: [sealSignal(draft, this.#core?.digest ?? '')] };
    }
    const { client } = signal.source;
    if (signal.source.kind === 'input') {
      const draft = { name: signal.name, payload: signal.payload, ...(client ? { client } : {}) } as unknown as InputDraft;
      return this.#folding.advance(this.#core, draft, at);
    }
    if (signal.source.kind === 'system' && this.#core)
      return note(this.#core, { name: signal.name, payload: signal.payload } as unknown as SystemFact, at);
    return null;
  }
}

/** What is looked at first; then whatever else one of both has. */
const COMPARED = ['seq', 'name', 'id', 'stream', 'timestamp', 'payload', 'source'];
/** Another one in every workspace. */
const NOT_COMPARED = 'gseq';

/** @param seq  its place in the log, which the signal itself may tell wrongly */
function compare(expected: SealedSignal, actual: Signal, seq: number): Divergence | null {
  const [ours, theirs] = [expected as unknown as Members, actual as unknown as Members];
  for (const what of new Set([...COMPARED, ...Object.keys(actual), ...Object.keys(expected)])) {
    if (what !== NOT_COMPARED && textOf(ours[what]) !== textOf(theirs[what]))
      return {
        seq,
        what,
        message: differenceIn(what, expected, { ...actual, seq }),
        expected: ours[what] ?? null,
        actual: theirs[what] ?? null,
      };
  }
  return null;
}

type Members = Readonly<Record<string, unknown>>;

function textOf(value: unknown): string | undefined {
  return value === undefined ? undefined : canonicalJson(value);
}

function differenceIn(what: string, expected: SealedSignal, actual: Signal): string {
  if (what === 'name') return `signal ${actual.seq} is ${actual.name} where the machine says ${expected.name}`;
  if (what === 'digest') return `signal ${actual.seq} (${actual.name}) has another digest than its content and the signals before it give`;
  return `signal ${actual.seq} (${actual.name}) has another ${what} than the machine gives it`;
}
