import { hash } from 'node:crypto';
import { parseTraceparent, type TraceParent } from './trace-context.ts';
import type { TraceSignal } from './trace-facts.ts';

/** Sessions of which something is remembered; a span whose beginning was forgotten begins where its duration says. */
const SESSIONS_MAX = 10_000;
/** Work that is open in one session; the machine bounds it, this is the backstop. */
const OPEN_MAX = 1_024;
/** Longest text of one attribute; unit: characters. */
const CONTENT_CHARS_MAX = 8_192;

export type SpanAttributes = Readonly<Record<string, string | number | boolean | string[]>>;

/** A finished piece of work. Ids follow from the ids of signals, so the same log gives the same trace, live and afterwards. */
export interface TraceSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly sampled: boolean;
  readonly name: string;
  /** client: a call over the network to somebody who may make spans of his own. */
  readonly kind: 'internal' | 'client';
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  readonly error?: { readonly type: string; readonly message: string };
}

export interface SpanFolding {
  /** The spans that end with this signal. */
  take(signal: TraceSignal): TraceSpan[];
}

export interface SpanOptions {
  /** Prompts, answers, and inputs and outputs of tools become attributes too. */
  readonly content: boolean;
}

interface Open {
  readonly signal: TraceSignal;
}

interface SessionTrace {
  agent: string;
  provider: string;
  turn: { readonly number: number; readonly startMs: number; readonly parent: TraceParent | undefined; readonly content: string } | null;
  /** By key: hooks, model calls, tools, approvals that have begun. */
  readonly open: Map<string, Open>;
  /** Prompts that wait, by id. */
  readonly prompts: Map<string, { readonly parent: TraceParent | undefined; readonly content: string }>;
}

type Payload = Readonly<Record<string, unknown>>;

/**
 * Makes spans of signals: a turn, and in it model calls, tool calls, hooks and approvals. Folds one signal at a time, of any number of
 * sessions; never throws on a signal that does not fit.
 *
 * @source OpenTelemetry semantic conventions for generative AI: names of spans and of the gen_ai attributes
 */
export function createSpanFolding(options: SpanOptions): SpanFolding {
  const sessions = new Map<string, SessionTrace>();
  const sessionOf = (id: string): SessionTrace => {
    let session = sessions.get(id);
    if (!session) {
      session = { agent: '', provider: '', turn: null, open: new Map(), prompts: new Map() };
      if (sessions.size >= SESSIONS_MAX) sessions.delete(sessions.keys().next().value!);
      sessions.set(id, session);
    }
    return session;
  };
  return {
    take(signal) {
      const id = signal.source.session;
      if (id === undefined) return [];
      const session = sessionOf(id);
      session.agent = signal.source.agent ?? session.agent;
      note(session, signal);
      const span = finish(session, signal, options);
      forget(session, signal);
      if (signal.name === 'session:ended' || signal.name === 'session:passivated') sessions.delete(id);
      return span ? [span] : [];
    },
  };
}

/** What later signals need to know of this one. */
function note(session: SessionTrace, signal: TraceSignal): void {
  const { name, payload } = signal;
  if (name === 'prompt:received') {
    const parent = parseTraceparent(payload.traceparent as string | undefined);
    session.prompts.set(String(payload.promptId), { parent, content: String(payload.content) });
  } else if (name === 'turn:start') {
    const prompt = session.prompts.get(String(payload.promptId));
    session.turn = { number: Number(payload.turn), startMs: timeOf(signal), parent: prompt?.parent, content: prompt?.content ?? '' };
  } else if (BEGINNINGS.has(name) && session.open.size < OPEN_MAX) {
    session.open.set(keyOf(signal), { signal });
    if (name === 'harness:start') session.provider = String(payload.provider);
  }
}

function forget(session: SessionTrace, { name, payload }: TraceSignal): void {
  if (name === 'turn:rejected' || name === 'prompt:cancelled') session.prompts.delete(String(payload.promptId));
  if (name !== 'turn:end') return;
  session.turn = null;
  session.open.clear();
  for (const promptId of (payload.promptIds ?? []) as string[]) session.prompts.delete(promptId);
}

const BEGINNINGS: ReadonlySet<string> = new Set(['hook:start', 'harness:start', 'tool:call', 'tool:approval:requested']);

/** A call and its approval have the same id, so the kind is part of the key. */
function keyOf({ name, payload }: TraceSignal): string {
  return name.startsWith('tool:approval:') ? `approval ${payload.id}` : String(payload.key);
}

function finish(session: SessionTrace, signal: TraceSignal, options: SpanOptions): TraceSpan | null {
  if (signal.name === 'turn:end') return turnSpan(session, signal, options);
  const describe = ENDINGS[signal.name];
  if (!describe) return null;
  const key = keyOf(signal);
  const begun = session.open.get(key)?.signal;
  session.open.delete(key);
  // An approval has no duration of its own; one whose question was forgotten has no span.
  if (!begun && signal.name === 'tool:approval:resolved') return null;
  const { source, payload } = signal;
  const turn = (begun ?? signal).source.turn;
  const { name, kind, attributes } = describe(payload, begun?.payload ?? {}, session, options);
  const parentSpanId = turn === undefined ? undefined : turnSpanId(source.session!, turn);
  const parent = turn !== undefined && turn === session.turn?.number ? session.turn.parent : undefined;
  const endMs = timeOf(signal);
  return {
    traceId: parent?.traceId ?? traceIdOf(source.root),
    // The cause of an answer is the beginning it answers.
    spanId: spanIdOf(begun?.id ?? source.parent ?? signal.id),
    ...(parentSpanId ? { parentSpanId } : {}),
    sampled: parent?.sampled ?? true,
    name,
    kind,
    startMs: begun ? timeOf(begun) : endMs - Number(payload.durationMs ?? 0),
    endMs,
    attributes: { ...common(session, source), ...attributes },
    ...failure(payload),
  };
}

