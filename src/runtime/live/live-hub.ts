import type { Signal } from '../../contract/signal.ts';

/** Newest signals kept for live readers, over all sessions; older ones are read from the log. */
export const RECENT_SIGNALS_MAX = 2_048;
/** Their text together; unit: characters. */
const RECENT_CHARS_MAX = 16 * 1_048_576;
/** Deltas of one tick are sent together, at the latest after this; unit: milliseconds. */
const COALESCE_MS = 4;
/** Progress notes waiting for readers in one session; the oldest are dropped. */
const PROGRESS_MAX = 64;

export interface TextBlock {
  readonly kind: 'text' | 'thinking';
  text: string;
}

/** What a model call has said so far; replaced when the next call of the session begins. */
export interface RunningText {
  readonly key: string;
  /** A summary is written for the log, not for readers. */
  readonly hidden: boolean;
  readonly blocks: TextBlock[];
  chars: number;
}

export interface Progress {
  readonly number: number;
  readonly payload: { id: string; message: string; fraction?: number };
}

/** Who counts. */
export interface HubObserver {
  observe(signal: Signal): void;
  /** Readers that fell behind (1) or caught up (-1). */
  lag(readers: 1 | -1): void;
  /** A commit took this long, fsync included. */
  appended(seconds: number): void;
}

interface SessionLive {
  running: RunningText | null;
  progress: Progress[];
  progressCount: number;
  recent: Signal[];
  /** Newest number published; stays when the signals are no longer kept. */
  head: number;
  ended: boolean;
  /** The session left memory while readers stayed: goes with the last of them. */
  leaves: boolean;
  readers: Set<() => void>;
}

/**
 * What live readers share: the newest committed signals, and the text that is being written. Readers are cursors: they are woken and
 * take what they have not had; nothing is queued for them.
 */
export class LiveHub {
  readonly #sessions = new Map<string, SessionLive>();
  readonly #recent: Signal[] = [];
  #recentChars = 0;
  readonly #readers = new Set<() => void>();
  readonly #dirty = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #headGseq = 0;
  readonly #observers: HubObserver[] = [];

  /** Told of every committed signal, and of readers that fall behind. */
  observe(observer: HubObserver): void {
    this.#observers.push(observer);
  }

