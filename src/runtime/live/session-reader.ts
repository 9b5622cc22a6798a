import type { Signal } from '../../contract/signal.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import type { NameMatcher } from '../../core/signal-pattern.ts';
import { DeltaCursor, type Piece } from './delta-cursor.ts';
import { deltaFrame, type StreamFrame, type StreamSink, storedFrame } from './frame.ts';
import type { LiveHub } from './live-hub.ts';
import { Wakeup } from './wakeup.ts';

/** Stored signals taken at once. */
const PAGE_SIGNALS = 200;
/** A reader this far behind is told so; unit: signals. */
export const LAGGED_SIGNALS = 1_000;
/** Visible heartbeat, so that a client can tell a quiet stream from a dead one; unit: milliseconds. */
export const HEARTBEAT_MS = 10_000;

export interface SessionCursor {
  readonly seq: number;
  /** Characters of running text had after `seq`. */
  readonly offset: number;
}

export interface SessionReaderOptions {
  readonly session: string;
  /** Where its signals stand in the log: `session:<session>` when left out. */
  readonly stream?: string;
  /** Name of the first frame, `session:snapshot` when left out. */
  readonly snapshotEvent?: string;
  readonly agent: string;
  readonly after: SessionCursor;
  readonly wants: NameMatcher;
  readonly deltas: boolean;
  /** Head of the stream and the first frame's content, asked for once at the start. */
  readonly snapshot: () => Readonly<Record<string, unknown>>;
  readonly head: () => number;
  /** The session will never say anything again. */
  readonly ended: () => boolean;
}

interface Deps {
  readonly log: SignalLog;
  readonly hub: LiveHub;
  readonly clock: Clock;
}

/** Sends one reader the snapshot, everything after its cursor, then what comes, until it goes or the session is over. */
export async function readSession(deps: Deps, sink: StreamSink, options: SessionReaderOptions): Promise<void> {
  const reader = new SessionReader(deps, sink, options);
  await reader.run();
}

class SessionReader {
  readonly #deps: Deps;
  readonly #sink: StreamSink;
  readonly #options: SessionReaderOptions;
  readonly #deltas: DeltaCursor;
  readonly #stream: string;
  #seq: number;
  #progress = 0;
  #lagging = false;
  /** Signals to be sent next. A reader that still waits at a heartbeat gives them up: many that wait would hold much. */
  #page: readonly Signal[] | null = null;
  readonly #wakeup = new Wakeup();

  constructor(deps: Deps, sink: StreamSink, options: SessionReaderOptions) {
    this.#deps = deps;
    this.#sink = sink;
    this.#options = options;
    this.#stream = options.stream ?? `session:${options.session}`;
    this.#seq = options.after.seq;
    this.#deltas = new DeltaCursor(options.after.offset);
  }

