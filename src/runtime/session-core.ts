import { hash } from 'node:crypto';
import type { SnapshotFrom } from 'xstate';
import { createPureMachine, type PureStep } from '../../machines/pure-step.ts';
import { type SessionMachine, sessionMachine } from '../../machines/session.machine.ts';
import type { InputEvent, OutputEvent, SessionContext } from '../../machines/session-context.ts';
import { type NamesOfKind, type PayloadOf, SIGNALS, type SignalName } from '../contract/catalog.ts';
import type { SealedSignal, Signal, SignalKind } from '../contract/signal.ts';
import { isoTime } from '../core/clock.ts';
import { contextSections } from '../core/context.ts';
import { type Conversation, EMPTY_CONVERSATION, foldConversation } from '../core/conversation.ts';
import { sealSignal, signalId } from '../core/signal-seal.ts';

export type SessionSnapshot = SnapshotFrom<SessionMachine>;
export type InputName = NamesOfKind<'input'>;

/** A fact from outside, on its way into the log. */
export type InputDraft = { [N in InputName]: { readonly name: N; readonly payload: PayloadOf<N>; readonly client?: string } }[InputName];

/** A fact about a session that moves nothing. */
export type SystemFact = { [N in NamesOfKind<'system'>]: { readonly name: N; readonly payload: PayloadOf<N> } }[NamesOfKind<'system'>];

interface Cause {
  readonly id: string;
  readonly root: string;
  readonly depth: number;
}

/** A session at one point of its log. A value: advancing makes a new one, so a batch can be thought through before it is committed. */
export interface SessionCore {
  readonly id: string;
  readonly agent: string;
  readonly harness: string;
  /** Tools the session may use; null means all. */
  readonly allowedTools: readonly string[] | null;
  readonly snapshot: SessionSnapshot;
  readonly seq: number;
  readonly digest: string;
  /** Time of the last signal in ms; a stream's time never runs back. */
  readonly at: number;
  /** Time of the last transition in ms. */
  readonly since: number;
  /** Signals that later ones answer: `session`, `prompt:<id>`, keys of effects, `approval:<id>`, `timer:<id>`. */
  readonly causes: ReadonlyMap<string, Cause>;
  readonly conversation: Conversation;
}

const pure = createPureMachine<SessionMachine, InputEvent, OutputEvent>(sessionMachine);

/**
 * The state after one input, and the signals to commit for it: the input itself, then everything the machine says to it, in order.
 * Pure: the same core, draft and time give the same signals, byte for byte.
 */
export function advance(core: SessionCore | null, draft: InputDraft, now: number): { core: SessionCore; signals: SealedSignal[] } {
  if (core === null) {
    if (draft.name !== 'session:created') throw new Error(`a session begins with session:created, not ${draft.name}`);
    const begun = pure.begin({ at: now, created: draft.payload });
    return record(emptyCore(draft.payload, now, begun.snapshot), draft, begun, now, []);
  }
  const at = Math.max(now, core.at);
  const event = { type: draft.name, at, payload: draft.payload } as InputEvent;
  return record(core, draft, pure.next(core.snapshot, event), at, activeStates(core.snapshot.value));
}

/** A fact of the supervisor or the log about this session; the machine is not told. Pure. */
export function note(core: SessionCore, fact: SystemFact, now: number): { core: SessionCore; signals: SealedSignal[] } {
  const recorder = new Recorder(core, core.snapshot.context, Math.max(now, core.at));
  recorder.fact(fact);
  return { core: recorder.finish(core.snapshot, false), signals: recorder.signals };
}

/** The state after one stored signal: what `advance` and `note` recorded, read back. Pure. */
export function foldCore(core: SessionCore | null, signal: Signal): SessionCore {
  const at = Date.parse(signal.timestamp);
  if (core === null) {
    if (signal.name !== 'session:created') throw new Error(`a session's log begins with session:created, not ${signal.name}`);
    const created = signal.payload as unknown as PayloadOf<'session:created'>;
    return refold(emptyCore(created, at, pure.begin({ at, created }).snapshot), signal, at);
  }
  if (signal.source.kind !== 'input') return refold(core, signal, at);
  const event = { type: signal.name, at, payload: signal.payload } as unknown as InputEvent;
  return refold({ ...core, snapshot: pure.next(core.snapshot, event).snapshot }, signal, at);
}