type Describe = (
  end: Payload,
  start: Payload,
  session: SessionTrace,
  options: SpanOptions,
) => { name: string; kind: TraceSpan['kind']; attributes: SpanAttributes };

const hook: Describe = (end) => ({
  name: `hook ${end.hook}`,
  kind: 'internal',
  attributes: defined({ 'signet.hook': end.hook, 'signet.hook.bypassed': end.bypassed, 'signet.hook.memories': end.memories }),
});

const model: Describe = (end, start, session, { content }) => ({
  name: `chat ${start.model ?? end.model ?? ''}`.trim(),
  kind: 'client',
  attributes: defined({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': start.provider ?? session.provider,
    'gen_ai.request.model': start.model,
    'gen_ai.response.model': end.model,
    'gen_ai.response.finish_reasons': end.stopReason === undefined ? undefined : [String(end.stopReason)],
    ...usage(end.usage),
    'signet.round': start.round,
    'signet.attempt': start.attempt,
    'signet.purpose': start.purpose,
    'signet.cost_usd': end.costUsd,
    'signet.first_token_ms': end.firstTokenMs,
    'gen_ai.output.messages': content && end.content !== undefined ? messages('assistant', end.content) : undefined,
  }),
});

const tool: Describe = (end, start, _session, { content }) => ({
  name: `execute_tool ${end.name}`,
  kind: 'internal',
  attributes: defined({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': end.name,
    'gen_ai.tool.call.id': end.id,
    'gen_ai.tool.type': 'function',
    'signet.tool.phase': start.phase,
    'signet.tool.bytes': end.bytes,
    'gen_ai.tool.call.arguments': content && start.input !== undefined ? short(start.input) : undefined,
    'gen_ai.tool.call.result': content ? short(end.output) : undefined,
  }),
});

const approval: Describe = (end, start) => ({
  name: `approval ${start.name}`,
  kind: 'internal',
  attributes: defined({ 'gen_ai.tool.name': start.name, 'gen_ai.tool.call.id': end.id, 'signet.approval.decision': end.decision }),
});

const ENDINGS: Readonly<Record<string, Describe>> = {
  'hook:end': hook,
  'hook:error': hook,
  'harness:end': model,
  'harness:error': model,
  'tool:result': tool,
  'tool:approval:resolved': approval,
};

function turnSpan(session: SessionTrace, signal: TraceSignal, { content }: SpanOptions): TraceSpan {
  const { source, payload } = signal;
  const turn = session.turn?.number === payload.turn ? session.turn : null;
  const endMs = timeOf(signal);
  return {
    traceId: turn?.parent?.traceId ?? traceIdOf(source.root),
    spanId: turnSpanId(source.session!, Number(payload.turn)),
    ...(turn?.parent ? { parentSpanId: turn.parent.spanId } : {}),
    sampled: turn?.parent?.sampled ?? true,
    name: `invoke_agent ${session.agent}`.trim(),
    kind: 'internal',
    startMs: turn?.startMs ?? endMs - Number(payload.durationMs ?? 0),
    endMs,
    attributes: {
      ...common(session, source),
      ...defined({
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.provider.name': session.provider || undefined,
        ...usage(payload.usage),
        'signet.stop_reason': payload.stopReason,
        'signet.rounds': payload.rounds,
        'signet.tool_calls': payload.toolCalls,
        'signet.cost_usd': payload.costUsd,
        'gen_ai.input.messages': content && turn ? messages('user', turn.content) : undefined,
      }),
    },
    ...failure(payload),
  };
}

function common({ agent }: SessionTrace, source: TraceSignal['source']): SpanAttributes {
  return defined({
    'gen_ai.conversation.id': source.session,
    'gen_ai.agent.name': agent || undefined,
    'signet.turn': source.turn,
  });
}

function usage(value: unknown): Payload {
  const { inputTokens, outputTokens, cacheReadTokens } = (value ?? {}) as Payload;
  return {
    'gen_ai.usage.input_tokens': inputTokens,
    'gen_ai.usage.output_tokens': outputTokens,
    'gen_ai.usage.cache_read.input_tokens': cacheReadTokens,
  };
}

/** Messages of failures may quote what was said, so only their codes are told. */
function failure({ code, error }: Payload): Pick<TraceSpan, 'error'> {
  const type = code ?? (error as { code?: unknown } | undefined)?.code;
  return typeof type === 'string' ? { error: { type, message: type } } : {};
}

function messages(role: string, text: unknown): string {
  return JSON.stringify([{ role, parts: [{ type: 'text', content: short(text) }] }]);
}

function short(value: unknown): string {
  const whole = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return whole.slice(0, CONTENT_CHARS_MAX);
}

function defined(attributes: Payload): SpanAttributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null)) as SpanAttributes;
}

function timeOf({ timestamp }: TraceSignal): number {
  return Date.parse(timestamp);
}

function traceIdOf(root: string): string {
  return hash('sha256', `trace ${root}`, 'hex').slice(0, 32);
}

function spanIdOf(id: string): string {
  return hash('sha256', `span ${id}`, 'hex').slice(0, 16);
}

function turnSpanId(session: string, turn: number): string {
  return spanIdOf(`${session} turn ${turn}`);
}