  /** @see HubObserver */
  lag(readers: 1 | -1): void {
    for (const observer of this.#observers) observer.lag(readers);
  }

  appended(seconds: number): void {
    for (const observer of this.#observers) observer.appended(seconds);
  }

  get headGseq(): number {
    return this.#headGseq;
  }

  set headGseq(value: number) {
    this.#headGseq = value;
  }

  /** Committed signals of one session, in order. */
  publish(session: string, signals: readonly Signal[]): void {
    const live = this.#live(session);
    live.leaves = false;
    for (const signal of signals) {
      live.head = signal.seq;
      if (signal.name === 'session:ended') live.ended = true;
      for (const observer of this.#observers) observer.observe(signal);
      live.recent.push(signal);
      this.#insert(signal);
      this.#recentChars += sizeOf(signal);
      this.#headGseq = Math.max(this.#headGseq, signal.gseq);
    }
    this.#trim();
    this.#wake(session);
  }

  beginText(session: string, key: string, hidden: boolean): void {
    this.#live(session).running = { key, hidden, blocks: [], chars: 0 };
  }

  addText(session: string, key: string, kind: 'text' | 'thinking', text: string): void {
    const running = this.#live(session).running;
    if (running?.key !== key || text === '') return;
    const last = running.blocks.at(-1);
    if (last?.kind === kind) last.text += text;
    else running.blocks.push({ kind, text });
    running.chars += text.length;
    if (!running.hidden) this.#wake(session);
  }

  progress(session: string, payload: Progress['payload']): void {
    const live = this.#live(session);
    live.progressCount += 1;
    live.progress.push({ number: live.progressCount, payload });
    if (live.progress.length > PROGRESS_MAX) live.progress.shift();
    this.#wake(session);
  }

  running(session: string): RunningText | null {
    const running = this.#sessions.get(session)?.running ?? null;
    return running?.hidden ? null : running;
  }

  progressAfter(session: string, number: number): readonly Progress[] {
    const progress = this.#sessions.get(session)?.progress ?? [];
    return progress.length === 0 || progress.at(-1)!.number <= number ? [] : progress.filter((entry) => entry.number > number);
  }

  progressHead(session: string): number {
    return this.#sessions.get(session)?.progressCount ?? 0;
  }

  /** Newest number this process has published for a session, 0 when none. */
  headOf(session: string): number {
    return this.#sessions.get(session)?.head ?? 0;
  }

  /** This process has published the session's end. */
  hasEnded(session: string): boolean {
    return this.#sessions.get(session)?.ended ?? false;
  }

  /** Signals of a session after `seq`, or null when they are not all in memory any more. */
  recentAfter(session: string, seq: number, limit: number): readonly Signal[] | null {
    const recent = this.#sessions.get(session)?.recent;
    const first = recent?.[0];
    if (!recent || !first || first.seq > seq + 1) return null;
    const start = seq + 1 - first.seq;
    return recent.slice(start, start + limit);
  }

  /** Signals of all sessions after `gseq`, without a gap; null when the next one is not in memory. */
  recentAllAfter(gseq: number, limit: number): readonly Signal[] | null {
    if (gseq >= this.#headGseq) return [];
    let low = 0;
    let high = this.#recent.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#recent[middle]!.gseq > gseq) high = middle;
      else low = middle + 1;
    }
    let end = low;
    while (end < this.#recent.length && end - low < limit && this.#recent[end]!.gseq === gseq + 1 + end - low) end += 1;
    return end === low ? null : this.#recent.slice(low, end);
  }

  /** Sessions in which text is being written now. */
  writing(): string[] {
    return [...this.#sessions]
      .filter(([, live]) => live.running && !live.running.hidden && live.running.chars > 0)
      .map(([session]) => session);
  }

  /** `wake` is called, once a tick at most, when the session has something new. */
  watch(session: string, wake: () => void): () => void {
    const live = this.#live(session);
    live.readers.add(wake);
    return () => {
      live.readers.delete(wake);
      if (live.leaves) this.forget(session);
    };
  }

  watchAll(wake: () => void): () => void {
    this.#readers.add(wake);
    return () => this.#readers.delete(wake);
  }

  /** A session left memory: its running text is over. What readers still need stands in the log. */
  forget(session: string): void {
    const live = this.#sessions.get(session);
    if (!live) return;
    live.leaves = true;
    if (live.readers.size === 0) this.#sessions.delete(session);
  }

  /** Signals of a session that the log no longer has are not shown from memory either. */
  dropBefore(session: string, seq: number): void {
    const isGone = (signal: Signal) => signal.source.session === session && signal.seq < seq;
    for (const signal of this.#recent) if (isGone(signal)) this.#recentChars -= sizeOf(signal);
    const kept = this.#recent.filter((signal) => !isGone(signal));
    this.#recent.splice(0, this.#recent.length, ...kept);
    const live = this.#sessions.get(session);
    if (live) live.recent = live.recent.filter((signal) => !isGone(signal));
  }

  #live(session: string): SessionLive {
    let live = this.#sessions.get(session);
    if (!live) {
      live = { running: null, progress: [], progressCount: 0, recent: [], head: 0, ended: false, leaves: false, readers: new Set() };
      this.#sessions.set(session, live);
    }
    return live;
  }

  /** Commits of different sessions may be published slightly out of their log-wide order. */
  #insert(signal: Signal): void {
    let index = this.#recent.length;
    while (index > 0 && this.#recent[index - 1]!.gseq > signal.gseq) index -= 1;
    this.#recent.splice(index, 0, signal);
  }

  #trim(): void {
    while (this.#recent.length > RECENT_SIGNALS_MAX || this.#recentChars > RECENT_CHARS_MAX) {
      const dropped = this.#recent.shift()!;
      this.#recentChars -= sizeOf(dropped);
      const live = this.#sessions.get(liveKey(dropped));
      if (live?.recent[0]?.seq === dropped.seq) live.recent.shift();
    }
  }

  #wake(session: string): void {
    if (this.#readers.size === 0 && (this.#sessions.get(session)?.readers.size ?? 0) === 0) return;
    this.#dirty.add(session);
    this.#timer ??= setTimeout(() => this.#flush(), COALESCE_MS);
  }

  #flush(): void {
    this.#timer = null;
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    for (const session of dirty) for (const wake of [...(this.#sessions.get(session)?.readers ?? [])]) wake();
    for (const wake of [...this.#readers]) wake();
  }
}

/** Sessions are known by their id, other streams by their name. */
function liveKey({ stream, source }: Signal): string {
  return source.session !== undefined && stream === `session:${source.session}` ? source.session : stream;
}

const SIZES = new WeakMap<Signal, number>();
/** Envelope without payload; unit: characters. */
const ENVELOPE_CHARS = 400;

function sizeOf(signal: Signal): number {
  let size = SIZES.get(signal);
  if (size === undefined) {
    size = ENVELOPE_CHARS + payloadChars(signal.payload);
    SIZES.set(signal, size);
  }
  return size;
}

/** Near enough, and without serialising: strings are what is big. */
function payloadChars(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (Array.isArray(value)) return value.reduce((sum: number, entry) => sum + payloadChars(entry), 0);
  if (value && typeof value === 'object') return Object.values(value).reduce((sum: number, entry) => sum + payloadChars(entry), 0);
  return 8;
}
