/** Room the note about a cut takes at most, in bytes; part of the allowed output. */
const CUT_NOTE_BYTES = 128;
/** Answered for `undefined`: some models take an empty result for a fault. */
const NO_OUTPUT = '(no output)';

export interface ToolOutput {
  /** What the model reads. */
  readonly text: string;
  /** What callers over HTTP get: safe for JSON.stringify, and the text itself where the value was not or was cut. */
  readonly value: unknown;
  /** UTF-8 bytes of the whole text, before any cut. */
  readonly bytes: number;
  readonly truncated: boolean;
}

/**
 * The text of a tool's value: strings as they are, everything else as JSON. BigInt becomes a string, a circle `[Circular]`.
 *
 * @param bytesMax  UTF-8 bytes the text may have, the note about the cut included; at least 256
 * @throws whatever a `toJSON` or getter of the value throws
 */
export function writeOutput(value: unknown, bytesMax: number): ToolOutput {
  const { text, isPlain } = textOf(value);
  const whole = Buffer.from(text, 'utf8');
  if (whole.length <= bytesMax) {
    return { text, value: isPlain ? (value ?? null) : text, bytes: whole.length, truncated: false };
  }
  const kept = whole.toString('utf8', 0, characterStart(whole, Math.max(bytesMax - CUT_NOTE_BYTES, 0)));
  const shown = Buffer.byteLength(kept, 'utf8');
  const cut = `${kept}\n[cut: ${shown} of ${whole.length} bytes shown, ${whole.length - shown} left out; ask for less or in parts]`;
  return { text: cut, value: cut, bytes: whole.length, truncated: true };
}

/** Plain: JSON.stringify of the value itself gives this text. */
function textOf(value: unknown): { text: string; isPlain: boolean } {
  if (typeof value === 'string') {
    const text = value.toWellFormed();
    return { text, isPlain: text === value };
  }
  if (value === undefined) return { text: NO_OUTPUT, isPlain: true };
  try {
    const text = JSON.stringify(value);
    // Functions and symbols have no JSON.
    return text === undefined ? { text: String(value), isPlain: false } : { text, isPlain: true };
  } catch (error) {
    // JSON.stringify says TypeError for circles and BigInt; anything else is the value's own fault.
    if (!(error instanceof TypeError)) throw error;
    return { text: JSON.stringify(value, untangle()), isPlain: false };
  }
}

/** Only a true ancestor is a circle: the same object in two branches is written twice. */
function untangle(): (this: unknown, key: string, value: unknown) => unknown {
  const ancestors: unknown[] = [];
  return function (_key, value) {
    if (typeof value === 'bigint') return value.toString();
    if (typeof value !== 'object' || value === null) return value;
    while (ancestors.length > 0 && ancestors.at(-1) !== this) ancestors.pop();
    if (ancestors.includes(value)) return '[Circular]';
    ancestors.push(value);
    return value;
  };
}

/** The last place at or before `index` where a UTF-8 character begins. */
function characterStart(bytes: Buffer, index: number): number {
  let start = index;
  while (start > 0 && (bytes[start]! & 0xc0) === 0x80) start -= 1;
  return start;
}
