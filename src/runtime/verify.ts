import { SESSION_MACHINE_VERSION } from '../../machines/session.machine.ts';
import type { PayloadOf } from '../contract/catalog.ts';
import type { MachineRef } from '../contract/runtime.ts';
import type { SealedSignal, Signal } from '../contract/signal.ts';
import type { Checkpoint, SignalLog } from '../core/signal-log.ts';
import { canonicalJson, sealSignal } from '../core/signal-seal.ts';
import { sessionMachineRef } from './machine-service.ts';
import { checkpointDigest, restoreCheckpoint } from './session-checkpoint.ts';
import { advance, type Folding, foldCore, note } from './session-core.ts';
import { sessionNotFound } from './session-fold.ts';
import type { InputDraft, SessionCore, SystemFact } from './session-state.ts';

/** Stored signals read at once. */
const PAGE_SIGNALS = 1_000;

export interface Divergence {
  /** First signal that is not what it should be. */
  readonly seq: number;
  /** Member of the signal that differs, or what else is wrong. */
  readonly what: string;
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

/**
 * Folds the inputs of a session's log and writes everything else anew: names, payloads, parents, numbers and digests must come out as they
 * are stored. A trimmed log is verified from its checkpoint on, which must be the one the log speaks of. The log is never compared with itself, so a changed byte or a changed machine shows at the very signal.
 *
 * @param folding  another machine than the program's own, to see where it would have gone another way
 * @throws AppError `session_not_found`
 */
export async function verifySession(
  log: Pick<SignalLog, 'read' | 'loadCheckpoint'>,
  id: string,
  folding: Pick<Folding, 'advance'> = { advance },
): Promise<Verification> {
  const checkpoint = await log.loadCheckpoint(`session:${id}`);
  const verifier = new Verifier(folding, checkpoint);
  let seq = checkpoint?.seq ?? 0;
  for (;;) {
    const page = await log.read(`session:${id}`, seq, PAGE_SIGNALS);
    for (const signal of page) if (!verifier.take(signal)) return verifier.result();
    if (page.length < PAGE_SIGNALS) break;
    seq = page.at(-1)!.seq;
  }
  if (verifier.isEmpty) throw sessionNotFound(id);
  verifier.finish();
  return verifier.result();
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
  #digest: string;
  #divergence: Divergence | null = null;

  constructor(folding: Pick<Folding, 'advance'>, checkpoint: Checkpoint | null) {
    this.#folding = folding;
    this.#checkpoint = checkpoint;
    this.#core = checkpoint && restoreCheckpoint(checkpoint).core;
    this.#digest = this.#core?.digest ?? '';
    if (this.#core) this.#noteMachine(this.#core.foreign?.machine ?? sessionMachineRef(), this.#core.seq + 1);
  }

  get isEmpty(): boolean {
    return this.#equal === 0 && this.#divergence === null;
  }

  /** False at the first difference. */
  take(signal: Signal): boolean {
    if (this.#expected.length === 0 && !this.#regenerate(signal)) return false;
    const expected = this.#expected.shift()!;
    const divergence = compare(expected, signal);
    if (divergence) {
      this.#divergence = divergence;
      return false;
    }
    if (signal.name === 'log:pruned' && signal.payload.toSeq === this.#checkpoint?.seq) this.#attested = signal.payload.digest;
    this.#equal += 1;
    this.#digest = signal.digest ?? '';
    return true;
  }

  finish(): void {
    const missing = this.#expected[0];
    if (missing) this.#divergence = { seq: missing.seq, what: 'the log ends too early', expected: missing.name, actual: null };
    if (!this.#checkpoint) return;
    const actual = checkpointDigest(this.#checkpoint);
    if (actual !== this.#attested)
      this.#divergence = { seq: this.#checkpoint.seq, what: 'the checkpoint', expected: this.#attested, actual };
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
    try {
      const step = this.#stepFor(signal);
      if (!step) {
        this.#divergence = { seq: signal.seq, what: 'a signal nothing asked for', expected: null, actual: signal.name };
        return false;
      }
      this.#core = step.core;
      this.#expected = [...step.signals];
      return true;
    } catch (error) {
      this.#divergence = { seq: signal.seq, what: 'the machine cannot take this input', expected: null, actual: String(error) };
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

const COMPARED = ['seq', 'name', 'id', 'stream', 'timestamp', 'payload', 'source', 'digest'] as const;

function compare(expected: SealedSignal, actual: Signal): Divergence | null {
  for (const what of COMPARED) {
    if (canonicalJson(expected[what]) !== canonicalJson(actual[what]))
      return { seq: actual.seq, what, expected: expected[what], actual: actual[what] };
  }
  return null;
}
