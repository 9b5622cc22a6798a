import { isAppError } from '../../src/core/errors.ts';
import { textOf } from './model-answers.ts';
import { type ProcessLife, requestContext } from './process-life.ts';
import type { Random } from './random.ts';
import type { Weather } from './weather.ts';

/** Prompts a client remembers a session by, to send, ask for or cancel them again. */
const REMEMBERED_PROMPTS_MAX = 20;
/** What a session that fails on purpose throws. */
export const BUG = new Error('a bug made for the simulation');

export interface KnownSession {
  readonly id: string;
  readonly body: { readonly id: string; readonly title?: string; readonly resume?: string };
  readonly prompts: { promptId: string; body: PromptBody }[];
  /** The create was answered: from then on the session must be found. */
  created: boolean;
}

interface PromptBody {
  readonly content: string;
  readonly delivery?: 'queue' | 'steer' | 'interrupt' | 'reject';
  readonly timeoutMs?: number;
}

export interface Answer {
  readonly session: string;
  readonly promptId: string;
  readonly status: string;
}

interface Request {
  readonly what: string;
  readonly leave: AbortController;
}

type Report = (invariant: string, detail: string) => void;

/** Those who use the runtime: they send commands by the dice, wait for answers or go, and remember what they were told. */
export class Clients {
  readonly sessions: KnownSession[] = [];
  /** Requests that were not answered yet. */
  readonly waiting = new Set<Request>();
  /** What was answered to prompts, in the end. */
  readonly answers: Answer[] = [];
  /** Answers by command and outcome. */
  readonly outcomes = new Map<string, number>();
  readonly #random: Random;
  readonly #weather: Weather;
  readonly #report: Report;
  #life: ProcessLife;
  #made = 0;

  constructor(random: Random, weather: Weather, report: Report, life: ProcessLife) {
    this.#random = random;
    this.#weather = weather;
    this.#report = report;
    this.#life = life;
  }

  /** Connections of the old process are gone. */
  reconnect(life: ProcessLife): void {
    this.#life = life;
    this.waiting.clear();
  }

  /** One command by the dice. */
  act(): void {
    const session = this.#random.pick(this.sessions);
    this.#commands[this.#random.weighted(this.#weather.commands)](session);
  }

  create(): void {
    this.#made += 1;
    const id = `ses_sim_${String(this.#made).padStart(3, '0')}`;
    const old = this.sessions.length > 0 && this.#random.chance(0.3) ? this.#random.pick(this.sessions) : null;
    const body = { id, ...(old ? { resume: old.id } : {}), ...(this.#random.chance(0.5) ? { title: textOf(this.#random) } : {}) };
    const session: KnownSession = { id, body, prompts: [], created: false };
    this.sessions.push(session);
    this.#sendCreate(session);
  }

  end(session: KnownSession): void {
    this.#send('end', session, (context) => this.#life.sessions.end({ id: session.id }, context));
  }

  /** A session's code fails. */
  bug(session: KnownSession): void {
    this.#send('bug', session, async () => {
      const host = await this.#life.supervisor.get(session.id);
      await host.handle(() => {
        throw BUG;
      });
    });
  }

