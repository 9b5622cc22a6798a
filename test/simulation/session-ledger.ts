import type { PayloadOf, SignalName } from '../../src/contract/catalog.ts';
import type { Signal } from '../../src/contract/signal.ts';

type Report = (invariant: string, detail: string) => void;
type Checks = { readonly [N in SignalName]?: (payload: PayloadOf<N>, signal: Signal) => void };

/** Keeps account of one session's log, signal by signal, and says where it breaks a promise. Shares no code with the program's folds. */
export class SessionLedger {
  readonly #report: Report;
  readonly #isSteady: () => boolean;
  #limits: Readonly<Record<string, number>> = {};
  readonly #ids = new Map<string, number>();
  #seq = 0;
  #time = '';
  #endedAt: number | null = null;
  #turns = 0;
  #openTurn: number | null = null;
  /** Prompts that were received and have not ended. */
  readonly #openPrompts = new Set<string>();
  readonly #queued = new Set<string>();
  readonly #modelCalls = new Set<string>();
  readonly #toolCalls = new Set<string>();
  /** Keys of calls with a result, for ever. */
  readonly #results = new Set<string>();
  readonly #echoes = new Set<string>();
  /** When each wait that is open is over, as the log says. */
  readonly #due = new Map<string, string>();
  /** Of all replies. */
  readonly usage = { inputTokens: 0, outputTokens: 0 };
  /** Of replies that came when nobody waited for them any more: they are in no turn. */
  readonly lateUsage = { inputTokens: 0, outputTokens: 0 };
  readonly #messages = new Set<string>();
  /** Every turn that ended, by its number. */
  readonly ends = new Map<number, PayloadOf<'turn:end'>>();

  /** @param isSteady  the wall clock was never set back, so that waits can be read off the log */
  constructor(report: Report, isSteady: () => boolean) {
    this.#report = report;
    this.#isSteady = isSteady;
  }

  get ended(): boolean {
    return this.#endedAt !== null;
  }

  /** The outcome of this call comes a second time: not the program's doing. */
  echo(key: string): void {
    this.#echoes.add(key);
  }

  hasResult(key: string): boolean {
    return this.#results.has(key);
  }

