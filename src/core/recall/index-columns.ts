/** Room at the beginning; doubled whenever it is used up; unit: memories. */
const SLOTS_AT_FIRST = 256;
/** No neighbour, no session, no author. */
export const NONE = -1;

/** Bits of `signs`. */
export const HAS_TIME = 1;
export const HAS_NUMBER = 2;
export const OF_AUTHOR = 4;

/** What ranking reads of every memory it looks at, by slot: columns of numbers, because following an object for each would cost most of a query. */
export class IndexColumns {
  /** Terms a memory has. */
  lengths = new Uint32Array(SLOTS_AT_FIRST);
  /** The number of its session, and the slots of those before and after it there. */
  sessionOf = new Int32Array(SLOTS_AT_FIRST);
  previous = new Int32Array(SLOTS_AT_FIRST);
  next = new Int32Array(SLOTS_AT_FIRST);
  /** The number of its author in this view. */
  authors = new Int32Array(SLOTS_AT_FIRST);
  /** Words there are, common ones included. */
  words = new Uint32Array(SLOTS_AT_FIRST);
  createdAtMs = new Float64Array(SLOTS_AT_FIRST);
  signs = new Uint8Array(SLOTS_AT_FIRST);
  /** Terms of all memories of a session, by its number. */
  sessionLengths = new Uint32Array(SLOTS_AT_FIRST);

  /** Make room for a slot. */
  reserve(slot: number): void {
    if (slot < this.lengths.length) return;
    const grown = this.lengths.length * 2;
    this.lengths = copied(this.lengths, new Uint32Array(grown));
    this.sessionOf = copied(this.sessionOf, new Int32Array(grown));
    this.previous = copied(this.previous, new Int32Array(grown));
    this.next = copied(this.next, new Int32Array(grown));
    this.authors = copied(this.authors, new Int32Array(grown));
    this.words = copied(this.words, new Uint32Array(grown));
    this.createdAtMs = copied(this.createdAtMs, new Float64Array(grown));
    this.signs = copied(this.signs, new Uint8Array(grown));
  }

  /** Make room for the number of a session. */
  reserveSession(number: number): void {
    if (number < this.sessionLengths.length) return;
    this.sessionLengths = copied(this.sessionLengths, new Uint32Array(this.sessionLengths.length * 2));
  }

  /** Put a memory between two of its session; NONE stands for the end. */
  link(slot: number, before: number, after: number): void {
    this.previous[slot] = before;
    this.next[slot] = after;
    if (before !== NONE) this.next[before] = slot;
    if (after !== NONE) this.previous[after] = slot;
  }

  /** Take it out again: those beside it stand side by side. */
  unlink(slot: number): void {
    const [before, after] = [this.previous[slot]!, this.next[slot]!];
    if (before !== NONE) this.next[before] = after;
    if (after !== NONE) this.previous[after] = before;
  }
}

function copied<T extends { set(from: T): void }>(from: T, to: T): T {
  to.set(from);
  return to;
}
