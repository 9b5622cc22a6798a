import { isUtf8 } from 'node:buffer';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { BODY_VALUES_MAX } from '../contract/operation.ts';
import { AppError } from '../core/errors.ts';

/** Deepest nesting of arrays and objects in a body; deeper ones could exhaust the stack of whoever walks them. */
export const JSON_DEPTH_MAX = 128;

/** Bodies up to this size are read in one go, larger ones in pieces of this size; unit: bytes. */
const SLICE_BYTES = 262_144;
/** In longer texts the place of a fault is not searched for: each look parses the text again; unit: characters. */
const FAULT_CHARS_MAX = 1_048_576;
/** Longest character. */
const UTF8_BYTES_MAX = 4;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** Only these texts can hold half of a surrogate pair; in UTF-8 itself there is none. */
const HALF_HINT = /\\u[dD][89a-fA-F]/;
/** Only these texts can hold a poisoned key; an escaped underscore or letter starts with \u00. */
const POISON_HINT = /__proto__|constructor|\\u00/;

/** What becomes of half a character, as a client leaves it that cuts a text in the middle of an emoji: refused by name, or U+FFFD. */
export type Halves = 'refuse' | 'replace';

export interface JsonBounds {
  /** Default `refuse`. */
  readonly halves?: Halves;
  /** Most values of the body, default BODY_VALUES_MAX: each number, text, member, list and object counts. */
  readonly valuesMax?: number;
}

/**
 * Parse the bytes of a request body, which are UTF-8. Values and depth are counted before anything is parsed. A long list in a large body is
 * parsed in pieces, and others run in between.
 *
 * @returns undefined for an empty body
 * @throws AppError `invalid_json` with the position, for bytes that are no UTF-8, broken text, nesting beyond JSON_DEPTH_MAX, halves of
 *   surrogate pairs and keys that would reach a prototype; `payload_too_large` for more than `valuesMax` values
 */
export function parseJsonBody(bytes: Buffer, bounds: JsonBounds = {}): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes))
    throw new AppError('invalid_json', { detail: `the body is not UTF-8, from byte ${wholeBytes(bytes)} on; encode it as UTF-8` });
  const { halves = 'refuse', valuesMax = BODY_VALUES_MAX } = bounds;
  const scan = new StructureScan(bytes, valuesMax);
  if (bytes.length > SLICE_BYTES) return parseInSlices(bytes, scan, halves);
  scan.advance(bytes.length);
  return parsePiece(bytes.toString('utf8'), halves, 0);
}

/** The longest list that is a member of the body is parsed piece by piece, all the rest as one text. */
async function parseInSlices(bytes: Buffer, scan: StructureScan, halves: Halves): Promise<unknown> {
  while (!scan.advance(SLICE_BYTES)) await turnOfLoop();
  const list = scan.longestList;
  if (!list || list.end - list.start < SLICE_BYTES) return parsePiece(bytes.toString('utf8'), halves, 0);
  const rest = `${bytes.toString('utf8', 0, list.start)}[]${bytes.toString('utf8', list.end)}`;
  const body = parsePiece(rest, halves, 0) as Record<string, unknown>;
  const key = JSON.parse(bytes.toString('utf8', list.keyStart, list.keyEnd)) as string;
  const elements: unknown[] = [];
  for (let at = list.start + 1; at < list.end - 1; ) {
    const end = list.pieceEnd(at);
    const piece = parsePiece(`[${bytes.toString('utf8', at, end)}]`, halves, at - 1, `/${key}`) as unknown[];
    // A comma with nothing beside it is no list of nothing.
    if (piece.length === 0 && (elements.length > 0 || end < list.end - 1)) throw unreadable(`unexpected "," at position ${end}`);
    for (const element of piece) elements.push(element);
    at = end + 1;
    await turnOfLoop();
  }
  body[key] = elements;
  return body;
}

/** @param offset  where in the body the text begins, for messages; unit: bytes */
function parsePiece(text: string, halves: Halves, offset: number, path = ''): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw unreadable(where(error as Error, text, offset), error);
  }
  if (POISON_HINT.test(text)) refusePoison(value, path);
  if (halves === 'refuse' && HALF_HINT.test(text)) refuseHalves(value, path);
  return value;
}

function unreadable(what: string, cause?: unknown): AppError {
  return new AppError('invalid_json', { detail: `the body is not valid JSON: ${what}`, cause });
}

