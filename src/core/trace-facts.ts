import type { SealedSignal } from '../contract/signal.ts';

/** A signal as the trace formats read it: stored ones, and those of a log file. */
export type TraceSignal = Pick<SealedSignal, 'id' | 'seq' | 'name' | 'payload' | 'timestamp' | 'source'>;

/** Longest text of one fact; unit: characters. */
const FACT_CHARS_MAX = 80;
/** Members shown of a signal that has no line of its own in FACTS. */
const FALLBACK_FACTS_MAX = 3;

/** Work with a beginning and an answer: a hook, a model call, a tool call, a timer, a decision of a person. */
export interface Span {
  readonly start: TraceSignal;
  /** Null while nothing has answered. */
  readonly end: TraceSignal | null;
}

type Payload = Readonly<Record<string, unknown>>;

interface Mark {
  readonly begins: boolean;
  /** What identifies the work; the answer has the same identity. */
  readonly keyOf: (payload: Payload) => string;
}

const KEYS: Readonly<Record<string, (payload: Payload) => string>> = {
  hook: ({ key }) => `hook ${key}`,
  harness: ({ key }) => `harness ${key}`,
  tool: ({ key }) => `tool ${key}`,
  approval: ({ id }) => `approval ${id}`,
  timer: ({ id }) => `timer ${id}`,
};
const BEGINNINGS: Readonly<Record<string, keyof typeof KEYS>> = {
  'hook:start': 'hook',
  'harness:start': 'harness',
  'tool:call': 'tool',
  'tool:approval:requested': 'approval',
  'timer:set': 'timer',
};
const ANSWERS: Readonly<Record<string, keyof typeof KEYS>> = {
  'hook:end': 'hook',
  'hook:error': 'hook',
  'harness:end': 'harness',
  'harness:error': 'harness',
  'tool:result': 'tool',
  'tool:approval:resolved': 'approval',
  'timer:fired': 'timer',
};
const MARKS: ReadonlyMap<string, Mark> = new Map<string, Mark>([
  ...Object.entries(BEGINNINGS).map(([name, work]) => [name, { begins: true, keyOf: KEYS[work]! }] as const),
  ...Object.entries(ANSWERS).map(([name, work]) => [name, { begins: false, keyOf: KEYS[work]! }] as const),
]);

/** Every piece of work in the order it began. A key that is used again begins a new piece. */
export function pairSpans(signals: readonly TraceSignal[]): Span[] {
  return pairSpanIndices(signals).map(({ start, end }) => ({ start: signals[start]!, end: end < 0 ? null : signals[end]! }));
}

/** The same by place in `signals`; the end is -1 while nothing has answered. */
export function pairSpanIndices(signals: readonly TraceSignal[]): { readonly start: number; readonly end: number }[] {
  const spans: { start: number; end: number }[] = [];
  const open = new Map<string, { start: number; end: number }>();
  for (let index = 0; index < signals.length; index += 1) {
    const { name, payload } = signals[index]!;
    const mark = MARKS.get(name);
    if (!mark) continue;
    const key = mark.keyOf(payload);
    if (mark.begins) {
      const span = { start: index, end: -1 };
      spans.push(span);
      open.set(key, span);
      continue;
    }
    const span = open.get(key);
    if (!span) continue;
    span.end = index;
    open.delete(key);
  }
  return spans;
}

/** The signals of one turn, with the prompts they go back to. */
export function signalsOfTurn<S extends TraceSignal>(signals: readonly S[], turn: number): S[] {
  const roots = new Set(signals.filter(({ source }) => source.turn === turn).map(({ source }) => source.root));
  return signals.filter(({ id, name, source }) => source.turn === turn || (name === 'prompt:received' && roots.has(id)));
}

/** Name of a state when the signal says that the session entered it. */
export function enteredState(name: string): string | null {
  return STATE_SIGNALS.has(name) ? name.slice('session:'.length) : null;
}

const STATE_SIGNALS: ReadonlySet<string> = new Set(
  ['starting', 'idle', 'researching', 'generating', 'tool-looping', 'compacting', 'aborting', 'ending', 'passivated', 'ended'].map(
    (state) => `session:${state}`,
  ),
);

const quoted = (value: unknown) => `"${oneLine(value)}"`;
const call = ({ name, input }: Payload) => [text(name), oneLine(input)];

