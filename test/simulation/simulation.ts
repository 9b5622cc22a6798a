import { hash } from 'node:crypto';
import type { Signal } from '../../src/contract/signal.ts';
import type { RunEffect } from '../../src/runtime/session-host.ts';
import type { InputDraft } from '../../src/runtime/session-state.ts';
import { Clients } from './clients.ts';
import { MemoryLog } from './memory-log.ts';
import { Outside } from './outside.ts';
import { type ProcessLife, startLife } from './process-life.ts';
import { Random } from './random.ts';
import { SessionLedger } from './session-ledger.ts';
import { checkCoherence, checkRest } from './state-checks.ts';
import { settleMicrotasks, VirtualTime } from './virtual-time.ts';
import { CALM, drawWeather, type Weather } from './weather.ts';

/** Events until everything must have come to rest; more means that something goes round in circles. */
const REST_STEPS_MAX = 20_000;
const HOUR_MS = 3_600_000;
/** A step takes up to this long; unit: milliseconds. */
const STEP_MS_MAX = 40;
/** Failures of one session's code in one life of the process; more and it is put aside, as it should be. */
const BUGS_MAX = 2;
/** Outcomes that may come twice, and how many of each session are remembered for it. */
const REPLIES: ReadonlySet<string> = new Set(['harness:end', 'harness:error', 'tool:result']);
const REPLIES_MAX = 5;

export interface SimulationOptions {
  readonly seed: number;
  readonly sessions: number;
  readonly steps: number;
  /** Stands between a session and its effects, to prove that a broken rule is seen. */
  readonly bend?: (run: RunEffect) => RunEffect;
  /** In place of what the seed draws. */
  readonly weather?: Partial<Weather>;
}

export interface Violation {
  readonly invariant: string;
  readonly detail: string;
  /** Step after which it showed; the number of steps when it showed at rest. */
  readonly step: number;
}

export interface SimulationResult {
  readonly seed: number;
  readonly violation: Violation | null;
  readonly signals: number;
  readonly turns: number;
  readonly lives: number;
  /** Of every signal in the log, in order: equal runs have equal digests, in every process. */
  readonly digest: string;
  readonly outcomes: ReadonlyMap<string, number>;
  /** Names of the signals in the log, and how many there are of each. */
  readonly names: ReadonlyMap<string, number>;
  readonly log: MemoryLog;
}

