import type { SnapshotFrom } from 'xstate';
import type { SessionMachine } from '../../machines/session.machine.ts';
import type { Call, InputEvent, Pending, SessionContext } from '../../machines/session-context.ts';
import type { PayloadOf } from '../../src/contract/catalog.ts';

export type SessionSnapshot = SnapshotFrom<SessionMachine>;

/** One thing the outside does to a session, and the input signals it causes, in order. */
export interface Move {
  readonly type: string;
  readonly inputs: readonly InputEvent[];
  /** Several pieces of work answer, and nobody says which one first. */
  readonly unordered?: true;
}

/** Small, so that limits are reached in few steps, and short: the test's clock stands still until a path moves it. Units as in RuntimeLimits. */
export const LIMITS = {
  mailboxTurnsMax: 1,
  roundsMax: 2,
  attemptsMax: 2,
  turnTimeoutMs: 1_800_000,
  approvalTimeoutMs: 20,
  abortGraceMs: 20,
  idleTtlMs: 20,
  backoffMs: 5,
  retryAfterMsMax: 1_000,
  compactAtShare: 0.8,
};
/** Deadline of a turn that a path lets run out; unit: milliseconds. */
export const SHORT_TURN_MS = 100;
export const CONTEXT_TOKENS = 200_000;
/** More than the share of the window at which a conversation is compacted. */
export const HUGE_USAGE = { inputTokens: 190_000, outputTokens: 5 };
export const SMALL_USAGE = { inputTokens: 10, outputTokens: 5 };
/** Part of the id of a prompt that asks for an answer of a schema: the machine does not know of schemas, the model of the test must. */
export const SCHEMA_MARK = 'schema';
export const OTHER_MODEL = { provider: 'main', model: 'scripted-2' };
export const FALLBACK = { provider: 'backup', model: 'scripted' };

const AT = Date.parse('2026-01-01T00:00:00.000Z');

export const CREATED: PayloadOf<'session:created'> = {
  session: 'ses_model',
  key: 'ses_model',
  agent: 'default',
  project: null,
  title: '',
  harness: 'signet',
  provider: 'main',
  model: 'scripted',
  parentSession: null,
  resumedFrom: null,
  tools: null,
  bypassed: false,
  metadata: {},
  machine: { id: 'session', version: '1', digest: '' },
  limits: LIMITS,
  contextLimit: CONTEXT_TOKENS,
  summary: null,
};
export const SESSION_INPUT = { at: AT, created: CREATED };

/** The active leaf, `turn.generating.calling`. */
export function leafOf(value: unknown): string {
  if (typeof value === 'string') return value;
  return Object.entries(value as Record<string, unknown>)
    .map(([key, child]) => `${key}.${leafOf(child)}`)
    .join('+');
}

/** Everything the outside may do now. */
export function movesOf({ value, context, status }: SessionSnapshot): Move[] {
  if (status !== 'active') return [];
  const at = leafOf(value);
  if (at === 'passivated') return wakingMoves(context);
  return [...workMoves(at, context), ...commandMoves(at, context)];
}

/** A session that left memory comes back for the first command it is given. */
function wakingMoves(context: SessionContext): Move[] {
  const back = input('session:activated', { reason: 'used again' });
  return idleCommands(context).map(({ type, inputs }) => move(type, back, ...inputs));
}

function move(type: string, ...inputs: InputEvent[]): Move {
  return { type, inputs };
}

function input<T extends InputEvent['type']>(type: T, payload: PayloadOf<T>): InputEvent {
  return { type, at: AT, payload } as unknown as InputEvent;
}

const END = move('end', input('session:end', { by: 'test', reason: 'client' }));
const timer = (id: string): Move => move(`${id} timer`, input('timer:fired', { id }));

/** The model is the machine's business, the title is not. */
function changeModel(): Move {
  return move('change model', input('session:updated', { ...OTHER_MODEL, contextLimit: CONTEXT_TOKENS, by: 'test' }));
}

/** Known to the daemon since its first hook; before that there is nothing it could silence. */
function bypass({ bypassed, degraded }: SessionContext): Move[] {
  return degraded ? [] : [move('bypass', input('session:bypass:changed', { bypassed: !bypassed, by: 'test' }))];
}

/** The daemon's own: whoever may be there writes to the session. One at a time, or paths would count messages. */
function message({ bypassed, arrived = [] }: SessionContext): Move[] {
  if (bypassed || arrived.length > 0) return [];
  return [move('message', input('message:arrived', { messageId: 'msg_1', type: 'info', from: 'dot', broadcast: false }))];
}

