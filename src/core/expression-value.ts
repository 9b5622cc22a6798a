import { isDeepStrictEqual } from 'node:util';
import type { AppError } from './errors.ts';

/** Longest text an expression may put together; unit: characters. */
const TEXT_CHARS_MAX = 1_000_000;
/** Members that lead out of data. */
const FORBIDDEN: ReadonlySet<unknown> = new Set(['__proto__', 'constructor', 'prototype']);

/** Makes the error that names the place of the operator. */
type Refuse = (problem: string) => AppError;

/** An own member of an object, list or text; null when there is none. Never what an object inherits, never a function. */
export function memberOf(value: unknown, key: unknown): unknown {
  if ((typeof key !== 'string' && typeof key !== 'number') || FORBIDDEN.has(key)) return null;
  if (value === null || (typeof value !== 'object' && typeof value !== 'string') || !Object.hasOwn(Object(value), key)) return null;
  const member: unknown = Object(value)[key];
  return member === undefined || typeof member === 'function' ? null : member;
}

/** Equal as data: lists and objects by what they hold, without conversion. */
export function equalValues(left: unknown, right: unknown): boolean {
  return left === right || isDeepStrictEqual(left, right);
}

/** By size for numbers, by character codes for texts; anything else is in no order. */
export function orderValues(operator: string, left: unknown, right: unknown): boolean {
  const comparable = (typeof left === 'number' && typeof right === 'number') || (typeof left === 'string' && typeof right === 'string');
  if (!comparable) return false;
  if (operator === '<') return left < right;
  if (operator === '<=') return left <= right;
  return operator === '>' ? left > right : left >= right;
}

/** An element of a list, a part of a text, or a key of an object. */
export function containsValue(whole: unknown, part: unknown): boolean {
  if (Array.isArray(whole)) return whole.some((element) => equalValues(element, part));
  if (typeof whole === 'string') return typeof part === 'string' && whole.includes(part);
  return typeof whole === 'object' && whole !== null && typeof part === 'string' && Object.hasOwn(whole, part);
}

/** The sum of two numbers, or two texts joined. */
export function addValues(left: unknown, right: unknown, refuse: Refuse): unknown {
  if (typeof left !== 'string' || typeof right !== 'string') return calculate('+', left, right, refuse);
  if (left.length + right.length > TEXT_CHARS_MAX) throw refuse(`the text would be longer than ${TEXT_CHARS_MAX} characters`);
  return left + right;
}

export function calculate(operator: '+' | '-' | '*' | '/' | '%', left: unknown, right: unknown, refuse: Refuse): number {
  if (typeof left !== 'number' || typeof right !== 'number') {
    throw refuse(
      `\`${operator}\` needs two numbers${operator === '+' ? ', or two texts' : ''}; it got ${kindOf(left)} and ${kindOf(right)}`,
    );
  }
  const result = CALCULATE[operator](left, right);
  if (!Number.isFinite(result)) throw refuse(`${left} ${operator} ${right} is no number`);
  return result;
}

const CALCULATE = {
  '+': (left: number, right: number) => left + right,
  '-': (left: number, right: number) => left - right,
  '*': (left: number, right: number) => left * right,
  '/': (left: number, right: number) => left / right,
  '%': (left: number, right: number) => left % right,
};

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'string' ? 'a text' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
