import { isUtf8 } from 'node:buffer';
import { AppError } from '../core/errors.ts';

/** Deepest nesting of arrays and objects in a body; deeper ones could exhaust the stack of whoever walks them. */
export const JSON_DEPTH_MAX = 128;

/** Longest character. */
const UTF8_BYTES_MAX = 4;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** Only these texts can hold half of a surrogate pair; in UTF-8 itself there is none. */
const HALF_HINT = /\\u[dD][89a-fA-F]/;
/** Only these texts can hold a poisoned key; an escaped underscore or letter starts with \u00. */
const POISON_HINT = /__proto__|constructor|\\u00/;

/** What becomes of half a character, as a client leaves it that cuts a text in the middle of an emoji: refused by name, or U+FFFD. */
export type Halves = 'refuse' | 'replace';

/**
 * Parse the bytes of a request body, which are UTF-8.
 *
 * @returns undefined for an empty body
 * @throws AppError `invalid_json` with the position, for bytes that are no UTF-8, broken text, nesting beyond JSON_DEPTH_MAX, halves of
 *   surrogate pairs and keys that would reach a prototype
 */
export function parseJsonBody(bytes: Buffer, halves: Halves = 'refuse'): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes))
    throw new AppError('invalid_json', { detail: `the body is not UTF-8, from byte ${wholeBytes(bytes)} on; encode it as UTF-8` });
  const text = bytes.toString('utf8');
  checkDepth(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new AppError('invalid_json', { detail: `the body is not valid JSON: ${where(error as Error, text)}`, cause: error });
  }
  if (POISON_HINT.test(text)) refusePoison(value);
  if (halves === 'refuse' && HALF_HINT.test(text)) refuseHalves(value);
  return value;
}

/** The bytes before the first that breaks UTF-8: of two beginnings the shorter one is whole as often as the longer. */
function wholeBytes(bytes: Buffer): number {
  let good = 0;
  let bad = bytes.length;
  while (bad - good > 2 * UTF8_BYTES_MAX) {
    const middle = startOfCharacter(bytes, (good + bad) >> 1);
    if (isUtf8(bytes.subarray(0, middle))) good = middle;
    else bad = middle;
  }
  while (good < bad) {
    const end = endOfCharacter(bytes, good);
    if (!isUtf8(bytes.subarray(good, end))) break;
    good = end;
  }
  return good;
}

function startOfCharacter(bytes: Buffer, at: number): number {
  let start = at;
  while (at - start < UTF8_BYTES_MAX - 1 && isContinuation(bytes[start])) start -= 1;
  return start;
}

function endOfCharacter(bytes: Buffer, start: number): number {
  let end = start + 1;
  while (end - start < UTF8_BYTES_MAX && isContinuation(bytes[end])) end += 1;
  return end;
}

function isContinuation(byte = 0): boolean {
  return (byte & 0xc0) === 0x80;
}

function refuseHalves(value: unknown, path = ''): void {
  if (typeof value === 'string' && !value.isWellFormed()) {
    const detail = `${path || 'the body'} holds half of a surrogate pair; cut texts between whole characters`;
    throw new AppError('invalid_json', { detail, errors: [{ pointer: path, detail }] });
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    refuseHalves(key, path);
    refuseHalves(inner, `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`);
  }
}

/** Node names the position only sometimes; the end of the text is the other case worth naming. */
function where(error: Error, text: string): string {
  if (error.message.includes('position')) return error.message;
  if (error.message.includes('end of JSON')) return `it ends too early, at position ${text.length}`;
  const token = /^Unexpected token '(.+?)'/su.exec(error.message)?.[1];
  if (token === undefined) return 'unreadable at position 0';
  const at = firstFault(text, token);
  return `unexpected ${JSON.stringify(token)} at position ${at}`;
}

/** The text as long as it stays a beginning of valid JSON: halving finds the first character that breaks it. */
function firstFault(text: string, token: string): number {
  let good = 0;
  let bad = text.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isBeginning(text.slice(0, middle))) good = middle;
    else bad = middle;
  }
  return text.startsWith(token, good) ? good : Math.max(0, text.indexOf(token));
}

function isBeginning(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch (error) {
    return /end of JSON|Unterminated|No number after/.test((error as Error).message);
  }
}

/** Counts brackets outside of strings, skipping strings by search: about a nanosecond a character of structure. */
function checkDepth(text: string): void {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at);
      if (at === -1) return;
    } else if (code === 0x7b || code === 0x5b) {
      depth += 1;
      if (depth > JSON_DEPTH_MAX)
        throw new AppError('invalid_json', { detail: `the body is nested deeper than ${JSON_DEPTH_MAX} levels at position ${at}` });
    } else if (code === 0x7d || code === 0x5d) {
      depth -= 1;
    }
  }
}

function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return end;
  }
  return -1;
}

/** `__proto__` anywhere, or a `constructor` that carries a `prototype`; depth is bounded by now, so recursion is safe. */
function refusePoison(value: unknown, path = ''): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    const below = `${path}/${key}`;
    if (key === '__proto__' || (key === 'constructor' && isRecord(inner) && Object.hasOwn(inner, 'prototype'))) {
      throw new AppError('invalid_json', {
        detail: `the key ${key} is not taken in a body`,
        errors: [{ pointer: below, detail: `remove the key ${key}` }],
      });
    }
    refusePoison(inner, below);
  }
}

function isRecord(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