  /** One append. */
  take(signals: readonly Signal[]): void {
    if (this.#endedAt !== null)
      this.#report('ended is final', `${signals[0]!.name} (${signals[0]!.seq}) after session:ended (${this.#endedAt})`);
    for (const signal of signals) {
      this.#order(signal);
      const check = this.#checks[signal.name as SignalName] as ((payload: unknown, signal: Signal) => void) | undefined;
      check?.(signal.payload, signal);
      this.#afterEnd(signal);
    }
    if (this.#queued.size > this.#limits.mailboxTurnsMax!) this.#report('the mailbox is bounded', `${this.#queued.size} prompts wait`);
  }

  /** The session is quiet: nothing may be open. */
  settle(): void {
    if (this.#openTurn !== null) this.#report('every turn ends', `turn ${this.#openTurn} is open`);
    if (this.#openPrompts.size > 0) this.#report('every prompt ends', `${[...this.#openPrompts].join(', ')} never ended`);
    if (this.#toolCalls.size > 0) this.#report('every call has a result', `${[...this.#toolCalls].join(', ')} have none`);
    if (this.#modelCalls.size > 0) this.#report('every model call ends', `${[...this.#modelCalls].join(', ')} did not`);
  }

  #order(signal: Signal): void {
    this.#seq += 1;
    if (signal.seq !== this.#seq) this.#report('numbers are dense', `${signal.seq} where ${this.#seq} was due`);
    if (signal.timestamp < this.#time) this.#report('time never runs back', `${signal.timestamp} (${signal.seq}) after ${this.#time}`);
    this.#time = signal.timestamp;
    const { parent, root, depth } = signal.source;
    if (parent === undefined ? root !== signal.id || depth !== 0 : !this.#ids.has(parent) || !this.#ids.has(root))
      this.#report('parents stand before', `${signal.name} (${signal.seq}) names ${parent} under ${root}`);
    if (parent !== undefined && depth !== (this.#ids.get(parent) ?? -1) + 1)
      this.#report('parents stand before', `${signal.name} (${signal.seq}) is at depth ${depth}`);
    this.#ids.set(signal.id, depth);
  }

  /** What ends a session stands in its last append; behind it may come what belongs to the end. */
  #afterEnd(signal: Signal): void {
    if (this.#endedAt !== null && signal.name !== 'supervisor:child:stopped' && signal.seq > this.#endedAt)
      this.#report('ended is final', `${signal.name} (${signal.seq}) after session:ended (${this.#endedAt})`);
    if (signal.name === 'session:ended') this.#endedAt = signal.seq;
  }

  #endPrompt(promptId: string, by: string): void {
    this.#queued.delete(promptId);
    if (!this.#openPrompts.delete(promptId)) this.#report('a prompt ends once', `${by} ends ${promptId}, which is not open`);
  }

  #answerTool(key: string): void {
    if (this.#results.has(key) && !this.#echoes.has(key)) this.#report('a call has one result', `${key} has two`);
    this.#results.add(key);
    this.#toolCalls.delete(key);
  }

  /** A turn that was stopped owes nothing more. */
  #closeTurn(end: PayloadOf<'turn:end'>): void {
    if (this.#openTurn !== end.turn) this.#report('one turn at a time', `turn ${end.turn} ends while ${this.#openTurn} is open`);
    this.#openTurn = null;
    this.ends.set(end.turn, end);
    for (const promptId of end.promptIds) this.#endPrompt(promptId, `turn ${end.turn}`);
    const stopped = end.stopReason === 'cancelled' || end.error?.code === 'turn_timeout';
    if (!stopped && this.#toolCalls.size + this.#modelCalls.size > 0)
      this.#report(
        'every call has a result',
        `turn ${end.turn} ends with ${[...this.#toolCalls, ...this.#modelCalls].join(', ')} under way`,
      );
    this.#toolCalls.clear();
    this.#modelCalls.clear();
  }

  readonly #checks: Checks = {
    'prompt:received': ({ promptId }) => {
      if (this.#openPrompts.has(promptId)) this.#report('a prompt is received once', promptId);
      this.#openPrompts.add(promptId);
    },
    'turn:queued': ({ promptId, position }) => {
      this.#queued.add(promptId);
      if (position > this.#queued.size) this.#report('positions fit the queue', `${promptId} is ${position} of ${this.#queued.size}`);
    },
    'turn:rejected': ({ promptId, reason }) => this.#endPrompt(promptId, `a refusal (${reason})`),
    'prompt:cancelled': ({ promptId }) => {
      // A cancellation that came too late is answered by session:ignored and ends nothing.
      if (this.#queued.has(promptId)) this.#endPrompt(promptId, 'a cancellation');
    },
    'turn:start': ({ turn, promptId, deadlineAt }) => {
      this.#due.set('turn', deadlineAt);
      if (this.#openTurn !== null) this.#report('one turn at a time', `turn ${turn} starts while ${this.#openTurn} is open`);
      if (turn !== this.#turns + 1) this.#report('turns are numbered densely', `${turn} after ${this.#turns}`);
      if (!this.#openPrompts.has(promptId)) this.#report('a turn has a prompt', `turn ${turn} is for ${promptId}`);
      this.#queued.delete(promptId);
      this.#turns = turn;
      this.#openTurn = turn;
    },
    'turn:end': (end) => this.#closeTurn(end),
    'harness:start': ({ key }) => {
      if (this.#modelCalls.size > 0) this.#report('one model call at a time', `${key} while ${[...this.#modelCalls].join()} is under way`);
      this.#modelCalls.add(key);
    },
    'harness:end': ({ key, usage }) => {
      const late = !this.#modelCalls.delete(key);
      for (const sum of late ? [this.usage, this.lateUsage] : [this.usage]) {
        sum.inputTokens += usage.inputTokens;
        sum.outputTokens += usage.outputTokens;
      }
    },
    'harness:error': ({ key }) => void this.#modelCalls.delete(key),
    // Stopping a compaction without a turn ends its calls, also when the session ends with it.
    'session:ending': () => this.#modelCalls.clear(),
    'session:idle': (_payload, signal) => {
      this.#modelCalls.clear();
      this.#due.set('idle', after(signal, this.#limits.idleTtlMs));
    },
    'session:created': ({ limits }) => {
      this.#limits = limits;
    },
    'session:aborting': (_payload, signal) => void this.#due.set('abort', after(signal, this.#limits.abortGraceMs)),
    'timer:set': ({ id, dueAt }) => void this.#due.set(id, dueAt),
    'session:transition': ({ event, from }, { timestamp }) => {
      const state = from[0] ?? '';
      if (event !== 'timer:fired') return;
      const id = state.endsWith('backoff')
        ? 'backoff'
        : state === 'session.idle'
          ? 'idle'
          : state === 'session.aborting'
            ? 'abort'
            : 'turn';
      // A turn's deadline holds in its backoff as well: whichever is over.
      const due = (id === 'backoff' ? [id, 'turn'] : [id]).map((timer) => this.#due.get(timer) ?? '');
      if (this.#isSteady() && due.every((at) => timestamp < at))
        this.#report('a wait lasts as long as it should', `${state} was left at ${timestamp}, not ${due[0]}`);
    },
    'tool:approval:requested': ({ id, expiresAt }) => void this.#due.set(`approval ${id}`, expiresAt),
    'tool:approval:resolved': ({ id, by }, { timestamp }) => {
      const due = this.#due.get(`approval ${id}`) ?? '';
      if (by === 'expiry' && this.#isSteady() && timestamp < due)
        this.#report('a wait lasts as long as it should', `approval ${id} expired at ${timestamp}, not ${due}`);
    },
    'tool:call': ({ key }) => {
      if (this.#toolCalls.has(key) || this.#results.has(key)) this.#report('a call is made once', key);
      this.#toolCalls.add(key);
    },
    'tool:result': ({ key }) => this.#answerTool(key),
    'message:received': ({ messageId }) => {
      if (this.#messages.has(messageId)) this.#report('a message is received once', messageId);
      this.#messages.add(messageId);
    },
  };
}

function after({ timestamp }: Signal, ms = 0): string {
  return new Date(Date.parse(timestamp) + ms).toISOString();
}
