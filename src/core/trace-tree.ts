import { enteredState, pairSpanIndices, signalFacts, type TraceSignal } from './trace-facts.ts';

/** Widest indentation; deeper levels keep it, with a mark in front, so that a chain of causes stays readable and linear in size. */
const INDENT_CHARS_MAX = 72;
const LEVEL_CHARS = 3;
const OFFSET_CHARS = 10;

/**
 * The causes of signals as a text tree, a line each: milliseconds since the first signal, name, key facts, the time from an effect to its
 * answer, and the number. Children stand under their `source.parent` in the order of the log; a signal whose parent is not among
 * `signals` is a root. Linear in the number of signals. Texts are on one line, without control characters.
 */
export function formatSignalTree(signals: readonly TraceSignal[]): string {
  if (signals.length === 0) return '';
  const tree = linkChildren(signals);
  const tookMs = durations(signals);
  const offset = createOffset(signals[0]!);
  let text = '';
  // The next one to print is on top; siblings are pushed when their elder is printed, so the stack is as high as the tree.
  const stack: { index: number; indent: string; isRoot: boolean }[] = [{ index: tree.roots, indent: '', isRoot: true }];
  while (stack.length > 0) {
    const { index, indent, isRoot } = stack.pop()!;
    const next = tree.next[index]!;
    if (next >= 0) stack.push({ index: next, indent, isRoot });
    const branch = isRoot ? '' : next >= 0 ? '├─ ' : '└─ ';
    text += `${offset(signals[index]!)}  ${indent}${branch}${describe(signals[index]!, tookMs[index]!)}\n`;
    const child = tree.first[index]!;
    if (child >= 0) stack.push({ index: child, indent: isRoot ? '' : deeper(indent, next >= 0), isRoot: false });
  }
  return text;
}

/** Indices of first child and next sibling, -1 for none; roots are siblings of each other. */
interface Links {
  readonly roots: number;
  readonly first: Int32Array;
  readonly next: Int32Array;
}

function linkChildren(signals: readonly TraceSignal[]): Links {
  const first = new Int32Array(signals.length).fill(-1);
  const next = new Int32Array(signals.length).fill(-1);
  const last = new Int32Array(signals.length).fill(-1);
  const parentOf = createParentFinder(signals);
  let lastRoot = -1;
  for (let index = 0; index < signals.length; index += 1) {
    const parent = parentOf(index);
    if (parent < 0) {
      if (lastRoot >= 0) next[lastRoot] = index;
      lastRoot = index;
    } else {
      if (last[parent]! >= 0) next[last[parent]!] = index;
      else first[parent] = index;
      last[parent] = index;
    }
  }
  return { roots: 0, first, next };
}

/**
 * Index of a signal's parent, -1 when it is not there. Only earlier signals can be causes: a damaged log cannot make a circle. The number
 * at the end of an id says where the parent stands in the log of one session; only what is not found there is looked up by its id.
 */
function createParentFinder(signals: readonly TraceSignal[]): (index: number) => number {
  const byId = new Map<string, number>();
  let known = 0;
  const search = (parent: string, index: number): number => {
    for (; known < index; known += 1) byId.set(signals[known]!.id, known);
    return byId.get(parent) ?? -1;
  };
  const firstSeq = signals[0]!.seq;
  return (index) => {
    const { parent } = signals[index]!.source;
    if (parent === undefined) return -1;
    const guess = trailingNumber(parent) - firstSeq;
    return guess >= 0 && guess < index && signals[guess]!.id === parent ? guess : search(parent, index);
  };
}

function trailingNumber(id: string): number {
  let value = 0;
  let place = 1;
  for (let at = id.length - 1; at >= 0; at -= 1) {
    const digit = id.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) break;
    value += digit * place;
    place *= 10;
  }
  return value;
}

/** Milliseconds from a beginning to its answer, by the index of the beginning; NaN while it is open, -1 for what is no beginning. */
function durations(signals: readonly TraceSignal[]): Float64Array {
  const tookMs = new Float64Array(signals.length).fill(-1);
  for (const { start, end } of pairSpanIndices(signals))
    tookMs[start] = end < 0 ? Number.NaN : Math.max(0, Date.parse(signals[end]!.timestamp) - Date.parse(signals[start]!.timestamp));
  return tookMs;
}

function describe(signal: TraceSignal, took: number): string {
  const facts = enteredState(signal.name) && signal.name !== 'session:ended' ? '' : signalFacts(signal);
  const time = took < 0 ? '' : Number.isNaN(took) ? '  (open)' : `  (${took} ms)`;
  return `${signal.name}${facts === '' ? '' : ` ${facts}`}${time}  #${signal.seq}`;
}

/** The signals of one step have one time, so most of them find the text of their neighbour. */
function createOffset(first: TraceSignal): (signal: TraceSignal) => string {
  const origin = Date.parse(first.timestamp);
  let known = '';
  let text = '';
  return ({ timestamp }) => {
    if (timestamp === known) return text;
    known = timestamp;
    text = `+${Date.parse(timestamp) - origin} ms`.padStart(OFFSET_CHARS);
    return text;
  };
}

function deeper(indent: string, hasNext: boolean): string {
  const whole = `${indent}${hasNext ? '│  ' : '   '}`;
  return whole.length <= INDENT_CHARS_MAX ? whole : `⋯${whole.slice(LEVEL_CHARS + 1)}`;
}
