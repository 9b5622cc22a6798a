import type { Signal } from '../../contract/signal.ts';
import type { Logger } from '../../core/logger.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import type { NameMatcher } from '../../core/signal-pattern.ts';
import type { LiveHub } from '../live/live-hub.ts';
import { Wakeup } from '../live/wakeup.ts';

/** Signals looked at together. */
const PAGE_SIGNALS = 500;
/** Wait after a page that the log did not give; unit: milliseconds. */
const RETRY_MS = 500;
/** Names whose listeners are remembered. Agents choose names, so there may be any number of them. */
const NAMES_CACHED_MAX = 2_000;
/** Sessions of activations are called after their run. */
const ACTIVATION_SESSION = /^(.*)_[ar]\d+(?:_\d+)?$/;

/** What a run wants to see of the log. */
export interface FeedWish {
  /** Id of the run: it is told of every signal of its own stream, and of its sessions' signals with these names. */
  readonly id: string;
  readonly own: NameMatcher;
  /** Names of signals it wants wherever they come from; null for none. */
  readonly elsewhere: NameMatcher | null;
  readonly wake: () => void;
}

/** The place of one run. */
export interface FeedSeat {
  /** The furthest place without a wanted signal on the way from `cursor`. */
  skip(cursor: number): number;
  /** Something behind `cursor` has to be looked at. */
  isBehind(cursor: number): boolean;
  leave(): void;
}

interface Seat {
  readonly wish: FeedWish;
  /** What lies before was written when nobody looked for this run. */
  readonly from: number;
  /** The first wanted signal it may not have passed, and the last. */
  first: number | null;
  last: number;
}

/**
 * Reads the log once for all runs, so that a run costs something only when there is a signal it wants. Holds two numbers for a run and
 * no signals: what is wanted is read from the log by the run itself.
 */
export class WorkflowFeed {
  readonly #hub: LiveHub;
  readonly #log: SignalLog;
  readonly #logger: Logger;
  readonly #seats = new Map<string, Seat>();
  readonly #listeners = new Map<string, readonly Seat[]>();
  #cursor = 0;
  #running = false;
  readonly #wakeup = new Wakeup();

  constructor({ hub, log, logger }: { hub: LiveHub; log: SignalLog; logger: Logger }) {
    this.#hub = hub;
    this.#log = log;
    this.#logger = logger;
  }

  /** Signals that come from now on are looked at for this run as well. */
  join(wish: FeedWish): FeedSeat {
    if (!this.#running) this.#cursor = this.#hub.headGseq;
    const seat: Seat = { wish, from: this.#cursor, first: null, last: 0 };
    this.#seats.set(wish.id, seat);
    this.#listeners.clear();
    if (!this.#running) void this.#run();
    return {
      skip: (cursor) => this.#skip(seat, cursor),
      isBehind: (cursor) => cursor < seat.from || cursor < seat.last,
      leave: () => {
        if (this.#seats.get(wish.id) === seat) this.#seats.delete(wish.id);
        this.#listeners.clear();
        if (this.#seats.size === 0) this.#wakeup.wake();
      },
    };
  }

  #skip(seat: Seat, cursor: number): number {
    if (cursor < seat.from) return cursor;
    if (cursor >= seat.last) {
      seat.first = null;
      return Math.max(cursor, this.#cursor);
    }
    return seat.first === null ? cursor : Math.max(cursor, seat.first - 1);
  }

  async #run(): Promise<void> {
    this.#running = true;
    const unwatch = this.#hub.watchAll(() => this.#wakeup.wake());
    try {
      while (this.#seats.size > 0) if (!(await this.#readOn())) await this.#wakeup.sleep();
    } finally {
      unwatch();
      this.#running = false;
    }
  }

  /** The next page; false when there is none. */
  async #readOn(): Promise<boolean> {
    if (this.#cursor >= this.#hub.headGseq) return false;
    try {
      const recent = this.#hub.recentAllAfter(this.#cursor, PAGE_SIGNALS);
      const page = recent ?? (await this.#log.feed({ after: this.#cursor, limit: PAGE_SIGNALS }));
      const woken = new Set<Seat>();
      for (const signal of page) for (const seat of this.#wanting(signal)) woken.add(note(seat, signal.gseq));
      this.#cursor = page.at(-1)?.gseq ?? this.#cursor;
      for (const seat of woken) seat.wish.wake();
      return page.length > 0;
    } catch (error) {
      this.#logger.warn({ err: error }, 'the log could not be read for the workflows; it is tried again');
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
      return true;
    }
  }

  #wanting({ name, stream, source }: Signal): readonly Seat[] {
    if (stream.startsWith('workflow:')) return listOf(this.#seats.get(stream.slice('workflow:'.length)));
    const run = source.session === undefined ? undefined : ACTIVATION_SESSION.exec(source.session)?.[1];
    const owner = run === undefined ? undefined : this.#seats.get(run);
    const everywhere = this.#everywhere(name);
    if (!owner || everywhere.includes(owner) || !owner.wish.own(name)) return everywhere;
    return [owner, ...everywhere];
  }

  #everywhere(name: string): readonly Seat[] {
    const known = this.#listeners.get(name);
    if (known) return known;
    if (this.#listeners.size >= NAMES_CACHED_MAX) this.#listeners.clear();
    const seats = [...this.#seats.values()].filter(({ wish }) => wish.elsewhere?.(name));
    this.#listeners.set(name, seats);
    return seats;
  }
}

function note(seat: Seat, gseq: number): Seat {
  seat.first ??= gseq;
  seat.last = gseq;
  return seat;
}

function listOf(seat: Seat | undefined): readonly Seat[] {
  return seat ? [seat] : [];
}
