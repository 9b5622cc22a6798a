import { Search } from './redact-search.ts';
import { dumpView, fold, foldedView, loosen, looseView, plainView, squeeze } from './redact-view.ts';

/** What stands where a secret stood. @source spec/mcp-server, "secret_exec" */
export const REDACTED_SECRET = '[REDACTED]';
/** Encodings shorter than this would be found everywhere; unit: bytes. */
const NEEDLE_BYTES_MIN = 4;
/** Without what stands between them so few letters and digits would be found everywhere; unit: bytes. */
const LOOSE_BYTES_MIN = 8;
/** A line of a secret of many lines is looked for by itself from here on; unit: characters. */
const LINE_CHARS_MIN = 8;
/** For each byte of a form. */
const MAKING_STEPS = 4;
const NEWLINE = 0x0a;
/** @source RFC 4648, 6 */
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
/** What `escape()` of JavaScript leaves as it is. */
const ESCAPE_PLAIN = /[^\w@*+./-]/g;

/** After so much work others may run; about a millisecond; unit: comparisons. */
const SLICE_STEPS = 262_144;

export interface Redactor {
  /**
   * What a command wrote, without its secrets.
   *
   * @param isCut  more followed, or would have: the beginning of a secret at the end is taken out as well
   * @returns      UTF-8 text; bytes that are none are replaced
   */
  redact(output: Buffer, isCut?: boolean): string;
  /** The same in slices: `pause` is waited for between them, and told how many comparisons the last one made. */
  redactInSlices(output: Buffer, isCut: boolean, pause: (steps: number) => Promise<void>): Promise<string>;
}

/**
 * Finds the values as they are, in base64 (all three alignments, both alphabets), base32, hex (also of UTF-16), URL-encoded, JSON-escaped, HTML-escaped, as `\x63\x61`,
 * as hex with anything between its bytes (`63:61`, `0x63;0x61`), each of these backwards, and in what `xxd`, `hexdump -C`, `od -c` and `od -t x1` make of it.
 * Zero-width characters, marks, capitals of any script and full-width letters do not matter. Whitespace and case do not matter: `base64` and `fold` break lines, `echo $KEY` joins them.
 * Not found is what a program turns into anything else, such as a compressed or encrypted form.
 */
export function createRedactor(values: readonly string[]): Redactor {
  return {
    redact: (output, isCut = false) => {
      const work = redactStepwise(values, output, isCut);
      for (let next = work.next(); ; next = work.next()) if (next.done) return next.value;
    },
    redactInSlices: async (output, isCut, pause) => {
      const work = redactStepwise(values, output, isCut);
      for (let next = work.next(); ; next = work.next()) {
        if (next.done) return next.value;
        await pause(next.value);
      }
    },
  };
}

/** Yields between slices how many comparisons were made in the last. */
function* redactStepwise(values: readonly string[], output: Buffer, isCut: boolean): Generator<number, string> {
  const [plain, loose] = [new Search(plainView(output)), new Search(looseView(output))];
  const dump = [dumpView(output)].filter((view) => view !== undefined).map((view) => new Search(view));
  const folded = [foldedView(output)].filter((view) => view !== undefined).map((view) => new Search(view));
  const searches = [plain, loose, ...dump, ...folded];
  const places = { exact: [plain, ...dump], loose: [loose], any: [loose, ...dump], folded };
  let done = 0;
  let made = 0;
  for (const { needle, place } of output.length === 0 ? [] : needlesOf(values, folded.length > 0)) {
    const bytesMin = place === 'exact' || place === 'folded' ? NEEDLE_BYTES_MIN : LOOSE_BYTES_MIN;
    if (needle.length < bytesMin) continue;
    // To make it took a few steps as well.
    made += needle.length * MAKING_STEPS;
    for (const search of places[place]) search.find(needle, isCut ? bytesMin : undefined);
    const steps = made + searches.reduce((sum, search) => sum + search.steps, 0) - done;
    if (steps < SLICE_STEPS) continue;
    done += steps;
    yield steps;
  }
  const spans = searches.flatMap((search) => spansOf(output, search, isCut));
  return replaceSpans(
    output,
    spans.sort((a, b) => a.from - b.from),
    isCut,
  );
}

interface Needle {
  readonly needle: Uint8Array;
  /** As it is; with anything between its letters and digits; or both, in the text and in dumps; or without marks and capitals. */
  readonly place: 'exact' | 'loose' | 'any' | 'folded';
}

/** One after the other: all forms of a long secret together would take much time and memory. */
function* needlesOf(values: readonly string[], isFolded: boolean): Generator<Needle> {
  for (const text of new Set(values.flatMap(partsOf))) {
    const seen = new Set<string>();
    for (const form of formsOf(text)) {
      if (seen.has(form)) continue;
      seen.add(form);
      const bytes = Buffer.from(form);
      yield exactly(bytes);
      // Both kinds of backwards: by character as `rev` does it, and by byte.
      yield exactly(Buffer.from(reversed(form)));
      if (bytes.length > form.length) yield exactly(bytes.reverse());
      // What stands between letters and shows nothing, marks, full-width letters and capitals beyond ASCII.
      if (!isFolded) continue;
      yield { needle: fold(form), place: 'folded' };
      yield { needle: fold(reversed(form)), place: 'folded' };
    }
    for (const form of looseForms(text)) {
      yield { needle: loosen(Buffer.from(form)), place: 'loose' };
      yield { needle: loosen(Buffer.from(reversed(form))), place: 'loose' };
    }
  }
}

