import { enteredState, pairSpans, type Span, signalFacts, type TraceSignal } from './trace-facts.ts';

/** An event of the Trace Event Format, as far as it is used here; `ts` and `dur` are in microseconds. */
export interface ChromeTraceEvent {
  readonly name: string;
  readonly cat: string;
  /** X: a slice. i: an instant. M: the name of a process or a row. */
  readonly ph: 'X' | 'i' | 'M';
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly s?: 't';
  readonly args: Readonly<Record<string, unknown>>;
}

export interface ChromeTrace {
  readonly displayTimeUnit: 'ms';
  readonly traceEvents: readonly ChromeTraceEvent[];
}

const PID = 1;
const SESSION_TID = 1;
/** Rows of a category begin here; work that overlaps takes the next row. */
const CATEGORIES = { hook: 100, harness: 200, tool: 300, approval: 400, timer: 500 } as const;
type Category = keyof typeof CATEGORIES;
const ROW_NAMES: Readonly<Record<Category, string>> = {
  hook: 'daemon hooks',
  harness: 'model calls',
  tool: 'tools',
  approval: 'approvals',
  timer: 'timers',
};
/** Rows of a category; more work at once than this shares the last one. */
const ROWS_MAX = 64;
const US_PER_MS = 1_000;

/**
 * What happened as slices for chrome://tracing and Perfetto: turns with the states of the session nested in them on the first row, and one
 * slice for each effect, from its start to its answer, on rows by kind. What is still open ends with the last signal and says so.
 * Times are microseconds since the first signal.
 *
 * @source Trace Event Format: complete events (X), instants (i) and metadata (M)
 */
export function toChromeTrace(signals: readonly TraceSignal[]): ChromeTrace {
  const first = signals[0];
  if (!first) return { displayTimeUnit: 'ms', traceEvents: [] };
  const time: Time = { origin: Date.parse(first.timestamp), end: Date.parse(signals.at(-1)!.timestamp) };
  const traceEvents = [
    nameOf('process_name', 0, first.source.session ?? first.source.workflow ?? 'signet'),
    nameOf('thread_name', SESSION_TID, 'session'),
    ...turnSlices(signals, time),
    ...stateSlices(signals, time),
    ...effectSlices(pairSpans(signals), time),
  ];
  return { displayTimeUnit: 'ms', traceEvents };
}

interface Time {
  readonly origin: number;
  readonly end: number;
}

/** @param end  null while it lasts */
function slice(time: Time, name: string, cat: string, tid: number, start: TraceSignal, end: TraceSignal | null, args: object) {
  const from = Date.parse(start.timestamp);
  const to = end ? Date.parse(end.timestamp) : time.end;
  const isOpen = end ? {} : { open: true };
  return {
    ...{ name, cat, ph: 'X' as const, ts: (from - time.origin) * US_PER_MS, dur: (to - from) * US_PER_MS, pid: PID, tid },
    args: { seq: start.seq, ...(end ? { endSeq: end.seq } : {}), ...isOpen, ...args },
  };
}

function turnSlices(signals: readonly TraceSignal[], time: Time): ChromeTraceEvent[] {
  const slices: ChromeTraceEvent[] = [];
  let start: TraceSignal | null = null;
  const close = (begun: TraceSignal, end: TraceSignal | null) => {
    const { stopReason, rounds, toolCalls, usage, costUsd } = end?.payload ?? {};
    slices.push(
      slice(time, `turn ${begun.payload.turn}`, 'turn', SESSION_TID, begun, end, { stopReason, rounds, toolCalls, usage, costUsd }),
    );
  };
  for (const signal of signals) {
    if (signal.name === 'turn:start') start = signal;
    if (signal.name !== 'turn:end' || !start) continue;
    close(start, signal);
    start = null;
  }
  if (start) close(start, null);
  return slices;
}

/** A state lasts until the next one begins; the signals of one step have one time, so states lie within their turn. */
function stateSlices(signals: readonly TraceSignal[], time: Time): ChromeTraceEvent[] {
  const slices: ChromeTraceEvent[] = [];
  let start: TraceSignal | null = null;
  for (const signal of signals) {
    if (!enteredState(signal.name)) continue;
    if (start) slices.push(slice(time, enteredState(start.name)!, 'state', SESSION_TID, start, signal, start.payload));
    start = signal;
  }
  if (start) slices.push(slice(time, enteredState(start.name)!, 'state', SESSION_TID, start, null, start.payload));
  return slices;
}

function effectSlices(spans: readonly Span[], time: Time): ChromeTraceEvent[] {
  const events: ChromeTraceEvent[] = [];
  /** When each row of a category is free again. */
  const rows = new Map<Category, number[]>();
  for (const span of spans) {
    const category = categoryOf(span.start.name);
    const busy = rows.get(category) ?? [];
    rows.set(category, busy);
    const from = Date.parse(span.start.timestamp);
    let row = busy.findIndex((freeAt) => freeAt <= from);
    if (row < 0 && busy.length === ROWS_MAX) row = ROWS_MAX - 1;
    if (row < 0) {
      row = busy.length;
      events.push(nameOf('thread_name', CATEGORIES[category] + row, `${ROW_NAMES[category]}${row === 0 ? '' : ` ${row + 1}`}`));
    }
    busy[row] = span.end ? Date.parse(span.end.timestamp) : time.end + 1;
    const answer = span.end ? { answer: span.end.name, facts: signalFacts(span.end) } : {};
    events.push(
      slice(time, sliceName(span.start), category, CATEGORIES[category] + row, span.start, span.end, {
        ...answer,
        turn: span.start.source.turn,
        asked: signalFacts(span.start),
      }),
    );
  }
  return events;
}

function categoryOf(name: string): Category {
  if (name === 'tool:approval:requested') return 'approval';
  return name.slice(0, name.indexOf(':')) as Category;
}

function sliceName({ name, payload }: TraceSignal): string {
  switch (name) {
    case 'hook:start':
      return String(payload.hook);
    case 'harness:start':
      return `${payload.provider}/${payload.model}`;
    case 'timer:set':
      return String(payload.id);
    default:
      return String(payload.name);
  }
}

function nameOf(name: 'process_name' | 'thread_name', tid: number, value: string): ChromeTraceEvent {
  return { name, cat: '__metadata', ph: 'M', ts: 0, pid: PID, tid, args: { name: value } };
}