/** Runs one seed. The platform's timers belong to the simulation until it is done: one at a time in a process. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const time = new VirtualTime();
  const restore = time.install();
  try {
    return await new Simulation(options, time).run();
  } finally {
    time.clear();
    restore();
  }
}

class Simulation {
  readonly #options: SimulationOptions;
  readonly #random: Random;
  readonly #time: VirtualTime;
  readonly #log = new MemoryLog();
  readonly #weather: Weather;
  readonly #outside: Outside;
  readonly #ledgers = new Map<string, SessionLedger>();
  readonly #names = new Map<string, number>();
  readonly #replies = new Map<string, readonly Signal[]>();
  readonly #bugs = new Map<string, number>();
  #life: ProcessLife;
  #clients: Clients;
  #lives = 1;
  #step = 0;
  #draining: Promise<unknown> | null = null;
  #violation: Violation | null = null;
  #isSteady = true;

  constructor(options: SimulationOptions, time: VirtualTime) {
    this.#options = options;
    this.#time = time;
    this.#random = new Random(options.seed);
    this.#weather = { ...drawWeather(this.#random.fork('weather')), ...options.weather };
    const report = this.#report;
    this.#outside = new Outside(this.#random.fork('outside'), time, this.#weather, report);
    this.#outside.isFinished = (session, key) => this.#ledgers.get(`session:${session}`)?.hasResult(key) ?? false;
    this.#log.onStored = (stream, signals) => this.#stored(stream, signals);
    this.#life = this.#startLife();
    this.#clients = new Clients(this.#random.fork('clients'), this.#weather, report, this.#life);
  }

  async run(): Promise<SimulationResult> {
    for (let index = 0; index < this.#options.sessions; index += 1) this.#clients.create();
    for (this.#step = 1; this.#step <= this.#options.steps && !this.#violation; this.#step += 1) await this.#stepOnce();
    if (!this.#violation) await this.#rest();
    if (!this.#violation && this.#random.chance(0.5)) {
      for (const session of this.#clients.sessions) this.#clients.end(session);
      await this.#rest();
    }
    return this.#result();
  }

  readonly #report = (invariant: string, detail: string): void => {
    this.#violation ??= { invariant, detail, step: Math.min(this.#step, this.#options.steps) };
  };

  async #stepOnce(): Promise<void> {
    this.#time.advanceTo(this.#time.elapsed + this.#random.between(0, STEP_MS_MAX));
    const kind = this.#random.weighted(this.#possible());
    if (kind === 'command') this.#clients.act();
    else if (kind === 'fault') this.#fault();
    else this.#proceed(kind, this.#random);
    await this.#look();
  }

  /** What can happen now, by the weather; something always can. */
  #possible(): Weather['steps'] {
    const { steps } = this.#weather;
    const land = this.#life.gate.waiting > 0 ? steps.land : 0;
    const answer = this.#outside.ready.length > 0 ? steps.answer : 0;
    const immediate = this.#time.immediates > 0 ? steps.immediate : 0;
    return { ...steps, land, answer, immediate };
  }

  #proceed(kind: 'land' | 'answer' | 'immediate' | 'time', random: Random): void {
    switch (kind) {
      case 'land':
        this.#life.gate.land();
        break;
      case 'answer':
        random.pick(this.#outside.ready).answer();
        break;
      case 'immediate':
        this.#time.runImmediates();
        break;
      case 'time': {
        const next = [this.#time.nextDue, this.#outside.nextReady].filter((due) => due !== null && Number.isFinite(due)) as number[];
        if (next.length > 0) this.#time.advanceTo(Math.min(...next));
        this.#time.fireDue();
      }
    }
  }

  #fault(): void {
    switch (this.#random.weighted(this.#weather.faults)) {
      case 'crash':
        this.#crash(this.#random.between(0, this.#life.gate.waiting));
        break;
      case 'drain':
        this.#drain();
        break;
      case 'disk':
        this.#life.gate.failing = this.#random.between(1, 3);
        break;
      case 'forward':
        this.#time.jump(HOUR_MS);
        break;
      case 'back':
        this.#isSteady = false;
        this.#time.jump(-HOUR_MS);
        break;
      case 'echo':
        this.#echo();
        break;
      case 'bug': {
        const session = this.#random.pick(this.#clients.sessions);
        const bugs = (this.#bugs.get(session.id) ?? 0) + 1;
        this.#bugs.set(session.id, bugs);
        if (bugs <= BUGS_MAX) this.#clients.bug(session);
      }
    }
  }

  /** The outcome of a model or tool call comes once more. */
  #echo(): void {
    const streams = [...this.#replies.keys()];
    if (streams.length === 0) return;
    const stream = this.#random.pick(streams);
    const reply = this.#random.pick(this.#replies.get(stream)!);
    const host = this.#life.supervisor.peek(stream.replace(/^session:/, ''));
    if (!host) return;
    this.#ledgers.get(stream)!.echo(String(reply.payload.key));
    // It may be refused like any other command; what counts is that it changes nothing.
    host.handle(() => [{ name: reply.name, payload: reply.payload } as unknown as InputDraft]).catch(() => {});
  }

  #drain(): void {
    if (this.#draining) return;
    const life = this.#life;
    this.#draining = life.supervisor.drain(10_000).then(() => {
      // Closing the log writes what is queued.
      if (life === this.#life) this.#crash(life.gate.waiting);
    });
  }

  /** The process is gone; another one starts on the same log. */
  #crash(landed: number): void {
    this.#life.gate.die(landed);
    this.#outside.forget();
    this.#time.clear();
    this.#bugs.clear();
    this.#draining = null;
    this.#lives += 1;
    this.#life = this.#startLife();
    this.#clients.reconnect(this.#life);
    void this.#life.supervisor.sweep().catch((error: unknown) => this.#report('what is owed is taken up again', String(error)));
  }

  #startLife(): ProcessLife {
    const { bend } = this.#options;
    return startLife({
      log: this.#log,
      time: this.#time,
      random: this.#random.fork(`life ${this.#lives}`),
      outside: this.#outside,
      report: this.#report,
      ...(bend ? { bend } : {}),
    });
  }

  #stored(stream: string, signals: readonly Signal[]): void {
    const ledger =
      this.#ledgers.get(stream) ??
      new SessionLedger(
        (invariant, detail) => this.#report(invariant, `${stream}: ${detail}`),
        () => this.#isSteady,
      );
    this.#ledgers.set(stream, ledger);
    ledger.take(signals);
    const replies = signals.filter(({ name }) => REPLIES.has(name));
    if (replies.length > 0) this.#replies.set(stream, [...(this.#replies.get(stream) ?? []), ...replies].slice(-REPLIES_MAX));
    for (const { name } of signals) this.#names.set(name, (this.#names.get(name) ?? 0) + 1);
  }

  /** Lets everything happen that needs neither time nor outside, then looks. */
  async #look(): Promise<void> {
    await settleMicrotasks();
    for (const error of this.#time.thrown) this.#report('no timer throws', String(error));
    for (const host of this.#life.supervisor.hosts()) checkCoherence(host, this.#report);
  }

  /** No more commands and faults; everything answers and time goes on. Everything must come to an end. */
  async #rest(): Promise<void> {
    const random = this.#random.fork('rest');
    Object.assign(this.#outside.weather, CALM);
    this.#life.gate.failing = 0;
    await this.#look();
    for (let step = 0; step < REST_STEPS_MAX && !this.#violation; step += 1) {
      const land = this.#life.gate.waiting > 0 ? 5 : 0;
      const answer = this.#outside.ready.length > 0 ? 5 : 0;
      const immediate = this.#time.immediates > 0 ? 5 : 0;
      const time = land + answer + immediate === 0 ? 1 : 0;
      if (time === 1 && this.#time.nextDue === null && (this.#outside.nextReady ?? Number.POSITIVE_INFINITY) === Number.POSITIVE_INFINITY)
        return this.#checkRest();
      this.#proceed(random.weighted({ land, answer, immediate, time }), random);
      await this.#look();
    }
    this.#report('every session settles', `something still goes on after ${REST_STEPS_MAX} events`);
  }

  async #checkRest(): Promise<void> {
    for (const { what } of this.#clients.waiting) this.#report('every request is answered', what);
    for (const [stream, ledger] of this.#ledgers) {
      const id = stream.replace(/^session:/, '');
      await checkRest(this.#log, id, this.#life.supervisor.peek(id), ledger, this.#report);
    }
    for (const { session, promptId, status } of this.#clients.answers) {
      const known = (await this.#life.supervisor.view(session)).prompts.get(promptId)?.status;
      if (known !== status) this.#report('an answer stays what it was', `${session} ${promptId} was ${status} and is ${known}`);
    }
  }

  async #result(): Promise<SimulationResult> {
    const signals = await this.#log.feed({ after: 0, limit: Number.POSITIVE_INFINITY });
    return {
      seed: this.#options.seed,
      violation: this.#violation,
      signals: signals.length,
      turns: this.#names.get('turn:start') ?? 0,
      lives: this.#lives,
      digest: hash('sha256', signals.map(sameInEveryProcess).join('\n'), 'base64url'),
      outcomes: this.#clients.outcomes,
      names: this.#names,
      log: this.#log,
    };
  }
}

/** The number of the process stands in the log, and so in the chained digests; all else is the seed's. */
function sameInEveryProcess({ stream, seq, name, timestamp, payload, source }: Signal): string {
  return JSON.stringify([stream, seq, name, timestamp, { ...payload, pid: 0 }, source]);
}
