import type { View } from './redact-view.ts';

/** Bytes that are looked up together. */
const GRAM_BYTES = 4;
/** What occurs in a text is noted in so many times as many places, so that little else seems to occur; a power of 2, as bits. */
const GRAM_SPARE_BITS = 2;
/** Of the number of places: 8 MiB at most. */
const GRAM_BITS_MIN = 8;
const GRAM_BITS_MAX = 20;
/** Spreads what differs little. */
const GRAM_FACTOR = 0x9e3779b1;

/** Looks for needles in one text, each of four bytes or more, in a number of steps that grows with text and needle alone, not with their product. */
export class Search {
  readonly view: View;
  /** Comparisons made so far. */
  steps = 0;
  /** How many bytes of a needle begin here, the longest first. */
  readonly #reach: Uint32Array;
  readonly #grams: Uint32Array;
  /** By gram: the last place of it, counted from 1; by place: the one before it. */
  readonly #last: Uint32Array;
  readonly #before: Uint32Array;
  /** Shift that leaves as many bits of a hash as there are places. */
  readonly #gramShift: number;
  #fallback = new Uint32Array(0);

  constructor(view: View) {
    this.view = view;
    this.#reach = new Uint32Array(view.bytes.length);
    const bits = 32 - Math.clz32(view.bytes.length) + GRAM_SPARE_BITS;
    const places = Math.min(Math.max(bits, GRAM_BITS_MIN), GRAM_BITS_MAX);
    this.#gramShift = 32 - places;
    this.#grams = new Uint32Array(1 << places);
    this.#last = new Uint32Array(1 << places);
    this.#before = new Uint32Array(view.bytes.length);
    for (let at = 0; at + GRAM_BYTES <= view.bytes.length; at += 1) {
      const gram = this.#gramAt(view.bytes, at);
      this.#grams[gram]! += 1;
      this.#before[at] = this.#last[gram]!;
      this.#last[gram] = at + 1;
    }
  }

  /**
   * Mark where the needle stands, wherever it overlaps itself.
   *
   * @param beginningMin  the beginning of the needle at the end of the text counts as well, from so many bytes on; undefined: it does not
   */
  find(needle: Uint8Array, beginningMin: number | undefined): void {
    const { bytes } = this.view;
    const { known, rarest, places } = this.#known(needle);
    const isWhole = known === needle.length && needle.length <= bytes.length;
    // Few places are looked at one by one; many in one go over the text.
    const isRare = isWhole && places * needle.length < bytes.length;
    if (isRare) this.#findAt(needle, rarest);
    else if (isWhole) this.#scan(needle, 0, needle.length, beginningMin);
    if (beginningMin === undefined || known < beginningMin || (isWhole && !isRare)) return;
    // What is not in the text as a whole can only begin at its end, and no further than the part that is known.
    const part = needle.subarray(0, known);
    this.#scan(part, Math.max(0, bytes.length - part.length), needle.length, beginningMin);
  }

  /** Ranges of the text, in order, none across another. */
  found(): { readonly from: number; readonly to: number }[] {
    const ranges: { from: number; to: number }[] = [];
    let last: { from: number; to: number } | undefined;
    for (let at = 0; at < this.#reach.length; at += 1) {
      const length = this.#reach[at]!;
      if (length === 0) continue;
      if (last && at < last.to) last.to = Math.max(last.to, at + length);
      else {
        last = { from: at, to: at + length };
        ranges.push(last);
      }
    }
    return ranges;
  }

  #mark(at: number, length: number): void {
    this.#reach[at] = Math.max(this.#reach[at]!, length);
  }

  /** Each place of the needle's rarest four bytes. */
  #findAt(needle: Uint8Array, rarest: number): void {
    const { bytes } = this.view;
    for (let next = this.#last[this.#gramAt(needle, rarest)]!; next > 0; next = this.#before[next - 1]!) {
      const from = next - 1 - rarest;
      if (from < 0 || from + needle.length > bytes.length) continue;
      let same = 0;
      while (same < needle.length && needle[same] === bytes[from + same]) same += 1;
      this.steps += same + 1;
      if (same === needle.length) this.#mark(from, same);
    }
  }

  #scan(needle: Uint8Array, from: number, wholeLength: number, beginningMin: number | undefined): void {
    const { bytes } = this.view;
    const fallback = this.#fallbackOf(needle);
    let matched = 0;
    for (let at = from; at < bytes.length; at += 1) {
      matched = this.#step(needle, fallback, matched, bytes[at]!);
      if (matched === wholeLength) this.#mark(at + 1 - matched, matched);
    }
    if (beginningMin !== undefined && matched >= beginningMin) this.#mark(bytes.length - matched, matched);
  }

  /** How many bytes from the beginning could be in the text, as far as each four of them are; and which four of them are there least. */
  #known(needle: Uint8Array): { readonly known: number; readonly rarest: number; readonly places: number } {
    let rarest = 0;
    let places = Number.POSITIVE_INFINITY;
    for (let at = 0; at + GRAM_BYTES <= needle.length; at += 1) {
      this.steps += 1;
      const here = this.#grams[this.#gramAt(needle, at)]!;
      if (here === 0) return { known: at === 0 ? 0 : at + GRAM_BYTES - 1, rarest, places };
      if (here < places) {
        places = here;
        rarest = at;
      }
    }
    return { known: needle.length, rarest, places };
  }

  /** For each length of a match, the longest one it ends with. By Knuth, Morris and Pratt. */
  #fallbackOf(needle: Uint8Array): Uint32Array {
    if (this.#fallback.length < needle.length) this.#fallback = new Uint32Array(needle.length);
    const fallback = this.#fallback;
    fallback[0] = 0;
    for (let at = 1; at < needle.length; at += 1) fallback[at] = this.#step(needle, fallback, fallback[at - 1]!, needle[at]!);
    return fallback;
  }

  #step(needle: Uint8Array, fallback: Uint32Array, matched: number, byte: number): number {
    let length = matched;
    while (length > 0 && (length === needle.length || needle[length] !== byte)) {
      this.steps += 1;
      length = fallback[length - 1]!;
    }
    this.steps += 1;
    return needle[length] === byte ? length + 1 : length;
  }

  #gramAt(bytes: Uint8Array, at: number): number {
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24);
    return Math.imul(word, GRAM_FACTOR) >>> this.#gramShift;
  }
}
