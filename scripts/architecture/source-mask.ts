/** Words after which a slash begins a regular expression, not a division. */
const WORDS_BEFORE_REGEX = new Set([
  'return',
  'typeof',
  'case',
  'in',
  'of',
  'do',
  'else',
  'void',
  'delete',
  'throw',
  'await',
  'yield',
  'new',
]);

interface MaskOptions {
  /** Leave the text of strings as it is; comments, template text and regular expressions go all the same. */
  readonly keepStrings?: boolean;
}

/**
 * TypeScript with the inside of comments, strings, template text and regular expressions replaced by spaces. Line breaks stay,
 * so positions and line numbers are those of the original, and what is left can be searched for brackets and words.
 */
export function maskSource(text: string, { keepStrings = false }: MaskOptions = {}): string {
  const out = [...Array(text.length).keys()].map((at) => text[at]!);
  const blank = (from: number, to: number): void => {
    for (let at = from; at < to; at += 1) if (out[at] !== '\n') out[at] = ' ';
  };
  /** Depth of braces inside each open `${`, innermost last. */
  const holes: number[] = [];
  let at = 0;
  let before = '';
  while (at < text.length) {
    const char = text[at]!;
    const closesHole = char === '}' && holes.at(-1) === 0;
    if (closesHole) holes.pop();
    else if (char === '{' && holes.length > 0) holes[holes.length - 1]! += 1;
    else if (char === '}' && holes.length > 0) holes[holes.length - 1]! -= 1;

    const end = tokenEnd(text, at, before, closesHole);
    if (end === undefined) {
      if (/\S/.test(char)) before = /[\w$]/.test(char) && /[\w$]$/.test(text[at - 1] ?? '') ? before + char : char;
      at += 1;
      continue;
    }
    const opensHole = (char === '`' || closesHole) && text[end - 1] === '{';
    if (opensHole) holes.push(0);
    const isString = char === "'" || char === '"';
    if (isString && !keepStrings) blank(at + 1, end - 1);
    if (!isString) blank(at, end);
    // A comment leaves what stood before it in force; everything else is a value.
    if (!(char === '/' && (text[at + 1] === '/' || text[at + 1] === '*'))) before = opensHole ? '(' : ')';
    at = end;
  }
  return out.join('');
}

/** Where the comment, string, piece of template or regular expression that begins here ends; undefined when none begins. */
function tokenEnd(text: string, at: number, before: string, closesHole: boolean): number | undefined {
  const char = text[at]!;
  if (char === '/' && text[at + 1] === '/') return orEnd(text, text.indexOf('\n', at));
  if (char === '/' && text[at + 1] === '*') return orEnd(text, text.indexOf('*/', at + 2), 2);
  if (char === "'" || char === '"') return literalEnd(text, at + 1, char);
  if (char === '`' || closesHole) return templateEnd(text, at + 1);
  if (char === '/' && beginsRegex(before)) return regexEnd(text, at + 1);
  return undefined;
}

function orEnd(text: string, found: number, added = 0): number {
  return found < 0 ? text.length : found + added;
}

function literalEnd(text: string, from: number, quote: string): number {
  let at = from;
  while (at < text.length && text[at] !== quote && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1;
  return Math.min(at + 1, text.length);
}

/** Up to and with the closing backtick, or the `{` of the next `${`. */
function templateEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length && text[at] !== '`') {
    if (text[at] === '$' && text[at + 1] === '{') return at + 2;
    at += text[at] === '\\' ? 2 : 1;
  }
  return Math.min(at + 1, text.length);
}

function beginsRegex(before: string): boolean {
  if (before === '' || WORDS_BEFORE_REGEX.has(before)) return true;
  return !/[\w$)\]}]$/.test(before);
}

function regexEnd(text: string, from: number): number {
  let at = from;
  let inClass = false;
  while (at < text.length && text[at] !== '\n' && (inClass || text[at] !== '/')) {
    if (text[at] === '[') inClass = true;
    if (text[at] === ']') inClass = false;
    at += text[at] === '\\' ? 2 : 1;
  }
  at += 1;
  while (/[a-z]/.test(text[at] ?? '')) at += 1;
  return Math.min(at, text.length);
}

/** 1-based line of a position. */
export function lineOf(text: string, at: number): number {
  let line = 1;
  for (let index = text.indexOf('\n'); index >= 0 && index < at; index = text.indexOf('\n', index + 1)) line += 1;
  return line;
}