  readonly #commands: Record<keyof Weather['commands'], (session: KnownSession) => void> = {
    prompt: (session) => this.#prompt(session),
    again: (session) => this.#promptAgain(session),
    decide: (session) => this.#decide(session),
    abort: ({ id }) =>
      this.#send('abort', { id }, (context) => this.#life.sessions.abort({ id, clearQueue: this.#random.chance(0.3) }, context)),
    cancel: (session) => {
      const known = session.prompts.at(-this.#random.between(1, 3));
      if (known)
        this.#send('cancel', session, (context) => this.#life.prompts.cancelPrompt({ id: session.id, promptId: known.promptId }, context));
    },
    compact: ({ id }) => this.#send('compact', { id }, (context) => this.#life.sessions.compact({ id }, context)),
    update: ({ id }) => {
      const change = this.#random.pick([{ title: 'other' }, { model: 'sim-3' }, { metadata: { n: this.#random.between(1, 9) } }]);
      this.#send('update', { id }, (context) => this.#life.sessions.update({ id, ...change }, context));
    },
    bypass: ({ id }) => this.#bypass(id),
    message: ({ id }) => this.#life.message(id),
    end: (session) => this.end(session),
    create: (session) => (this.#random.chance(0.3) ? this.#sendCreate(session) : this.create()),
    look: (session) => this.#look(session),
    leave: () => {
      if (this.waiting.size > 0) this.#random.pick([...this.waiting]).leave.abort(new Error('the client has gone'));
    },
  };

  #sendCreate(session: KnownSession): void {
    this.#send('create', { ...session, created: false }, async (context) => {
      await this.#life.sessions.create(session.body as never, context);
      session.created = true;
    });
  }

  #prompt(session: KnownSession): void {
    const delivery = this.#random.weighted({ queue: 10, steer: 4, interrupt: 2, reject: 1, none: 5 });
    const body: PromptBody = {
      content: textOf(this.#random).repeat(this.#random.chance(0.1) ? 20 : 1),
      ...(delivery === 'none' ? {} : { delivery }),
      ...(this.#random.chance(this.#weather.hurried) ? { timeoutMs: this.#random.between(1_000, 60_000) } : {}),
    };
    this.#made += 1;
    const promptId = `prm_${this.#made}`;
    session.prompts.push({ promptId, body });
    if (session.prompts.length > REMEMBERED_PROMPTS_MAX) session.prompts.shift();
    this.#sendPrompt(session, promptId, body);
  }

  #promptAgain(session: KnownSession): void {
    if (session.prompts.length === 0) return;
    const known = this.#random.pick(session.prompts);
    this.#sendPrompt(session, known.promptId, this.#random.chance(0.8) ? known.body : { ...known.body, content: 'something else' });
  }

  #sendPrompt(session: KnownSession, promptId: string, body: PromptBody): void {
    const background = this.#random.chance(0.4);
    this.#send('prompt', session, async (context) => {
      const answer = await this.#life.prompts.prompt({ id: session.id, promptId, ...body, async: background } as never, context);
      if (answer.status !== 'queued' && answer.status !== 'running')
        this.answers.push({ session: session.id, promptId, status: answer.status });
    });
  }

  #decide({ id }: KnownSession): void {
    const waiting = [...(this.#life.supervisor.peek(id)?.view.approvals.keys() ?? [])];
    if (waiting.length === 0) return;
    const approvalId = this.#random.pick(waiting);
    const decision = this.#random.weighted({ once: 5, always: 2, deny: 3 });
    this.#send('decide', { id }, (context) => this.#life.approvals.decide({ id, approvalId, decision }, context));
  }

  #bypass(id: string): void {
    const bypassed = this.#random.chance(0.5);
    this.#send('bypass', { id }, async () => {
      const host = await this.#life.supervisor.get(id);
      await host.handle(() => [{ name: 'session:bypass:changed', payload: { bypassed, by: 'sim' }, client: 'sim' }]);
    });
  }

  #look(session: KnownSession): void {
    const { id } = session;
    const known = session.prompts.at(-1);
    if (known && this.#random.chance(0.5))
      this.#send('getPrompt', { id }, () => this.#life.prompts.getPrompt({ id, promptId: known.promptId }));
    else this.#send('wait', { id }, (context) => this.#life.sessions.wait({ id, timeoutMs: this.#random.between(1_000, 30_000) }, context));
  }

  #send(
    what: string,
    { id, created }: Pick<KnownSession, 'id'> & { created?: boolean },
    run: (context: ReturnType<typeof requestContext>) => Promise<unknown>,
  ): void {
    const request: Request = { what: `${what} ${id}`, leave: new AbortController() };
    this.waiting.add(request);
    const life = this.#life;
    const answered = (outcome: string) => {
      if (life !== this.#life) return;
      this.waiting.delete(request);
      this.outcomes.set(`${what}: ${outcome}`, (this.outcomes.get(`${what}: ${outcome}`) ?? 0) + 1);
    };
    run(requestContext('sim', request.leave.signal)).then(
      () => answered('ok'),
      (error: unknown) => {
        answered(isAppError(error) ? error.code : 'threw');
        if (error === BUG || error === request.leave.signal.reason) return;
        if (!isAppError(error) || error.code === 'internal')
          this.#report('clients are told what is wrong', `${request.what}: ${String(error)}`);
        if (created && isAppError(error, 'session_not_found'))
          this.#report('a session that was created is found', `${request.what}: ${error.detail}`);
      },
    );
  }
}