function refold(core: SessionCore, signal: Signal, at: number): SessionCore {
  const causes = core.causes as Map<string, Cause>;
  keepCause(causes, signal.name as SignalName, signal.payload, { id: signal.id, root: signal.source.root, depth: signal.source.depth });
  return {
    ...core,
    causes,
    seq: signal.seq,
    digest: signal.digest ?? '',
    at,
    since: signal.name === 'session:transition' ? at : core.since,
    conversation: foldConversation(core.conversation, signal),
  };
}

function emptyCore(created: PayloadOf<'session:created'>, now: number, snapshot: SessionSnapshot): SessionCore {
  return {
    id: created.session,
    agent: created.agent,
    harness: created.harness,
    allowedTools: created.tools,
    snapshot,
    seq: 0,
    digest: '',
    at: now,
    since: now,
    causes: new Map(),
    conversation: EMPTY_CONVERSATION,
  };
}

function record(core: SessionCore, draft: InputDraft, step: PureStep<SessionMachine, OutputEvent>, at: number, from: string[]) {
  const recorder = new Recorder(core, step.snapshot.context, at);
  recorder.input(draft);
  const moved = step.steps.some((edge) => edge.target[0] !== edge.source) || from.length === 0;
  const said: OutputEvent[] = core.seq === 0 ? [started(core), ...step.said] : [...step.said];
  if (moved) {
    const firstState = said.findIndex((output) => output.type.startsWith('session:') && output.type !== 'session:failed');
    said.splice(firstState < 0 ? said.length : firstState, 0, transitionOf(core, draft, step, at, from));
  } else if (said.length === 0 && step.steps.length === 0) {
    said.push({ type: 'session:ignored', payload: { event: draft.name, state: from.join(' ') } });
  }
  for (const output of said) recorder.output(output);
  return { core: recorder.finish(step.snapshot, moved), signals: recorder.signals };
}

function started(core: SessionCore): OutputEvent {
  return { type: 'supervisor:child:started', payload: { session: core.id, agent: core.agent, attempt: 1 } };
}

function transitionOf(
  core: SessionCore,
  draft: InputDraft,
  step: PureStep<SessionMachine, OutputEvent>,
  at: number,
  from: string[],
): OutputEvent {
  const { value, context } = step.snapshot;
  return {
    type: 'session:transition',
    payload: {
      from,
      to: activeStates(value),
      value,
      event: draft.name,
      steps: step.steps,
      dwellMs: at - core.since,
      state: hash('sha256', JSON.stringify([value, context]), 'base64url'),
    },
  };
}

/** Writes the signals of one input: numbers, parents, digests, and the folds that later ones of the same batch need. */
class Recorder {
  readonly signals: SealedSignal[] = [];
  readonly #core: SessionCore;
  readonly #context: SessionContext;
  readonly #timestamp: string;
  readonly #at: number;
  readonly #causes: Map<string, Cause>;
  #conversation: Conversation;
  #seq: number;
  #digest: string;
  /** Number of the turn a signal belongs to, none between turns. */
  #turn: number | undefined;
  /** What the signals after the input are put down to. */
  #cause: Cause | null = null;

  constructor(core: SessionCore, context: SessionContext, at: number) {
    this.#core = core;
    this.#context = context;
    this.#turn = core.snapshot.context.turn?.number;
    this.#at = at;
    this.#timestamp = isoTime(at);
    this.#causes = new Map(core.causes);
    this.#conversation = core.conversation;
    this.#seq = core.seq;
    this.#digest = core.digest;
  }