/** A list that is a member of the body's object. Places are bytes of the body. */
class MemberList {
  readonly keyStart: number;
  readonly keyEnd: number;
  /** Of the opening bracket. */
  readonly start: number;
  /** Behind the closing bracket. */
  end = 0;
  /** Commas between elements, one for about SLICE_BYTES. */
  readonly #cuts: number[] = [];

  constructor(key: { readonly start: number; readonly end: number }, start: number) {
    this.keyStart = key.start;
    this.keyEnd = key.end;
    this.start = start;
  }

  comma(at: number): void {
    if (at - (this.#cuts.at(-1) ?? this.start) >= SLICE_BYTES) this.#cuts.push(at);
  }

  /** End of the piece that begins at `from`. */
  pieceEnd(from: number): number {
    return this.#cuts.find((cut) => cut > from) ?? this.end - 1;
  }
}

/** One pass over the bytes: depth, number of values, and the longest list to be read in pieces. Strings are skipped by search. */
class StructureScan {
  readonly #bytes: Buffer;
  readonly #valuesMax: number;
  #at = 0;
  #depth = 0;
  #values = 1;
  /** Open objects by depth, as far as lists are looked for. */
  #rootIsObject = false;
  #lastString: { start: number; end: number } | undefined;
  #list: MemberList | undefined;
  longestList: MemberList | undefined;

  constructor(bytes: Buffer, valuesMax: number) {
    this.#bytes = bytes;
    this.#valuesMax = valuesMax;
  }

  /** Reads on for so many bytes. @returns whether all is read. @throws AppError `invalid_json`, `payload_too_large` */
  advance(count: number): boolean {
    const bytes = this.#bytes;
    const end = Math.min(bytes.length, this.#at + count);
    let at = this.#at;
    for (; at < end; at += 1) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        const close = stringEnd(bytes, at);
        if (close === -1) {
          at = bytes.length;
          break;
        }
        if (this.#depth === 1) this.#lastString = { start: at, end: close + 1 };
        at = close;
      } else if (byte === COMMA) {
        this.#count(at);
        if (this.#depth === 2) this.#list?.comma(at);
      } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
        this.#open(at, byte === OPEN_LIST);
      } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
        this.#close(at, byte === CLOSE_LIST);
      }
    }
    this.#at = at;
    return at >= bytes.length;
  }

  #open(at: number, isList: boolean): void {
    this.#count(at);
    this.#depth += 1;
    if (this.#depth === 1) this.#rootIsObject = !isList;
    if (this.#depth === 2 && isList && this.#rootIsObject && this.#lastString) this.#list = new MemberList(this.#lastString, at);
    if (this.#depth > JSON_DEPTH_MAX)
      throw new AppError('invalid_json', { detail: `the body is nested deeper than ${JSON_DEPTH_MAX} levels at position ${at}` });
  }

  #close(at: number, isList: boolean): void {
    this.#depth -= 1;
    if (this.#depth !== 1 || !this.#list) return;
    this.#list.end = at + 1;
    const { longestList: longest } = this;
    if (isList && (!longest || at + 1 - this.#list.start > longest.end - longest.start)) this.longestList = this.#list;
    this.#list = undefined;
  }

  #count(at: number): void {
    this.#values += 1;
    if (this.#values <= this.#valuesMax) return;
    const detail = `the body has more than ${this.#valuesMax} values, the next one at position ${at}; send it in several requests`;
    throw new AppError('payload_too_large', { detail });
  }
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
function where(error: Error, text: string, offset: number): string {
  const place = (at: number) => `position ${offset === 0 ? at : offset + Buffer.byteLength(text.slice(0, at))}`;
  const named = /^(.*?) (?:at|in JSON at) position (\d+)/s.exec(error.message);
  if (named) return offset === 0 ? error.message : `${named[1]} at ${place(Number(named[2]))}`;
  if (error.message.includes('end of JSON')) return `it ends too early, at ${place(text.length)}`;
  const token = /^Unexpected token '(.+?)'/su.exec(error.message)?.[1];
  if (token === undefined) return `unreadable at ${place(0)}`;
  if (text.length > FAULT_CHARS_MAX) return `unexpected ${JSON.stringify(token)}`;
  return `unexpected ${JSON.stringify(token)} at ${place(firstFault(text, token))}`;
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

function stringEnd(bytes: Buffer, start: number): number {
  for (let end = bytes.indexOf(QUOTE, start + 1); end !== -1; end = bytes.indexOf(QUOTE, end + 1)) {
    let slashes = 0;
    while (bytes[end - 1 - slashes] === BACKSLASH) slashes += 1;
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
