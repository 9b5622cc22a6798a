import { setImmediate as turnOfLoop } from 'node:timers/promises';
import type { InputEvent, SessionContext } from '../../machines/session-context.ts';
import { isAppError } from '../../src/core/errors.ts';
import type { Held } from '../helpers/model-server/gate.ts';
import type { Reply } from '../helpers/model-server/reply.ts';
import type { ModelServer } from '../helpers/model-server/server.ts';
import type { HeldWork } from './gates.ts';
import { HUGE_USAGE, LIMITS, type Move, OTHER_MODEL, SCHEMA_MARK, SHORT_TURN_MS, TOOL_CALLS } from './moves.ts';
import type { World } from './world.ts';

/** How long a model call may take to reach the model server; unit: milliseconds. */
const REQUEST_TIMEOUT_MS = 15_000;
const ANSWER: Reply = { text: 'Done.' };
const VALID_ANSWER: Reply = { text: '{"word":"done"}' };
const SCHEMA = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'], additionalProperties: false };
/** Faults that may pass, in turn: all of them must mean the same to a session. */
const PASSING_FAULTS: readonly Reply[] = [
  { fault: { kind: 'status', status: 529 } },
  { fault: { kind: 'status', status: 429 } },
  { fault: { kind: 'status', status: 500 } },
  { ...ANSWER, fault: { kind: 'cut', after: 1 } },
  { ...ANSWER, fault: { kind: 'bad-json', after: 1 } },
];
/** Codes a client is given for a prompt that was not taken, by the reason in the log. */
export const REFUSALS: Readonly<Record<string, string>> = { busy: 'turn_open', 'queue-full': 'session_busy' };

/** Milliseconds the clock is moved for a timer to be due. */
const TIMERS: Readonly<Record<string, number>> = {
  'idle timer': LIMITS.idleTtlMs,
  'turn timer': SHORT_TURN_MS,
  'backoff timer': LIMITS.backoffMs,
  'abort timer': LIMITS.abortGraceMs,
  'approval timer': LIMITS.approvalTimeoutMs,
};

/** Does to one session what a move says, as the outside does it: clients over HTTP, the provider, hooks, tools and time. */
export class Outside {
  readonly #world: World;
  readonly #model: ModelServer;
  readonly #session: string;
  /** Work that has begun and waits, by its key in the session. */
  readonly #held = new Map<string, HeldWork>();
  readonly #answers = new Map<string, Promise<string>>();
  #request: { readonly key: string; readonly held: Held } | null = null;
  #count = 0;

  constructor(world: World, model: ModelServer, session: string) {
    this.#world = world;
    this.#model = model;
    this.#session = session;
  }

  /** How the server answered each prompt that has been answered: its status, or the code of a refusal. */
  async answerOf(promptId: string): Promise<string | undefined> {
    return this.#answers.get(promptId);
  }

  create(): void {
    // A session that could not be created shows in the commit that does not come.
    this.#world.client.session.create({ id: this.#session }).catch(() => {});
  }