/** What has letters and digits alone is found with anything between them as well. */
function exactly(bytes: Uint8Array): Needle {
  const needle = squeeze(bytes);
  return { needle, place: needle.length >= LOOSE_BYTES_MIN && loosen(needle).length === needle.length ? 'any' : 'exact' };
}

function* formsOf(text: string): Generator<string> {
  yield text;
  yield* encodedForms(text);
  yield* encodedForms(reversed(text));
  yield* hexOfUtf16(text);
  for (const before of [0, 1, 2, 3, 4]) yield base32Within(Buffer.from(text), before);
  yield* escapedForms(text);
}

function partsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).filter((line) => line.trim().length >= LINE_CHARS_MIN);
  return [value, value.trim(), ...(lines.length > 1 ? lines : [])].filter((text) => text.length > 0);
}

function* encodedForms(text: string): Generator<string> {
  const bytes = Buffer.from(text);
  for (const before of [0, 1, 2]) {
    const form = base64Within(bytes, before);
    yield form;
    yield form.replaceAll('+', '-').replaceAll('/', '_');
  }
  yield bytes.toString('hex');
}

function hexOfUtf16(text: string): string[] {
  const little = Buffer.from(text, 'utf16le');
  // Without the last zero it stands in both orders of the bytes.
  if (!/[^\0-\xff]/.test(text)) return [little.toString('hex').slice(0, -2)];
  return [little.toString('hex'), Buffer.from(little).swap16().toString('hex')];
}

/** What anything may stand between: a program chooses `0x43;0x61`, `\x43\x61`, `&#x43;&#x61;` or `C.a`. */
function looseForms(text: string): string[] {
  const hex = Buffer.from(text).toString('hex');
  return [text, hex.replace(/../g, '0x$&'), hex.replace(/../g, 'x$&')];
}

/** The characters that only these bytes decide, when so many other bytes stand before them in what was encoded. */
function base64Within(bytes: Buffer, before: number): string {
  const bits = 8 * (before + bytes.length);
  return Buffer.concat([Buffer.alloc(before), bytes])
    .toString('base64')
    .slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6));
}

/** The same in base32, of five bits a character. */
function base32Within(bytes: Buffer, before: number): string {
  let form = '';
  let bits = 0;
  let held = 0;
  for (const byte of [...new Uint8Array(before), ...bytes]) {
    held = ((held << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) form += BASE32[(held >>> (bits - 5)) & 31];
  }
  return form.slice(Math.ceil((8 * before) / 5));
}

function* escapedForms(text: string): Generator<string> {
  const json = JSON.stringify(text).slice(1, -1);
  const ascii = json.replace(/[^\0-~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  yield* [json, ascii, json.replaceAll('/', '\\/'), JSON.stringify(json).slice(1, -1)];
  const url = encodeURIComponent(text.toWellFormed());
  const strict = url.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  const form = strict.replaceAll('%20', '+');
  yield* [url, strict, form, form.replaceAll('~', '%7e'), url.replaceAll('%2F', '/'), encodeURI(text.toWellFormed())];
  yield text.replace(ESCAPE_PLAIN, escaped);
  const html = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const quoted = html.replaceAll('"', '&quot;');
  yield* [html, quoted];
  for (const quote of ['&#39;', '&#x27;', '&apos;']) yield quoted.replaceAll("'", quote);
  // The ways shells write a word.
  yield text.replaceAll("'", "'\\''");
  yield text.replace(/[^\w@%+=:,./-]/g, '\\$&');
}

/** As `escape()` of JavaScript writes a character. */
function escaped(unit: string): string {
  const code = unit.charCodeAt(0).toString(16);
  return code.length > 2 ? `%u${code.padStart(4, '0')}` : `%${code.padStart(2, '0')}`;
}

function reversed(text: string): string {
  return [...text].reverse().join('');
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** Where in the output to cut out what was found. */
function spansOf(output: Buffer, search: Search, isCut: boolean): Span[] {
  const { bytes, places, ends = places, byLine } = search.view;
  return search.found().map(({ from, to }) => {
    const end = ends[to - 1]! + 1;
    // Whitespace that a cut leaves behind a secret is not worth telling apart from the secret.
    const isLast = isCut && to === bytes.length;
    return { from: places[from]!, to: isLast ? output.length : byLine ? endOfLine(output, end) : end };
  });
}

function endOfLine(output: Buffer, at: number): number {
  const newline = output.indexOf(NEWLINE, at);
  return newline < 0 ? output.length : newline;
}

function replaceSpans(output: Buffer, spans: readonly Span[], isCut: boolean): string {
  const parts: Buffer[] = [];
  let at = 0;
  for (let index = 0; index < spans.length; ) {
    const { from } = spans[index]!;
    let { to } = spans[index]!;
    // What overlaps or touches is one gap, so that nothing between two finds is left.
    for (index += 1; index < spans.length && spans[index]!.from <= to; index += 1) to = Math.max(to, spans[index]!.to);
    parts.push(output.subarray(at, from), Buffer.from(REDACTED_SECRET));
    at = to;
  }
  const rest = output.subarray(at);
  parts.push(isCut ? wholeCharacters(rest) : rest);
  return Buffer.concat(parts).toString('utf8');
}

/** Without the beginning of a character that a cut has broken. */
function wholeCharacters(bytes: Buffer): Buffer {
  let end = bytes.length;
  // At most three bytes of a character can stand before the cut.
  for (let back = 1; back <= 3 && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back]!;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    if (back < needed) end = bytes.length - back;
    break;
  }
  return bytes.subarray(0, end);
}
