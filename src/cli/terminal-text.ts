/** Longest escape sequence that is swallowed, in characters: an unfinished one must not hide the text behind it. */
const SEQUENCE_CHARS_MAX = 256;

const ESCAPE = '\u001b';
const BELL = '\u0007';

/** Where a filter stands: in plain text, after ESC, in `ESC [ ...` (CSI), or in a string as OSC, DCS, APC, PM and SOS have. */
type Mode = 'text' | 'escape' | 'csi' | 'string' | 'string-escape';

/**
 * A filter for one stream of foreign text (what models and tools say) on its way to a terminal: escape sequences, also those cut in two
 * by a chunk border, control characters but line feed and tab, and marks that reorder text are left out.
 *
 * @returns function from a chunk to what may be printed of it; never throws
 */
export function createTextFilter(): (chunk: string) => string {
  let mode: Mode = 'text';
  let swallowed = 0;
  return (chunk) => {
    let out = '';
    for (const char of chunk) {
      if (mode !== 'text' && (char === '\n' || ++swallowed > SEQUENCE_CHARS_MAX)) mode = 'text';
      if (mode === 'text') {
        mode = modeAfterText(char);
        swallowed = 0;
        if (mode === 'text' && isPrintable(char)) out += char;
      } else mode = modeInSequence(mode, char);
    }
    return out;
  };
}

/** Safe to print, a whole text at once. */
export function plainText(text: string): string {
  return createTextFilter()(text);
}

/** One line of it, cut to a width; line breaks become spaces. */
export function plainLine(text: string, charsMax: number): string {
  const line = plainText(text.slice(0, charsMax * 4))
    .replace(/\s+/g, ' ')
    .trim();
  const chars = [...line];
  return chars.length > charsMax ? `${chars.slice(0, charsMax - 1).join('')}…` : line;
}

/** JSON for a terminal or a program: what JSON.stringify leaves in that a terminal would obey is written as \u escapes. */
export function safeJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(/[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

function modeAfterText(char: string): Mode {
  if (char === ESCAPE) return 'escape';
  if (char === '\u009b') return 'csi';
  return '\u0090\u0098\u009d\u009e\u009f'.includes(char) ? 'string' : 'text';
}

function modeInSequence(mode: Mode, char: string): Mode {
  if (char === ESCAPE && mode !== 'string' && mode !== 'string-escape') return 'escape';
  if (mode === 'escape') {
    if (char === '[') return 'csi';
    if (']PX^_'.includes(char)) return 'string';
    return char >= ' ' && char <= '/' ? 'escape' : 'text';
  }
  if (mode === 'csi') return char >= '@' && char <= '~' ? 'text' : 'csi';
  if (char === BELL || char === '\u009c') return 'text';
  if (mode === 'string-escape' && char === '\\') return 'text';
  return char === ESCAPE ? 'string-escape' : 'string';
}

function isPrintable(char: string): boolean {
  const code = char.codePointAt(0) ?? 0;
  if (code < 32) return char === '\n' || char === '\t';
  if (code >= 0x7f && code <= 0x9f) return false;
  return !(code === 0x200e || code === 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069));
}