function idleCommands(context: SessionContext): Move[] {
  const prompts = ['prompt', 'short prompt', 'schema prompt'].map((type) => prompt(context, type));
  const compact = context.messages >= 2 ? [move('compact', input('compaction:requested', { by: 'test' }))] : [];
  return [changeModel(), END, ...prompts, ...compact];
}

function commandMoves(at: string, context: SessionContext): Move[] {
  if (context.endReason !== null) return [];
  const queued = context.mailbox[0];
  const takeBack = queued ? [move('take back', input('prompt:cancelled', { promptId: queued.promptId, by: 'test' }))] : [];
  if (at === 'aborting') return [END, prompt(context, 'prompt')];
  if (at === 'starting') return [changeModel(), END, ...takeBack, prompt(context, 'prompt'), prompt(context, 'reject')];
  if (at === 'idle') return [...idleCommands(context), ...bypass(context), ...message(context), timer('idle')];
  // Turns that are there for one thing get no commands: each would be gone through three times.
  if (isShort(context)) return at.endsWith('backoff') || at.endsWith('awaiting-approval') ? [] : [timer('turn')];
  if (context.turn?.promptId.includes(SCHEMA_MARK)) return [];
  return [
    END,
    ...takeBack,
    prompt(context, 'prompt'),
    prompt(context, 'steer'),
    prompt(context, 'interrupt'),
    prompt(context, 'reject'),
    move('abort', input('turn:cancel', { by: 'test' })),
  ];
}

function prompt(context: SessionContext, type: string): Move {
  const schema = type === 'schema prompt' ? `-${SCHEMA_MARK}` : '';
  const delivery = type === 'steer' || type === 'interrupt' || type === 'reject' ? type : 'queue';
  return move(
    type,
    input('prompt:received', {
      promptId: `p${context.turns}-${context.mailbox.length}-${context.steers.length}-${delivery}${schema}`,
      content: 'Hello.',
      attachments: [],
      delivery,
      client: 'test',
      ...(type === 'short prompt' ? { timeoutMs: SHORT_TURN_MS } : {}),
      tools: [{ name: 'scout', class: 'pure', origin: 'custom', tokens: 10 }],
      preTools: ['scout'],
      bodyDigest: '',
    }),
  );
}

export function isShort({ turn }: SessionContext): boolean {
  return turn !== null && turn.deadlineAt - turn.startedAt === SHORT_TURN_MS;
}

function workMoves(at: string, context: SessionContext): Move[] {
  const [pending] = context.pending;
  if (at === 'aborting') return abortingMoves(context.pending);
  if (at === 'turn.tool-looping.awaiting-approval') return approvalMoves(context.calls);
  if (at.endsWith('backoff')) return [timer('backoff')];
  if (!pending) return [];
  return context.pending.flatMap((owed, index) => {
    if (owed.kind === 'hook') return [hookAnswers(owed), hookFails(owed)];
    if (owed.kind === 'tool') return index === context.pending.findIndex(({ kind }) => kind === 'tool') ? [toolAnswers(owed)] : [];
    return owed.purpose === 'summary' ? summaryMoves(owed.key) : modelMoves(owed.key, owed.fallbacks, context);
  });
}

/** What was running is stopped; or it has won the race and answers. */
function abortingMoves(pending: readonly Pending[]): Move[] {
  const late = pending.map((owed) => {
    if (owed.kind === 'hook') return { ...hookAnswers(owed), type: 'late hook' };
    if (owed.kind === 'tool') return { ...toolAnswers(owed), type: 'late tool' };
    return move('late answer', input('thinking:complete', { key: owed.key, content: 'Well.' }), ...answer(owed.key));
  });
  const settled = pending.map((owed) => {
    if (owed.kind === 'hook') return hookFails(owed).inputs[0]!;
    if (owed.kind === 'tool') return toolAnswers(owed, true).inputs[0]!;
    return modelFails(owed.key, { code: 'aborted', recoverable: false });
  });
  return [
    ...late.filter((one, index) => late.findIndex(({ type }) => type === one.type) === index),
    { type: 'settle', inputs: settled, unordered: true },
    timer('abort'),
  ];
}

function hookAnswers({ hook, key }: Pending & { kind: 'hook' }): Move {
  return move('hook answers', input('hook:end', { hook, key, bypassed: false, durationMs: 0 }));
}