  input(draft: InputDraft): void {
    const isRoot = draft.name === 'session:created' || draft.name === 'prompt:received';
    const parent = isRoot ? null : (this.#causes.get(answeredBy(draft)) ?? this.#causes.get('session') ?? null);
    this.#cause = this.#write(draft.name, draft.payload, parent, draft.client);
  }

  fact(fact: SystemFact): void {
    this.#write(fact.name, fact.payload, this.#causes.get('session') ?? null);
  }

  output(output: OutputEvent): void {
    const filled = this.#fill(output);
    const parent =
      output.type === 'turn:start' || output.type === 'turn:steered' ? this.#causes.get(`prompt:${output.payload.promptId}`) : null;
    const cause = this.#write(filled.type, filled.payload, parent ?? this.#cause);
    // What a turn does belongs to its prompt's tree, also when the turn began because another one ended.
    if (output.type === 'turn:start') this.#cause = cause;
  }

  finish(snapshot: SessionSnapshot, moved: boolean): SessionCore {
    return {
      ...this.#core,
      snapshot,
      seq: this.#seq,
      digest: this.#digest,
      at: this.#at,
      since: moved ? this.#at : this.#core.since,
      causes: this.#causes,
      conversation: this.#conversation,
    };
  }

  /** Facts about the conversation that the machine, which does not hold it, left open. */
  #fill(output: OutputEvent): OutputEvent {
    if (output.type === 'context:assembled') {
      const toolTokens = this.#context.turn?.tools.reduce((sum, tool) => sum + tool.tokens, 0) ?? 0;
      const sections = contextSections(this.#conversation, toolTokens);
      const tokens = sections.reduce((sum, section) => sum + section.tokens, 0);
      const messages = this.#conversation.entries.filter((entry) => !entry.compacted).length;
      return { type: output.type, payload: { ...output.payload, sections, tokens, messages, digest: this.#conversation.digest } };
    }
    if (output.type === 'harness:start')
      return { type: output.type, payload: { ...output.payload, inputDigest: this.#conversation.digest } };
    return output;
  }

  #write(name: SignalName, payload: object, parent: Cause | null, client?: string): Cause {
    this.#seq += 1;
    const stream = `session:${this.#core.id}`;
    const id = signalId(stream, this.#seq);
    const cause = { id, root: parent?.root ?? id, depth: parent ? parent.depth + 1 : 0 };
    if (name === 'turn:start') this.#turn = (payload as PayloadOf<'turn:start'>).turn;
    const turn = this.#turn;
    if (name === 'turn:end') this.#turn = undefined;
    const sealed = sealSignal(
      {
        v: 1,
        id,
        seq: this.#seq,
        stream,
        name,
        payload: payload as Record<string, unknown>,
        timestamp: this.#timestamp,
        source: {
          kind: SIGNALS[name].kind as SignalKind,
          agent: this.#core.agent,
          session: this.#core.id,
          ...(turn === undefined ? {} : { turn }),
          ...(client ? { client } : {}),
          ...(parent ? { parent: parent.id } : {}),
          root: cause.root,
          depth: cause.depth,
        },
      },
      this.#digest,
    );
    this.#digest = sealed.digest!;
    keepCause(this.#causes, name, payload, cause);
    this.#conversation = foldConversation(this.#conversation, sealed as never);
    this.signals.push(sealed);
    return cause;
  }
}

/** Remembers signals that later ones will answer, and forgets those that were answered. */
function keepCause(causes: Map<string, Cause>, name: SignalName, payload: object, cause: Cause): void {
  const { id, key, promptId, promptIds } = payload as { id: string; key: string; promptId: string; promptIds: string[] };
  switch (name) {
    case 'session:created':
      causes.set('session', cause);
      break;
    case 'prompt:received':
      causes.set(`prompt:${promptId}`, cause);
      break;
    case 'hook:start':
    case 'harness:start':
    case 'tool:call':
      causes.set(key, cause);
      break;
    case 'hook:end':
    case 'hook:error':
    case 'harness:end':
    case 'harness:error':
    case 'tool:result':
      causes.delete(key);
      break;
    case 'tool:approval:requested':
      causes.set(`approval:${id}`, cause);
      break;
    case 'tool:approval:resolved':
      causes.delete(`approval:${id}`);
      break;
    case 'timer:set':
      causes.set(`timer:${id}`, cause);
      break;
    case 'timer:fired':
      causes.delete(`timer:${id}`);
      break;
    case 'turn:rejected':
    case 'prompt:cancelled':
      causes.delete(`prompt:${promptId}`);
      break;
    case 'turn:end':
      for (const answered of promptIds) causes.delete(`prompt:${answered}`);
      for (const stale of causes.keys()) if (stale.startsWith('timer:') || stale.startsWith('approval:')) causes.delete(stale);
      break;
    default:
  }
}

function answeredBy(draft: InputDraft): string {
  switch (draft.name) {
    case 'tool:approval:resolved':
      return `approval:${draft.payload.id}`;
    case 'timer:fired':
      return `timer:${draft.payload.id}`;
    case 'prompt:cancelled':
      return `prompt:${draft.payload.promptId}`;
    default:
      return 'key' in draft.payload ? draft.payload.key : 'session';
  }
}

/** Dotted paths of the active leaf states, as node ids. */
export function activeStates(value: unknown, prefix: string = sessionMachine.id): string[] {
  if (typeof value === 'string') return [`${prefix}.${value}`];
  return Object.entries(value as Record<string, unknown>).flatMap(([key, child]) => activeStates(child, `${prefix}.${key}`));
}
