import { enteredState, pairSpans, signalFacts, type TraceSignal } from './trace-facts.ts';

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
    text += `${offset(signals[index]!)}  ${indent}${branch}${describe(signals[index]!, tookMs)}\n`;
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
  const indexOf = new Map<string, number>();
  let lastRoot = -1;
  signals.forEach((signal, index) => {
    // Only earlier signals can be causes: a damaged log cannot make a circle.
    const parent = signal.source.parent === undefined ? undefined : indexOf.get(signal.source.parent);
    if (parent === undefined) {
      if (lastRoot >= 0) next[lastRoot] = index;
      lastRoot = index;
    } else {
      if (last[parent]! >= 0) next[last[parent]!] = index;
      else first[parent] = index;
      last[parent] = index;
    }
    indexOf.set(signal.id, index);
  });
  return { roots: 0, first, next };
}

/** Milliseconds from a beginning to its answer by the id of the beginning; null while it is open. */
function durations(signals: readonly TraceSignal[]): ReadonlyMap<string, number | null> {
  return new Map(
    pairSpans(signals).map(({ start, end }) => [start.id, end && Date.parse(end.timestamp) - Date.parse(start.timestamp)] as const),
  );
}

function describe(signal: TraceSignal, tookMs: ReadonlyMap<string, number | null>): string {
  const facts = enteredState(signal.name) && signal.name !== 'session:ended' ? '' : signalFacts(signal);
  const took = tookMs.get(signal.id);
  const time = took === undefined ? '' : took === null ? '  (open)' : `  (${took} ms)`;
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
