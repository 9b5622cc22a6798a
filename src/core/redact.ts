/** What stands where a secret stood. @source spec/mcp-server, "secret_exec" */
export const REDACTED_SECRET = '[REDACTED]';
/** Encodings shorter than this would be found everywhere; unit: characters. */
const NEEDLE_CHARS_MIN = 4;
/** A line of a secret of many lines is looked for by itself from here on; unit: characters. */
const LINE_CHARS_MIN = 8;

export interface Redactor {
  /**
   * What a command wrote, without its secrets.
   *
   * @param isCut  more followed, or would have: the beginning of a secret at the end is taken out as well
   * @returns      UTF-8 text; bytes that are none are replaced
   */
  redact(output: Buffer, isCut?: boolean): string;
}

/**
 * Finds the values as they are, in base64 (all three alignments, both alphabets), hex, URL-encoded, JSON-escaped, and each of these backwards.
 * Whitespace and case do not matter: `base64` and `fold` break lines, `echo $KEY` joins them.
 * Not found is what a program turns into anything else, such as a compressed or encrypted form.
 */
export function createRedactor(values: readonly string[]): Redactor {
  const needles = [...new Set(values.flatMap(formsOf))].filter((needle) => needle.length >= NEEDLE_CHARS_MIN);
  return { redact: (output, isCut = false) => replaceSpans(output, findSpans(output, needles, isCut), isCut) };
}

/** Everything is compared as it is here: bytes as characters, lower case, no whitespace. */
function squeeze(text: string): string {
  return text.replace(/[\t\n\v\f\r ]+/g, '').toLowerCase();
}

function formsOf(value: string): string[] {
  const lines = value.split(/\r?\n/).filter((line) => line.trim().length >= LINE_CHARS_MIN);
  const plain = [value, value.trim(), ...(lines.length > 1 ? lines : [])].filter((text) => text.length > 0);
  const forms = plain.flatMap((text) => [text, ...encodedForms(text), ...escapedForms(text)]);
  return forms.flatMap((form) => {
    const bytes = Buffer.from(form).toString('latin1');
    // Both kinds of backwards: by byte, and by character as `rev` does it.
    return [bytes, reversed(bytes), Buffer.from(reversed(form)).toString('latin1')].map(squeeze);
  });
}

function encodedForms(text: string): string[] {
  const bytes = Buffer.from(text);
  const base64 = [0, 1, 2].map((before) => base64Within(bytes, before));
  return [...base64, ...base64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_')), bytes.toString('hex')];
}

/** The characters that only these bytes decide, when so many other bytes stand before them in what was encoded. */
function base64Within(bytes: Buffer, before: number): string {
  const bits = 8 * (before + bytes.length);
  return Buffer.concat([Buffer.alloc(before), bytes])
    .toString('base64')
    .slice(Math.ceil((8 * before) / 6), Math.floor(bits / 6));
}

function escapedForms(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const ascii = json.replace(/[^\0-~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
  const url = encodeURIComponent(text.toWellFormed());
  const strict = url.replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
  const form = strict.replaceAll('%20', '+');
  return [
    ...[json, ascii, json.replaceAll('/', '\\/'), JSON.stringify(json).slice(1, -1)],
    ...[url, strict, form, form.replaceAll('~', '%7e'), url.replaceAll('%2F', '/'), encodeURI(text.toWellFormed())],
    // Every byte of it, as some programs do, and the ways shells write a word.
    Buffer.from(text).toString('hex').replace(/../g, '%$&'),
    text.replaceAll("'", "'\\''"),
    text.replace(/[^\w@%+=:,./-]/g, '\\$&'),
  ];
}

function reversed(text: string): string {
  return [...text].reverse().join('');
}

interface Span {
  readonly from: number;
  readonly to: number;
}

/** In the order of their beginning; they may overlap. */
function findSpans(output: Buffer, needles: readonly string[], isCut: boolean): Span[] {
  const { text, places } = squeezed(output);
  const spans: Span[] = [];
  for (const needle of needles) {
    for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + 1)) {
      spans.push({ from: places[at]!, to: places[at + needle.length - 1]! + 1 });
    }
    const begun = isCut ? beginningAtEnd(text, needle) : 0;
    if (begun >= NEEDLE_CHARS_MIN) spans.push({ from: places[text.length - begun]!, to: output.length });
  }
  return spans.sort((a, b) => a.from - b.from);
}

/** How many characters at the end of the text are the beginning of the needle. By Knuth, Morris and Pratt: a needle can be long. */
function beginningAtEnd(text: string, needle: string): number {
  const fallback = new Uint32Array(needle.length);
  const step = (matched: number, char: string): number => {
    let length = matched;
    while (length > 0 && (length === needle.length || needle[length] !== char)) length = fallback[length - 1]!;
    return needle[length] === char ? length + 1 : length;
  };
  for (let at = 1; at < needle.length; at += 1) fallback[at] = step(fallback[at - 1]!, needle[at]!);
  let matched = 0;
  for (let at = Math.max(0, text.length - needle.length + 1); at < text.length; at += 1) matched = step(matched, text[at]!);
  return matched;
}

/** The text to search, and where each of its characters stands in the output. */
function squeezed(output: Buffer): { readonly text: string; readonly places: Uint32Array } {
  const kept = Buffer.allocUnsafe(output.length);
  const places = new Uint32Array(output.length);
  let length = 0;
  for (let at = 0; at < output.length; at += 1) {
    const byte = output[at]!;
    if (byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)) continue;
    kept[length] = byte;
    places[length] = at;
    length += 1;
  }
  // Lower case keeps the length: every character here is one byte.
  return { text: kept.toString('latin1', 0, length).toLowerCase(), places };
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
