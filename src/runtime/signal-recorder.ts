import type { OutputEvent, SessionContext } from '../../machines/session-context.ts';
import { type PayloadOf, SIGNALS, type SignalName } from '../contract/catalog.ts';
import type { CauseRef, SealedSignal, SignalKind } from '../contract/signal.ts';
import { isoTime } from '../core/clock.ts';
import { contextSections } from '../core/context.ts';
import { type Conversation, foldConversation } from '../core/conversation.ts';
import { sealNext } from '../core/signal-seal.ts';
import type { Cause, InputDraft, SessionCore, SessionSnapshot, SystemFact } from './session-state.ts';

/** Writes the signals of one input: numbers, parents, digests, and the folds that later ones of the same batch need. */
export class SignalRecorder {
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
    const parent = isRoot ? causeOutside(draft) : (this.#causes.get(answeredBy(draft)) ?? this.#causes.get('session') ?? null);
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
    if (name === 'turn:start') this.#turn = (payload as PayloadOf<'turn:start'>).turn;
    const turn = this.#turn;
    if (name === 'turn:end') this.#turn = undefined;
    const sealed = sealNext(
      { stream: `session:${this.#core.id}`, seq: this.#seq, digest: this.#digest },
      {
        name,
        payload: payload as Record<string, unknown>,
        timestamp: this.#timestamp,
        source: {
          kind: SIGNALS[name].kind as SignalKind,
          agent: this.#core.agent,
          session: this.#core.id,
          ...(turn === undefined ? {} : { turn }),
          ...(client ? { client } : {}),
        },
        cause: parent && { signal: parent.id, root: parent.root, depth: parent.depth },
      },
    );
    const cause = { id: sealed.id, root: sealed.source.root, depth: sealed.source.depth };
    this.#seq = sealed.seq;
    this.#digest = sealed.digest!;
    keepCause(this.#causes, name, payload, cause);
    this.#conversation = foldConversation(this.#conversation, sealed as never);
    this.signals.push(sealed);
    return cause;
  }
}

/** Remembers signals that later ones will answer, and forgets those that were answered. */
export function keepCause(causes: Map<string, Cause>, name: SignalName, payload: object, cause: Cause): void {
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

/** Sessions and prompts are roots, unless another stream brought them about. */
function causeOutside({ payload }: InputDraft): Cause | null {
  const cause = 'cause' in payload ? (payload.cause as CauseRef | undefined) : undefined;
  return cause ? { id: cause.signal, root: cause.root, depth: cause.depth } : null;
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
