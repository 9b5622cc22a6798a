import { AppError } from './errors.ts';

/** A piece of an expression. `end` stands behind the last one. */
export interface Token {
  readonly kind: 'number' | 'text' | 'name' | 'sign' | 'end';
  /** What it means: the number, the text without quotes and escapes, else the characters themselves. */
  readonly value: string | number;
  /** Index of its first character, and of the one behind it. */
  readonly from: number;
  readonly to: number;
}

/** Where a text stands in a request, and which of its characters are the expression's. */
export interface ExpressionPlace {
  readonly text: string;
  /** JSON pointer of the text. */
  readonly pointer: string;
  /** What ends the expression besides the end of the text. */
  readonly until?: string;
}

const SPACE = /\s*/y;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const NAME = /[\p{L}_$][\p{L}\p{N}_$]*/uy;
const TEXT = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
/** Longer ones first. */
const SIGNS = ['||', '&&', '==', '!=', '<=', '>=', '<', '>', '+', '-', '*', '/', '%', '!', '(', ')', '[', ']', '.'];
const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '\\': '\\', '"': '"', "'": "'" };
/** Habits of other languages. */
const HINTS: Readonly<Record<string, string>> = {
  '=': 'compare with `==`',
  '&': 'write `&&`',
  '|': 'write `||`',
  '?': 'there is no choice between two values; write a condition',
  '{': 'there are no objects',
  ',': 'there are no lists and no calls',
  '"': 'the text does not end',
  "'": 'the text does not end',
  '`': 'put a text in double quotes',
};

/** The token at or behind an index; linear over a whole text. @throws AppError `invalid_expression` */
export function readToken(place: ExpressionPlace, index: number): Token {
  const { text, until } = place;
  const from = index + match(SPACE, text, index)!.length;
  if (from >= text.length || (until !== undefined && text.startsWith(until, from))) return { kind: 'end', value: '', from, to: from };
  const number = match(NUMBER, text, from);
  if (number !== undefined) return { kind: 'number', value: Number(number), from, to: from + number.length };
  const name = match(NAME, text, from);
  if (name !== undefined) return { kind: 'name', value: name, from, to: from + name.length };
  const quoted = match(TEXT, text, from);
  if (quoted !== undefined) return { kind: 'text', value: unquote(place, quoted, from), from, to: from + quoted.length };
  const sign = SIGNS.find((candidate) => text.startsWith(candidate, from));
  if (sign !== undefined) return { kind: 'sign', value: sign, from, to: from + sign.length };
  const stranger = String.fromCodePoint(text.codePointAt(from)!);
  throw refusal(place, from, `${JSON.stringify(stranger)} means nothing here`, HINTS[stranger]);
}

/** @param at  index of the character that is wrong */
export function refusal({ pointer }: ExpressionPlace, at: number, problem: string, hint?: string): AppError {
  const detail = `at character ${at + 1}: ${problem}${hint === undefined ? '' : `; ${hint}`}`;
  return new AppError('invalid_expression', {
    detail,
    errors: [{ pointer, detail }],
    extra: { position: at + 1, ...(hint === undefined ? {} : { hint }) },
  });
}

function match(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

function unquote(place: ExpressionPlace, quoted: string, from: number): string {
  return quoted.slice(1, -1).replaceAll(/\\(u[0-9a-fA-F]{4}|.)/g, (_, code: string, at: number) => {
    const plain = code.length > 1 ? String.fromCharCode(Number.parseInt(code.slice(1), 16)) : ESCAPES[code];
    if (plain !== undefined) return plain;
    throw refusal(place, from + 1 + at, `\\${code} is no escape`, 'there are \\n, \\r, \\t, \\\\, \\", \\\' and \\u with four digits');
  });
}
