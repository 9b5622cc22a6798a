import { AppError } from '../../src/core/errors.ts';
import type { Append, Appended, SignalLog, StreamHead } from '../../src/core/signal-log.ts';
import type { MemoryLog } from './memory-log.ts';

interface Write {
  readonly store: () => unknown;
  readonly resolve: (result: never) => void;
  readonly reject: (error: unknown) => void;
}

/** The log as one process sees it: writes wait until the simulation lets them through, in order; reads see what is stored. */
export function gateLog(log: MemoryLog): { log: SignalLog; gate: LogGate } {
  const gate = new LogGate();
  const gated: SignalLog = {
    append: (append: Append) => gate.add<Appended>(() => log.store(append)),
    own: (stream) => gate.add<StreamHead>(() => log.claim(stream)),
    read: (stream, afterSeq, limit) => log.read(stream, afterSeq, limit),
    readBefore: (stream, beforeSeq, limit) => log.readBefore(stream, beforeSeq, limit),
    feed: (query) => log.feed(query),
    headGseq: () => log.headGseq(),
    head: (stream) => log.head(stream),
    streams: (query) => log.streams(query),
    loadSnapshot: (stream, until) => log.loadSnapshot(stream, until),
    loadCheckpoint: (stream) => log.loadCheckpoint(stream),
    trim: (trim) => log.trim(trim),
    cards: (query) => log.cards(query),
    card: (id) => log.card(id),
    countCards: () => log.countCards(),
    purge: (stream) => log.purge(stream),
    pressure: () => log.pressure(),
    writeFault: () => log.writeFault(),
    close: () => log.close(),
  };
  return { log: gated, gate };
}

export class LogGate {
  /** Writes that will be refused. */
  failing = 0;
  /** Writes that were refused. */
  failed = 0;
  #writes: Write[] = [];

  get waiting(): number {
    return this.#writes.length;
  }

  add<T>(store: () => T): Promise<T> {
    return new Promise((resolve, reject) => this.#writes.push({ store, resolve: resolve as Write['resolve'], reject }));
  }

  /** Lets the oldest write through, or refuses it. */
  land(): void {
    const write = this.#writes.shift();
    if (!write) return;
    if (this.failing > 0) {
      this.failing -= 1;
      this.failed += 1;
      write.reject(new AppError('storage_failed', { detail: 'the disk is full' }));
      return;
    }
    try {
      write.resolve(write.store() as never);
    } catch (error) {
      write.reject(error);
    }
  }

  /** The process dies: the first `landed` writes reached the disk, the others did not, and nobody hears of either. */
  die(landed: number): void {
    for (const write of this.#writes.splice(0).slice(0, landed)) {
      try {
        write.store();
      } catch {
        // Fenced: nobody is left to be told.
      }
    }
  }
}