function hookFails({ hook, key }: Pending & { kind: 'hook' }): Move {
  return move('hook fails', input('hook:error', { hook, key, code: 'storage_failed', message: 'disk full', durationMs: 0 }));
}

function toolAnswers({ id, name, key }: Pending & { kind: 'tool' }, isError = false): Move {
  return move('tool answers', input('tool:result', { id, name, key, output: 'found', isError, durationMs: 0, bytes: 5 }));
}

function modelEnds(key: string, more: Partial<PayloadOf<'harness:end'>> = {}): InputEvent {
  const usage = SMALL_USAGE;
  const plain = {
    content: 'Done.',
    toolCalls: [],
    stopReason: 'end_turn',
    model: 'scripted',
    usage,
    costUsd: null,
    durationMs: 0,
    firstTokenMs: 0,
  };
  return input('harness:end', { key, ...plain, ...more });
}

function answer(key: string, more: Partial<PayloadOf<'harness:end'>> = {}): InputEvent[] {
  return [input('text:complete', { key, content: more.content ?? 'Done.' }), modelEnds(key, more)];
}

function modelFails(key: string, more: { code: string; recoverable: boolean; fallback?: typeof FALLBACK }): InputEvent {
  return input('harness:error', { key, error: '', message: '', jitter: 1, durationMs: 0, partialChars: 0, ...more });
}

function modelMoves(key: string, fallbacks: number, { turn }: SessionContext): Move[] {
  const fallback = fallbacks === 0 ? { fallback: FALLBACK } : {};
  const wantsSchema = turn?.promptId.includes(SCHEMA_MARK);
  const outputValid = wantsSchema ? { outputValid: true } : {};
  return [
    move('answer', ...answer(key, outputValid)),
    move('thinking answer', input('thinking:complete', { key, content: 'Well.' }), ...answer(key, outputValid)),
    ...(wantsSchema ? [move('invalid answer', ...answer(key, { outputValid: false }))] : []),
    ...toolMoves(key),
    move('overflow', modelFails(key, { code: 'context_overflow', recoverable: false, ...fallback })),
    move('overloaded', modelFails(key, { code: 'provider_overloaded', recoverable: true, ...fallback })),
    move('refused', modelFails(key, { code: 'provider_refused', recoverable: false, ...fallback })),
  ];
}

/** Tools by what the policy says of them. */
export const TOOL_POLICY = { gated: 'allow', risky: 'ask', forbidden: 'deny' } as const;
export type ToolName = keyof typeof TOOL_POLICY;
/** What the model calls for, by move. */
export const TOOL_CALLS: Readonly<Record<string, readonly ToolName[]>> = {
  'wants tools': ['gated', 'gated'],
  'wants tools, huge': ['gated'],
  'wants approval': ['risky', 'risky'],
  'wants forbidden': ['forbidden'],
};

function toolMoves(key: string): Move[] {
  return Object.entries(TOOL_CALLS).map(([type, names]) => {
    const toolCalls = names.map(
      (name, index) => ({ id: `call_${index}`, name, input: {}, class: 'pure', origin: 'custom', approval: TOOL_POLICY[name] }) as const,
    );
    const usage = type.endsWith('huge') ? HUGE_USAGE : SMALL_USAGE;
    return move(type, modelEnds(key, { content: '', toolCalls, stopReason: 'tool_use', usage }));
  });
}

function summaryMoves(key: string): Move[] {
  return [
    move('answer', ...answer(key)),
    move('thinking answer', input('thinking:complete', { key, content: 'Well.' }), ...answer(key)),
    move('empty answer', modelEnds(key, { content: '' })),
    move('overloaded', modelFails(key, { code: 'provider_overloaded', recoverable: true })),
    move('refused', modelFails(key, { code: 'provider_refused', recoverable: false })),
  ];
}

function approvalMoves(calls: readonly Call[]): Move[] {
  const waiting = calls.filter((call) => call.state === 'waiting');
  const decide = (id: string, decision: 'once' | 'always' | 'deny', by = 'test') => input('tool:approval:resolved', { id, decision, by });
  const first = waiting[0]!.id;
  return [
    move('allow', decide(first, 'once')),
    move('allow always', decide(first, 'always')),
    move('deny', decide(first, 'deny')),
    { type: 'approval timer', inputs: waiting.map(({ id }) => decide(id, 'deny', 'expiry')), unordered: true },
  ];
}