  /** Waits until everything the session owes has begun, and nothing else has. */
  async takeUp({ pending }: SessionContext): Promise<void> {
    const keys = new Set(pending.map(({ key }) => key));
    for (const key of this.#held.keys()) if (!keys.has(key)) this.#held.delete(key);
    if (this.#request && !keys.has(this.#request.key)) this.#request = null;
    const awaited = new Map<string, string>();
    for (const owed of pending) {
      if (this.#held.has(owed.key) || this.#request?.key === owed.key) continue;
      if (owed.kind === 'model') this.#request = { key: owed.key, held: await this.#model.next(REQUEST_TIMEOUT_MS) };
      else awaited.set(owed.kind === 'hook' ? owed.hook : `${this.#session}:${owed.key}`, owed.key);
    }
    while (awaited.size > 0) {
      const work = await this.#world.gates.work.next([...awaited.keys()].join(', '));
      const key = awaited.get(work.name);
      if (key === undefined) throw new Error(`${work.name} was called, but the session owes ${[...awaited.keys()].join(', ')}`);
      awaited.delete(work.name);
      this.#held.set(key, work);
    }
    const strangers = this.#world.gates.work.waiting.map(({ name }) => name);
    if (strangers.length > 0 || this.#model.pending > 0)
      throw new Error(`begun without being owed: ${strangers.join(', ') || 'a model call'}`);
  }

  /** Resolves when the runtime holds what the move causes, committed or not. */
  async actInTime(move: Move, context: SessionContext): Promise<void> {
    this.#world.entered.clear();
    this.#world.answersRead.clear();
    this.act(move, context);
    if (move.type === 'late answer') await this.#world.answersRead.next(move.type);
    else if (!move.type.startsWith('late')) await this.#world.entered.next(move.type);
    await turnOfLoop();
  }

  act({ type, inputs }: Move, context: SessionContext): void {
    // Coming back into memory is a part of the first command.
    const first = inputs.find((input) => input.type !== 'session:activated');
    if (type in TIMERS) this.#world.clock.advance(TIMERS[type]!);
    else if (first?.type === 'prompt:received') this.#prompt(type, first.payload.delivery);
    else if (first && 'key' in first.payload) {
      // Work that settles does so by itself.
      if (type !== 'settle') this.#finish(type, inputs.at(-1)!);
    } else if (first) {
      // What the server answers shows in its state and its log; a call that fails leaves them as they are.
      this.#command(first, context).catch(() => {});
    }
  }

  async #command(first: InputEvent, context: SessionContext): Promise<unknown> {
    const { session, approvals } = this.#world.client;
    const id = this.#session;
    switch (first.type) {
      case 'prompt:cancelled':
        return session.cancelPrompt(id, context.mailbox[0]!.promptId);
      case 'turn:cancel':
        return session.abort(id);
      case 'session:end':
        return session.end(id);
      case 'compaction:requested':
        return session.compact(id);
      case 'session:updated':
        return session.update(id, OTHER_MODEL);
      case 'session:bypass:changed':
        return this.#bypass(!context.bypassed);
      case 'message:arrived':
        return this.#world.message(id);
      case 'tool:approval:resolved':
        return approvals.decide(id, context.calls.find((call) => call.state === 'waiting')!.id, first.payload.decision);
      default:
        throw new Error(`no client can bring about ${first.type}`);
    }
  }

  #prompt(type: string, delivery: 'queue' | 'steer' | 'interrupt' | 'reject'): void {
    this.#count += 1;
    const schema = type === 'schema prompt';
    const promptId = `prompt-${this.#count}${schema ? `-${SCHEMA_MARK}` : ''}`;
    const asked = this.#world.client.session.promptAsync(this.#session, {
      promptId,
      content: 'Hello.',
      delivery,
      ...(type === 'short prompt' ? { timeoutMs: SHORT_TURN_MS } : {}),
      ...(schema ? { output: { schema: SCHEMA } } : {}),
    });
    const answered = asked.then(
      ({ status }) => status,
      (error: unknown) => (isAppError(error) ? error.code : String(error)),
    );
    this.#answers.set(promptId, answered);
  }

  #finish(type: string, input: InputEvent): void {
    const key = (input.payload as { key: string }).key;
    const work = this.#held.get(key);
    if (work && type === 'hook fails') work.fail();
    else if (work) work.pass();
    else if (this.#request?.key === key) this.#request.held.reply(this.#replyFor(type, input));
    else throw new Error(`${type}: nothing of key ${key} has begun`);
  }

  #replyFor(type: string, input: InputEvent): Reply {
    this.#count += 1;
    const calls = TOOL_CALLS[type];
    if (calls) {
      const toolCalls = calls.map((name, index) => ({ id: `call_${this.#count}_${index}`, name, input: {} }));
      return { toolCalls, ...(type.endsWith('huge') ? { usage: HUGE_USAGE } : {}) };
    }
    const valid = input.type === 'harness:end' && input.payload.outputValid ? VALID_ANSWER : ANSWER;
    switch (type) {
      case 'answer':
        return valid;
      case 'late answer':
      case 'thinking answer':
        return { ...valid, thinking: 'Well.', signature: 'signed' };
      case 'invalid answer':
        return { text: '{"word":1}' };
      case 'empty answer':
        return { text: '' };
      case 'overflow':
        return { fault: { kind: 'overflow' } };
      case 'overloaded':
        return PASSING_FAULTS[this.#count % PASSING_FAULTS.length]!;
      case 'refused':
        return { fault: { kind: 'status', status: 401 } };
      default:
        throw new Error(`no reply of the model is known for "${type}"`);
    }
  }

  async #bypass(enabled: boolean): Promise<void> {
    const socket = new WebSocket(`${this.#world.url.replace('http', 'ws')}/ws`);
    socket.addEventListener('open', () => socket.send(JSON.stringify({ id: 1, op: 'bypass', session: this.#session, enabled })));
    await new Promise((resolve, reject) => {
      socket.addEventListener('message', resolve);
      socket.addEventListener('error', reject);
    });
    socket.close();
  }
}
