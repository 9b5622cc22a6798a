import type { LeastOfBest } from './best-of.ts';
import type { Entry, IndexView } from './index-view.ts';

/** BM25: how soon more occurrences stop to matter, and how much length counts. */
const K1 = 1.2;
const B = 0.75;
const BASE = K1 * (1 - B);
/** Terms that are looked up for a query: a mask of them must fit into 31 bits. */
export const TERMS_LOOKED_UP_MAX = 31;
/** The room of a view is made for so many times what it needs. */
const ROOM_TO_GROW = 1.25;

export interface LookedUp {
  readonly term: string;
  /** Inverse document frequency among what the reader may see. */
  readonly idf: number;
  /** Its bit in masks of terms. */
  readonly bit: number;
  /** Bits of terms it stands in for, or beside: where one of them is, this one counts for nothing. */
  readonly yieldsTo: number;
}

/** Undefined lets everything through, without a look at it. */
export type Admits = (entry: Entry) => boolean;

/** Terms of a memory, or of a session, on average. */
export interface Averages {
  readonly memory: number;
  readonly session: number;
}

/**
 * The words of a query in one view. By slot: BM25 of a memory, and the terms it holds as bits; by number: BM25 of a session. All else is 0.
 * The room is zeroed and kept from one query to the next: making it anew would cost more than most queries.
 */
export class ViewHits {
  readonly view: IndexView;
  readonly bm: Float64Array;
  readonly mask: Uint32Array;
  readonly sessions: Float64Array;
  /** Slots and numbers of sessions with a hit, as many as the counts say. */
  readonly touched: Uint32Array;
  readonly touchedSessions: Uint32Array;
  touchedCount = 0;
  touchedSessionsCount = 0;
  readonly #isRefused: Uint8Array;
  readonly #refused: number[] = [];
  readonly #isChosen: Uint8Array;
  readonly #chosen: number[] = [];
  /** Occurrences of the present term, and the sessions that have any. */
  readonly #occurrences: Uint32Array;
  readonly #holding: Uint32Array;

  constructor(view: IndexView) {
    this.view = view;
    const [slots, sessions] = [Math.ceil(view.slots * ROOM_TO_GROW), Math.ceil(view.sessionSlots * ROOM_TO_GROW)];
    this.bm = new Float64Array(slots);
    this.mask = new Uint32Array(slots);
    this.touched = new Uint32Array(slots);
    this.#isRefused = new Uint8Array(slots);
    this.#isChosen = new Uint8Array(slots);
    this.sessions = new Float64Array(sessions);
    this.touchedSessions = new Uint32Array(sessions);
    this.#occurrences = new Uint32Array(sessions);
    this.#holding = new Uint32Array(sessions);
  }

  /** Does the room suffice? */
  fits(view: IndexView): boolean {
    return this.bm.length >= view.slots && this.sessions.length >= view.sessionSlots;
  }

  /** Add what one term is worth to all memories and sessions that hold it. */
  add(slots: readonly number[], { idf, bit, yieldsTo }: LookedUp, admits: Admits | undefined, average: Averages): void {
    const { bm, mask, touched } = this;
    const { lengths, sessionOf } = this.view.columns;
    const [occurring, holding] = [this.#occurrences, this.#holding];
    const gain = idf * (K1 + 1);
    const perTerm = (K1 * B) / average.memory;
    let count = this.touchedCount;
    let held = 0;
    for (let index = 0; index < slots.length; index += 1) {
      const packed = slots[index]!;
      const slot = packed >>> 4;
      const known = mask[slot]!;
      if (known === 0) {
        if (admits !== undefined && !this.admits(slot, admits)) continue;
        touched[count] = slot;
        count += 1;
      } else if ((known & yieldsTo) !== 0) continue;
      const occurrences = packed & 15;
      bm[slot] = bm[slot]! + (gain * occurrences) / (occurrences + BASE + perTerm * lengths[slot]!);
      mask[slot] = known | bit;
      const session = sessionOf[slot]!;
      if (session < 0) continue;
      const before = occurring[session]!;
      if (before === 0) {
        holding[held] = session;
        held += 1;
      }
      occurring[session] = before + occurrences;
    }
    this.touchedCount = count;
    this.#addToSessions(held, gain, average);
  }

  #addToSessions(held: number, gain: number, average: Averages): void {
    const { view, sessions, touchedSessions } = this;
    const { sessionLengths } = view.columns;
    const [occurring, holding] = [this.#occurrences, this.#holding];
    const perTerm = (K1 * B) / average.session;
    let count = this.touchedSessionsCount;
    for (let index = 0; index < held; index += 1) {
      const session = holding[index]!;
      const occurrences = occurring[session]!;
      occurring[session] = 0;
      const known = sessions[session]!;
      if (known === 0) {
        touchedSessions[count] = session;
        count += 1;
      }
      sessions[session] = known + (gain * occurrences) / (occurrences + BASE + perTerm * sessionLengths[session]!);
    }
    this.touchedSessionsCount = count;
  }

  /** Offer what every hit is worth by its words. */
  offerAll(best: LeastOfBest): void {
    const { bm, touched, touchedCount } = this;
    let { least } = best;
    for (let index = 0; index < touchedCount; index += 1) {
      const value = bm[touched[index]!]!;
      if (value <= least) continue;
      best.offer(value);
      least = best.least;
    }
  }

  /** Slots of the hits that are worth so much. */
  atLeast(least: number): number[] {
    const { bm, touched, touchedCount } = this;
    const slots: number[] = [];
    for (let index = 0; index < touchedCount; index += 1) if (bm[touched[index]!]! >= least) slots.push(touched[index]!);
    return slots;
  }

  /** Each memory is asked about once. */
  admits(slot: number, admits: Admits | undefined): boolean {
    if (admits === undefined || this.mask[slot] !== 0) return true;
    if (this.#isRefused[slot] === 1) return false;
    if (admits(this.view.entry(slot)!)) return true;
    this.#isRefused[slot] = 1;
    this.#refused.push(slot);
    return false;
  }

  /** True the first time. */
  choose(slot: number): boolean {
    if (this.#isChosen[slot] === 1) return false;
    this.#isChosen[slot] = 1;
    this.#chosen.push(slot);
    return true;
  }

  /** Zero what a query wrote. */
  clear(): void {
    const { bm, mask, sessions, touched, touchedSessions } = this;
    for (let index = 0; index < this.touchedCount; index += 1) {
      const slot = touched[index]!;
      bm[slot] = 0;
      mask[slot] = 0;
    }
    for (let index = 0; index < this.touchedSessionsCount; index += 1) sessions[touchedSessions[index]!] = 0;
    for (const slot of this.#refused) this.#isRefused[slot] = 0;
    for (const slot of this.#chosen) this.#isChosen[slot] = 0;
    this.touchedCount = 0;
    this.touchedSessionsCount = 0;
    this.#refused.length = 0;
    this.#chosen.length = 0;
  }
}

const kept = new WeakMap<IndexView, ViewHits>();

/** What the terms find in a view; to be cleared by the caller. What `admits` refuses counts for nothing. */
export function lookUp(view: IndexView, terms: readonly LookedUp[], admits: Admits | undefined, average: Averages): ViewHits {
  let hits = kept.get(view);
  if (!hits?.fits(view)) {
    hits = new ViewHits(view);
    kept.set(view, hits);
  }
  for (const term of terms) hits.add(view.posting(term.term)?.slots ?? [], term, admits, average);
  return hits;
}