const FACTS_BY_NAME: Readonly<Record<string, (payload: Payload) => string[]>> = {
  'session:created': ({ agent, provider, model }) => [text(agent), `${text(provider)}/${text(model)}`],
  'session:transition': ({ event, to }) => [`${text(event)} → ${Array.isArray(to) ? to.join(' ') : ''}`],
  'session:end': ({ reason, by }) => [text(reason), `by ${text(by)}`],
  'session:ended': ({ reason }) => [text(reason)],
  'session:updated': ({ provider, model, title, by }) => [text(provider), text(model), text(title), `by ${text(by)}`],
  'prompt:received': ({ content }) => [quoted(content)],
  'turn:start': ({ turn }) => [`turn ${turn}`],
  'turn:end': ({ turn, stopReason, rounds, toolCalls, usage }) => [
    `turn ${turn}`,
    text(stopReason),
    `${rounds} rounds`,
    `${toolCalls} tools`,
    tokens(usage),
  ],
  'hook:start': ({ hook }) => [text(hook)],
  'hook:end': ({ hook, bypassed, memories }) => [
    text(hook),
    bypassed ? 'bypassed' : '',
    memories === undefined ? '' : `${memories} memories`,
  ],
  'hook:error': ({ hook, code, message }) => [text(hook), text(code), quoted(message)],
  'research:end': ({ memories, tools, failed }) => [`${memories} memories`, `${tools} tools`, failed ? `${failed} failed` : ''],
  'context:assembled': ({ tokens: used, limit }) => [`${used} of ${limit} tokens`],
  'harness:start': ({ provider, model, round, attempt, purpose }) => [
    `${text(provider)}/${text(model)}`,
    `round ${round}`,
    attempt === 1 ? '' : `attempt ${attempt}`,
    purpose === 'answer' ? '' : text(purpose),
  ],
  'harness:end': ({ stopReason, usage, toolCalls }) => [
    text(stopReason),
    tokens(usage),
    Array.isArray(toolCalls) && toolCalls.length > 0 ? `${toolCalls.length} tool calls` : '',
  ],
  'harness:error': ({ code, message }) => [text(code), quoted(message)],
  'harness:retry': ({ attempt, delayMs, code }) => [`attempt ${attempt}`, `in ${delayMs} ms`, text(code)],
  'text:complete': ({ content }) => [quoted(content)],
  'thinking:complete': ({ content }) => [quoted(content)],
  'tool:call': call,
  'tool:approval:requested': call,
  'tool:approval:resolved': ({ decision, by }) => [text(decision), `by ${text(by)}`],
  'tool:result': ({ name, isError, output }) => [text(name), isError ? 'error' : '', oneLine(output)],
  'timer:set': ({ id, ms }) => [text(id), `${ms} ms`],
  'timer:fired': ({ id }) => [text(id)],
};
/** Found faster by names that were read from a log. */
const FACTS = new Map(Object.entries(FACTS_BY_NAME));

/** What a reader wants to know of a signal besides its name, on one line without control characters; '' when there is nothing. */
export function signalFacts({ name, payload }: Pick<TraceSignal, 'name' | 'payload'>): string {
  let line = '';
  for (const fact of FACTS.get(name)?.(payload) ?? scalars(payload)) if (fact !== '') line += line === '' ? fact : ` ${fact}`;
  return line;
}

function scalars(payload: Payload): string[] {
  return Object.entries(payload)
    .filter(([, value]) => value !== null && typeof value !== 'object')
    .slice(0, FALLBACK_FACTS_MAX)
    .map(([key, value]) => `${key}=${oneLine(value)}`);
}

function text(value: unknown): string {
  return value === undefined ? '' : oneLine(value);
}

function tokens(usage: unknown): string {
  const { inputTokens, outputTokens } = (usage ?? {}) as { inputTokens?: number; outputTokens?: number };
  return `${inputTokens ?? 0}+${outputTokens ?? 0} tokens`;
}

/** Any value as one short line: control characters, line breaks and marks that reorder text become a space. */
export function oneLine(value: unknown, charsMax = FACT_CHARS_MAX): string {
  const whole = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  if (whole.length <= charsMax && PLAIN.test(whole)) return whole;
  const line = whole
    .slice(0, charsMax * 2)
    .replace(UNSAFE, ' ')
    .trim();
  if (line.length <= charsMax) return whole.length > charsMax * 2 ? `${line}…` : line;
  // A pair of surrogates is not cut in two.
  return `${line.slice(0, charsMax - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Printable ASCII with single blanks at most inside: stands as it is. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;
const UNSAFE = /[\s\p{Cc}\p{Cf}]+/gu;