  async run(): Promise<void> {
    const { session, snapshot, head } = this.#options;
    // First subscribe, then replay: nothing can fall between the two.
    const unwatch = this.#deps.hub.watch(session, () => this.#wakeup.wake());
    const onClosed = () => this.#wakeup.wake();
    this.#sink.closed.addEventListener('abort', onClosed, { once: true });
    const heartbeat = setInterval(() => this.#heartbeat(), HEARTBEAT_MS);
    this.#progress = this.#deps.hub.progressHead(session);
    try {
      await this.#send({ event: this.#options.snapshotEvent ?? 'session:snapshot', data: snapshot() });
      // A cursor from before the log was replaced: begin again.
      if (this.#seq > head()) this.#seq = 0;
      await this.#findCall();
      while (!this.#sink.closed.aborted) {
        await this.#catchUp();
        if (this.#sink.closed.aborted || (this.#options.ended() && this.#seq >= head())) break;
        await this.#wakeup.sleep();
      }
    } finally {
      if (this.#lagging) this.#deps.hub.lag(-1);
      clearInterval(heartbeat);
      unwatch();
      this.#sink.closed.removeEventListener('abort', onClosed);
    }
  }

  /** A reader that resumes inside a call must know which call that is. */
  async #findCall(): Promise<void> {
    if (this.#seq === 0) return;
    const before = await this.#deps.log.readBefore(this.#stream, this.#seq + 1, PAGE_SIGNALS);
    const start = before.findLastIndex((signal) => signal.name === 'harness:start');
    if (start >= 0) for (const signal of before.slice(start)) this.#deltas.pass(signal, true);
  }

  async #catchUp(): Promise<void> {
    for (;;) {
      if (this.#sink.closed.aborted) return;
      const count = await this.#takePage();
      if (count === 0) break;
      this.#tellLag(count);
      // Dropped meanwhile: read again from where the reader is.
      for (let sent = 0; sent < count && this.#page; sent += 1) await this.#sendStored(this.#page[sent]!);
      this.#page = null;
    }
    if (this.#lagging) {
      this.#lagging = false;
      this.#deps.hub.lag(-1);
      await this.#send({ event: 'caught_up', data: { at: this.#seq } });
    }
    if (this.#options.deltas) await this.#sendPieces(this.#deltas.takeRunning(this.#deps.hub.running(this.#options.session)));
    await this.#sendProgress();
  }

  async #takePage(): Promise<number> {
    const page = await this.#nextPage();
    this.#page = page;
    return page.length;
  }

  async #nextPage(): Promise<readonly Signal[]> {
    const { session, head } = this.#options;
    if (this.#seq >= head()) return [];
    return this.#deps.hub.recentAfter(session, this.#seq, PAGE_SIGNALS) ?? this.#deps.log.read(this.#stream, this.#seq, PAGE_SIGNALS);
  }

  #tellLag(count: number): void {
    const behind = this.#options.head() - this.#seq;
    if (this.#lagging || count === 0 || behind <= LAGGED_SIGNALS) return;
    this.#lagging = true;
    this.#deps.hub.lag(1);
    this.#sink.write({ event: 'lagged', data: { behind } });
  }

  async #sendStored(signal: Signal): Promise<void> {
    if (this.#sink.closed.aborted) return;
    if (signal.seq > this.#seq + 1) await this.#send({ event: 'gap', data: { from: this.#seq + 1, to: signal.seq - 1 } });
    if (this.#options.deltas && (signal.name === 'text:complete' || signal.name === 'thinking:complete')) {
      await this.#sendPieces(this.#deltas.takeRest(signal, this.#deps.hub.running(this.#options.session)));
    }
    this.#deltas.pass(signal, false);
    this.#seq = signal.seq;
    if (this.#options.wants(signal.name)) await this.#send(storedFrame(signal, this.#cursor()));
  }

  /** `seq`, or `seq.offset` while a call is being written: a reader that resumes there has neither gap nor repetition. */
  #cursor(): string {
    return this.#deltas.position > 0 ? `${this.#seq}.${this.#deltas.position}` : String(this.#seq);
  }

  async #sendPieces(pieces: readonly Piece[]): Promise<void> {
    const { session, agent, wants } = this.#options;
    for (const { kind, content, index, offset } of pieces) {
      if (!wants(`${kind}:delta`)) continue;
      const at = isoTime(this.#deps.clock.now());
      await this.#send(
        deltaFrame(session, agent, kind, { content, index, offset, cursor: `${this.#seq}.${offset}`, parent: this.#deltas.parent, at }),
      );
    }
  }

  async #sendProgress(): Promise<void> {
    const { session, wants, deltas } = this.#options;
    for (const { number, payload } of this.#deps.hub.progressAfter(session, this.#progress)) {
      this.#progress = number;
      if (deltas && wants('tool:progress'))
        await this.#send({ event: 'tool:progress', data: { name: 'tool:progress', stream: `session:${session}`, payload } });
    }
  }

  async #send(frame: StreamFrame): Promise<void> {
    if (this.#sink.closed.aborted) return;
    if (!this.#sink.write(frame)) await this.#sink.drained();
  }

  #heartbeat(): void {
    this.#page = null;
    this.#sink.write({ event: 'heartbeat', data: { head: this.#options.head(), at: isoTime(this.#deps.clock.now()) } });
  }
}
