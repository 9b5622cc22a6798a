import type { Signal } from '../../contract/signal.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import { DeltaCursor } from './delta-cursor.ts';
import { deltaFrame, type StreamFrame, type StreamSink, storedFrame } from './frame.ts';
import type { LiveHub } from './live-hub.ts';
import { HEARTBEAT_MS, LAGGED_SIGNALS } from './session-reader.ts';
import { Wakeup } from './wakeup.ts';

/** Stored signals taken at once. */
const PAGE_SIGNALS = 500;
/** Sessions whose running text a reader follows at once. */
const WRITING_SESSIONS_MAX = 4_096;

export interface LogReaderOptions {
  /** Log-wide number; null begins with what comes next. */
  readonly after: number | null;
  readonly wants: (signal: Pick<Signal, 'name' | 'source'>) => boolean;
  readonly deltas: boolean;
  readonly agentOf: (session: string) => string;
}

interface Deps {
  readonly log: SignalLog;
  readonly hub: LiveHub;
  readonly clock: Clock;
}

/** Sends one reader the signals of all sessions in log order. Ids are log-wide; running text carries none. */
export async function readLog(deps: Deps, sink: StreamSink, options: LogReaderOptions): Promise<void> {
  await new LogReader(deps, sink, options).run();
}

class LogReader {
  readonly #deps: Deps;
  readonly #sink: StreamSink;
  readonly #options: LogReaderOptions;
  readonly #texts = new Map<string, DeltaCursor>();
  #gseq = 0;
  #lagging = false;
  readonly #wakeup = new Wakeup();

  constructor(deps: Deps, sink: StreamSink, options: LogReaderOptions) {
    this.#deps = deps;
    this.#sink = sink;
    this.#options = options;
  }

  async run(): Promise<void> {
    const unwatch = this.#deps.hub.watchAll(() => this.#wakeup.wake());
    const onClosed = () => this.#wakeup.wake();
    this.#sink.closed.addEventListener('abort', onClosed, { once: true });
    const heartbeat = setInterval(() => this.#heartbeat(), HEARTBEAT_MS);
    try {
      const head = this.#deps.hub.headGseq;
      this.#gseq = this.#options.after === null || this.#options.after > head ? head : this.#options.after;
      await this.#send({ event: 'log:snapshot', data: { head, after: this.#gseq } });
      while (!this.#sink.closed.aborted) {
        await this.#catchUp();
        if (!this.#sink.closed.aborted) await this.#wakeup.sleep();
      }
    } finally {
      if (this.#lagging) this.#deps.hub.lag(-1);
      clearInterval(heartbeat);
      unwatch();
      this.#sink.closed.removeEventListener('abort', onClosed);
    }
  }

  async #catchUp(): Promise<void> {
    while (!this.#sink.closed.aborted) {
      const page = await this.#nextPage();
      if (page.length === 0) break;
      const behind = this.#deps.hub.headGseq - this.#gseq;
      if (!this.#lagging && behind > LAGGED_SIGNALS) {
        this.#lagging = true;
        this.#deps.hub.lag(1);
        this.#sink.write({ event: 'lagged', data: { behind } });
      }
      for (const signal of page) await this.#sendStored(signal);
    }
    if (this.#lagging) {
      this.#lagging = false;
      this.#deps.hub.lag(-1);
      await this.#send({ event: 'caught_up', data: { at: this.#gseq } });
    }
    if (this.#options.deltas) for (const session of this.#deps.hub.writing()) await this.#sendText(session);
  }

  async #nextPage(): Promise<readonly Signal[]> {
    if (this.#gseq >= this.#deps.hub.headGseq) return [];
    return this.#deps.hub.recentAllAfter(this.#gseq, PAGE_SIGNALS) ?? this.#deps.log.feed({ after: this.#gseq, limit: PAGE_SIGNALS });
  }

  async #sendStored(signal: Signal): Promise<void> {
    if (signal.gseq > this.#gseq + 1) await this.#send({ event: 'gap', data: { from: this.#gseq + 1, to: signal.gseq - 1 } });
    const session = signal.source.session;
    if (session && (signal.name === 'text:complete' || signal.name === 'thinking:complete')) await this.#sendText(session);
    if (session && signal.name === 'harness:start') {
      if (this.#texts.size >= WRITING_SESSIONS_MAX) this.#texts.clear();
      this.#texts.set(session, new DeltaCursor(0));
    }
    if (session) this.#texts.get(session)?.pass(signal, false);
    if (signal.name === 'session:ended' && session) this.#texts.delete(session);
    this.#gseq = signal.gseq;
    if (this.#options.wants(signal)) await this.#send(storedFrame(signal, String(signal.gseq)));
  }

  async #sendText(session: string): Promise<void> {
    const { wants, agentOf, deltas } = this.#options;
    const pieces = this.#texts.get(session)?.takeRunning(this.#deps.hub.running(session)) ?? [];
    const agent = agentOf(session);
    for (const { kind, content, index, offset } of pieces) {
      if (!deltas || !wants({ name: `${kind}:delta`, source: { kind: 'stream', agent, session, root: '', depth: 0 } })) continue;
      const at = isoTime(this.#deps.clock.now());
      await this.#send(
        deltaFrame(session, agent, kind, { content, index, offset, cursor: undefined, parent: this.#texts.get(session)?.parent, at }),
      );
    }
  }

  async #send(frame: StreamFrame): Promise<void> {
    if (this.#sink.closed.aborted) return;
    if (!this.#sink.write(frame)) await this.#sink.drained();
  }

  #heartbeat(): void {
    this.#sink.write({ event: 'heartbeat', data: { head: this.#deps.hub.headGseq, at: isoTime(this.#deps.clock.now()) } });
  }
}
