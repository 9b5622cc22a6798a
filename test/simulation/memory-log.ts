import type { Signal } from '../../src/contract/signal.ts';
import { AppError } from '../../src/core/errors.ts';
import type {
  Append,
  Appended,
  CardQuery,
  Checkpoint,
  FeedQuery,
  SessionCard,
  SignalLog,
  Snapshot,
  StreamEntry,
  StreamHead,
  StreamsQuery,
  Trim,
} from '../../src/core/signal-log.ts';

interface Stream {
  head: number;
  epoch: number;
  signals: string[];
  snapshot: Snapshot | null;
  checkpoint: Checkpoint | null;
}

/** The signal log in memory, by the rules of the port: what it holds is text, so nobody can change it from outside. */
export class MemoryLog implements SignalLog {
  /** Called with each append once it is stored. */
  onStored: (stream: string, signals: readonly Signal[]) => void = () => {};
  readonly #streams = new Map<string, Stream>();
  readonly #cards = new Map<string, SessionCard>();
  readonly #feed: string[] = [];
  #gseq = 0;

  async append(append: Append): Promise<Appended> {
    return this.store(append);
  }

  async own(stream: string): Promise<StreamHead> {
    return this.claim(stream);
  }

  /** What `append` does, at once. */
  store({ stream, epoch, expected, signals, card, snapshot }: Append): Appended {
    if (signals.length === 0) throw new Error('an append holds at least one signal');
    signals.forEach((signal, index) => {
      if (signal.stream !== stream || signal.seq !== expected + 1 + index) throw new Error(`signal ${signal.seq} does not follow`);
    });
    const target = this.#streams.get(stream) ?? { head: 0, epoch: 0, signals: [], snapshot: null, checkpoint: null };
    if (epoch !== target.epoch || expected !== target.head) {
      const { head, epoch: owner } = target;
      throw new AppError('session_fenced', { detail: `${stream} is at ${head} of epoch ${owner}`, extra: { head, epoch: owner } });
    }
    const firstGseq = this.#gseq + 1;
    const stored = signals.map((signal): Signal => JSON.parse(JSON.stringify({ ...signal, gseq: ++this.#gseq })));
    for (const signal of stored) {
      target.signals.push(JSON.stringify(signal));
      this.#feed.push(target.signals.at(-1)!);
    }
    target.head += signals.length;
    if (snapshot) target.snapshot = snapshot;
    if (card) this.#cards.set(card.id, card);
    this.#streams.set(stream, target);
    this.onStored(stream, stored);
    return { head: target.head, firstGseq };
  }

  /** What `own` does, at once. */
  claim(stream: string): StreamHead {
    const target = this.#streams.get(stream) ?? { head: 0, epoch: 0, signals: [], snapshot: null, checkpoint: null };
    target.epoch += 1;
    this.#streams.set(stream, target);
    return { head: target.head, epoch: target.epoch };
  }

  async read(stream: string, afterSeq: number, limit: number): Promise<Signal[]> {
    const { first, signals } = this.#signalsOf(stream);
    const start = Math.max(0, afterSeq + 1 - first);
    return signals.slice(start, start + limit).map((text) => JSON.parse(text));
  }

  async readBefore(stream: string, beforeSeq: number, limit: number): Promise<Signal[]> {
    const { first, signals } = this.#signalsOf(stream);
    const end = Math.max(0, Math.min(signals.length, beforeSeq - first));
    return signals.slice(Math.max(0, end - limit), end).map((text) => JSON.parse(text));
  }

  async feed({ after, limit }: FeedQuery): Promise<Signal[]> {
    const signals = this.#feed.map((text): Signal => JSON.parse(text));
    return signals.filter((signal) => signal.gseq > after).slice(0, limit);
  }

  async headGseq(): Promise<number> {
    return this.#gseq;
  }

  async streams({ prefix, limit, before = Number.MAX_SAFE_INTEGER }: StreamsQuery): Promise<StreamEntry[]> {
    return [...this.#streams]
      .map(([name, { head }], place) => ({ name, head, place }))
      .filter(({ name, place }) => name.startsWith(prefix) && place < before)
      .reverse()
      .slice(0, limit);
  }

  async head(stream: string): Promise<StreamHead> {
    const { head, epoch } = this.#streams.get(stream) ?? { head: 0, epoch: 0 };
    return { head, epoch };
  }

  async loadSnapshot(stream: string, until = Number.MAX_SAFE_INTEGER): Promise<Snapshot | null> {
    const snapshot = this.#streams.get(stream)?.snapshot ?? null;
    return snapshot && snapshot.seq <= until ? snapshot : null;
  }

  async loadCheckpoint(stream: string): Promise<Checkpoint | null> {
    return this.#streams.get(stream)?.checkpoint ?? null;
  }

  async trim({ checkpoint, ...append }: Trim): Promise<Appended> {
    const appended = this.store(append);
    const target = this.#streams.get(append.stream)!;
    const dropped = target.signals.filter((text) => (JSON.parse(text) as Signal).seq <= checkpoint.seq);
    this.#forget(dropped);
    target.signals.splice(0, dropped.length);
    target.checkpoint = checkpoint;
    if (target.snapshot && target.snapshot.seq < checkpoint.seq) target.snapshot = null;
    return appended;
  }

  async cards({ agent, state, parent, search, open, ended, limit, after }: CardQuery): Promise<SessionCard[]> {
    const text = search?.toLowerCase();
    return [...this.#cards.values()]
      .filter((card) => agent === undefined || card.agent === agent)
      .filter((card) => state === undefined || card.state === state)
      .filter((card) => parent === undefined || card.parent === parent)
      .filter((card) => open === undefined || card.open === open)
      .filter((card) => ended === undefined || (card.state === 'ended') === ended)
      .filter(
        (card) =>
          text === undefined || [card.id, card.key, card.title, card.project ?? ''].some((field) => field.toLowerCase().includes(text)),
      )
      .sort(newestFirst)
      .filter((card) => after === undefined || newestFirst(after, card) < 0)
      .slice(0, limit);
  }

  async card(id: string): Promise<SessionCard | null> {
    return this.#cards.get(id) ?? null;
  }

  async countCards(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    for (const { state } of this.#cards.values()) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  }

  writeFault(): string | null {
    return null;
  }

  pressure(): number {
    return 0;
  }

  async purge(stream: string): Promise<void> {
    const target = this.#streams.get(stream);
    if (!target) return;
    this.#forget(target.signals);
    Object.assign(target, { signals: [], snapshot: null, checkpoint: null, epoch: target.epoch + 1 });
    this.#cards.delete(stream.replace(/^session:/, ''));
  }

  async close(): Promise<void> {}

  #forget(signals: readonly string[]): void {
    const gone = new Set(signals);
    this.#feed.splice(0, Number.POSITIVE_INFINITY, ...this.#feed.filter((text) => !gone.has(text)));
  }

  #signalsOf(stream: string): { first: number; signals: readonly string[] } {
    const target = this.#streams.get(stream);
    return target ? { first: target.head - target.signals.length + 1, signals: target.signals } : { first: 1, signals: [] };
  }
}

function newestFirst(a: Pick<SessionCard, 'updatedAt' | 'id'>, b: Pick<SessionCard, 'updatedAt' | 'id'>): number {
  if (a.updatedAt !== b.updatedAt) return a.updatedAt > b.updatedAt ? -1 : 1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}
