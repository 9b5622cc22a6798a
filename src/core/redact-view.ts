/** Letters of one case; beyond ASCII as if each byte were a character. */
const LOWER = Uint8Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte).toLowerCase().charCodeAt(0));
const NEWLINE = 0x0a;
/** Characters whose plain form is kept. */
const FOLDED_MAX = 20_000;
/** Stands in a view where the output goes on elsewhere; `squeeze` leaves none. */
const GAP = 0x00;
/** No dump has lines longer than this; unit: bytes. */
const DUMP_LINE_BYTES_MAX = 1_024;
/** An offset and the beginning of what follows it. */
const ANY_DUMP = /^[0-9a-f]{6,16}:?[ \t]/im;
/** `xxd`: groups with one blank between, then two blanks and the characters. */
const COLON_DUMP = /^([0-9a-f]{6,16}:[ \t]+)((?:[0-9a-f]+ )*[0-9a-f]+)/i;
/** `hexdump -C` and `od -t x1`: bytes, then nothing or the characters between bars. */
const BYTE_DUMP = /^([0-9a-f]{6,16}[ \t]+)((?:[0-9a-f]{2} {1,2})*[0-9a-f]{2})(?= *(?:$|[|>]))/i;
/** `od -c`. */
const CHARACTER_DUMP = /^([0-7]{7,16} )(.*)$/;

/** One way to read an output: the bytes to search, and where each of them stands in the output. */
export interface View {
  readonly bytes: Uint8Array;
  readonly places: Uint32Array;
  /** Where each of them ends, when that is not the place itself: a character of several bytes may count as one letter. */
  readonly ends?: Uint32Array;
  /** Beside what is found on a line the same may stand once more, in other characters. */
  readonly byLine: boolean;
}

/** The output as everything is compared: lower case, without whitespace and zero bytes (those of UTF-16). */
export function plainView(output: Uint8Array): View {
  const bytes = new Uint8Array(output.length);
  const places = new Uint32Array(output.length);
  let length = 0;
  for (let at = 0; at < output.length; at += 1) {
    if (isBlank(output[at]!)) continue;
    bytes[length] = LOWER[output[at]!]!;
    places[length] = at;
    length += 1;
  }
  return { bytes: bytes.subarray(0, length), places: places.subarray(0, length), byLine: false };
}

/** Letters and digits alone, and what is no ASCII: bytes with anything between them are next to each other. */
export function looseView(output: Uint8Array): View {
  const bytes = new Uint8Array(output.length);
  const places = new Uint32Array(output.length);
  let length = 0;
  for (let at = 0; at < output.length; at += 1) {
    if (!isWord(output[at]!)) continue;
    bytes[length] = LOWER[output[at]!]!;
    places[length] = at;
    length += 1;
  }
  return { bytes: bytes.subarray(0, length), places: places.subarray(0, length), byLine: false };
}

/** Shows nothing by itself, or only decorates the letter before it. */
const DECORATION = /[\p{Default_Ignorable_Code_Point}\p{C}\p{M}\p{Z}\s]/gu;
const folded = new Map<number, Uint8Array>();

/** A character as everything is compared that looks the same: its plain letter in lower case, without marks; nothing for what shows nothing. */
function foldCharacter(codePoint: number): Uint8Array {
  let bytes = folded.get(codePoint);
  if (!bytes && codePoint < 0x80) {
    bytes = isBlank(codePoint) ? new Uint8Array(0) : Uint8Array.of(LOWER[codePoint]!);
    folded.set(codePoint, bytes);
  }
  if (!bytes) {
    const plain = String.fromCodePoint(codePoint).normalize('NFKD').replace(DECORATION, '').toLowerCase().replace(DECORATION, '');
    bytes = Buffer.from(plain);
    if (folded.size < FOLDED_MAX) folded.set(codePoint, bytes);
  }
  return bytes;
}

/** A needle in the form in which the folded view holds what is searched. */
export function fold(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  // ASCII alone, as all encoded forms are: the same, and quick.
  if (bytes.length === text.length) return squeeze(bytes);
  return Buffer.concat([...text.toWellFormed()].map((char) => foldCharacter(char.codePointAt(0)!)));
}

/** The output without marks, capitals and characters that show nothing; undefined when it is ASCII, which the other views cover. */
export function foldedView(output: Uint8Array): View | undefined {
  if (!output.some((byte) => byte >= 0x80)) return undefined;
  const bytes: number[] = [];
  const places: number[] = [];
  const ends: number[] = [];
  for (let at = 0; at < output.length; ) {
    const { codePoint, length } = characterAt(output, at);
    const letters = codePoint === undefined ? [output[at]!] : foldCharacter(codePoint);
    for (const byte of letters) {
      bytes.push(byte);
      places.push(at);
      ends.push(at + length - 1);
    }
    at += length;
  }
  return { bytes: Uint8Array.from(bytes), places: Uint32Array.from(places), ends: Uint32Array.from(ends), byLine: false };
}

/** One character of UTF-8; a byte that begins none stands for itself. */
function characterAt(bytes: Uint8Array, at: number): { readonly codePoint: number | undefined; readonly length: number } {
  const first = bytes[at]!;
  if (first < 0x80) return { codePoint: first, length: 1 };
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (length === 1 || first > 0xf4 || at + length > bytes.length) return { codePoint: undefined, length: 1 };
  let codePoint = first & (0x7f >> length);
  for (let next = 1; next < length; next += 1) {
    const byte = bytes[at + next]!;
    if ((byte & 0xc0) !== 0x80) return { codePoint: undefined, length: 1 };
    codePoint = (codePoint << 6) | (byte & 0x3f);
  }
  return codePoint > 0x10ffff ? { codePoint: undefined, length: 1 } : { codePoint, length };
}

/** A needle in the form in which the loose view holds what is searched. */
export function loosen(bytes: Uint8Array): Uint8Array {
  return bytes.filter(isWord).map((byte) => LOWER[byte]!);
}

/** What stands between the offsets and the characters of a dump, as one text; undefined when there is none in the output. */
export function dumpView(output: Buffer): View | undefined {
  const text = output.toString('latin1');
  if (!ANY_DUMP.test(text)) return undefined;
  const kept = Buffer.alloc(output.length);
  for (let from = 0; from < output.length; ) {
    const newline = output.indexOf(NEWLINE, from);
    const to = newline < 0 ? output.length : newline;
    const found = to - from > DUMP_LINE_BYTES_MAX ? undefined : dumped(text.slice(from, to).trimEnd());
    if (found) output.copy(kept, from + found.from, from + found.from, from + found.to);
    else kept[from] = 0xff;
    from = to + 1;
  }
  const { bytes, places } = plainView(kept);
  // No byte of UTF-8 is 0xff: it marks the lines that are no dump.
  return { bytes: bytes.map((byte) => (byte === LOWER[0xff]! ? GAP : byte)), places, byLine: true };
}

/** A needle in the form in which views hold what is searched. */
export function squeeze(bytes: Uint8Array): Uint8Array {
  const kept = new Uint8Array(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    if (isBlank(bytes[at]!)) continue;
    kept[length] = LOWER[bytes[at]!]!;
    length += 1;
  }
  return kept.subarray(0, length);
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d) || byte === GAP;
}

function isWord(byte: number): boolean {
  return byte >= 0x80 || (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
}

function dumped(line: string): { readonly from: number; readonly to: number } | undefined {
  const match = COLON_DUMP.exec(line) ?? BYTE_DUMP.exec(line) ?? CHARACTER_DUMP.exec(line);
  if (!match) return undefined;
  const from = match[1]!.length;
  return { from, to: from + match[2]!.length };
}
