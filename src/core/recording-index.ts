import type { RecordedEffect } from '../contract/recording.ts';

/** Recorded calls one that was not recorded is compared with. */
const NEAREST_MAX = 200;
/** Differences named of a call that was not recorded. */
const DIFFERENCES_MAX = 5;
/** Characters shown of a text that differs, from a little before the first difference. */
const SHOWN_CHARS = 120;
const SHOWN_BEFORE_CHARS = 30;

/** A call that would leave the process. */
export interface EffectCall {
  readonly kind: RecordedEffect['kind'];
  readonly agent: string;
  readonly session: string;
  readonly turn: string;
  readonly request: Readonly<Record<string, unknown>>;
  readonly key: string;
}

export interface RecordedPlace {
  readonly effect: RecordedEffect;
  /** Its number in the recording. */
  readonly place: number;
}

/**
 * The recorded outcomes by what asked for them. Equal calls of one turn of one session are answered in their recorded order. A session that has
 * another id than when it was recorded is the first of its agent's that nobody has taken and that made this call.
 */
export class RecordingIndex {
  readonly #places: readonly RecordedPlace[];
  readonly #used = new Set<number>();
  /** Recorded sessions by the id they have now. */
  readonly #sessions = new Map<string, string>();

  constructor(effects: readonly RecordedEffect[]) {
    this.#places = effects.map((effect, place) => ({ effect, place }));
  }

  /** The outcome of exactly this call; each is given once. */
  take(call: EffectCall): RecordedPlace | undefined {
    const session = this.#sessionOf(call);
    if (session === undefined) return undefined;
    return this.#use(({ effect }) => effect.session === session && effect.turn === call.turn && effect.key === call.key);
  }

  /** The next outcome of this kind in the turn, whatever was asked. */
  takeNext(call: EffectCall): RecordedPlace | undefined {
    const session = this.#sessionOf(call) ?? this.#bind(call, () => true);
    if (session === undefined) return undefined;
    return this.#use(({ effect }) => effect.session === session && effect.turn === call.turn && effect.kind === call.kind);
  }

  /** The id a session had when it was recorded; its own when it was not. */
  recordedSession(session: string): string {
    return this.#sessions.get(session) ?? session;
  }

  /** What differs from the recorded call that is most like it; for people. */
  explain(call: EffectCall): string {
    const who = `${call.kind} call of ${call.agent} (session ${call.session}, ${call.turn})`;
    const session = this.recordedSession(call.session);
    const unused = this.#places.filter(({ effect, place }) => effect.kind === call.kind && !this.#used.has(place));
    const near = [
      unused.filter(({ effect }) => effect.session === session && effect.turn === call.turn),
      unused.filter(({ effect }) => effect.session === session || effect.agent === call.agent),
      unused,
    ].find((candidates) => candidates.length > 0);
    if (!near) {
      const why = this.#places.some(({ effect }) => effect.kind === call.kind)
        ? 'all recorded ones are used up: the recorded run ended, or broke off, before it'
        : 'the recording has none';
      return `no outcome is left for the ${who}; ${why}`;
    }
    const compared = near.slice(0, NEAREST_MAX).map((candidate) => ({
      candidate,
      differences: differencesOf(candidate.effect.request, call.request),
    }));
    const { candidate, differences } = compared.reduce((best, next) => (next.differences.length < best.differences.length ? next : best));
    // Its line in the file: one is the header, and people count from one.
    const heading = `the ${who} was not recorded; compared with line ${candidate.place + 2}:`;
    if (differences.length === 0)
      return `${heading} the same request in another turn or session (${candidate.effect.session}, ${candidate.effect.turn})`;
    const lines = differences.flatMap(({ path, recorded, asked }) => [
      `  ${path}`,
      `    - ${shown(recorded, asked)}`,
      `    + ${shown(asked, recorded)}`,
    ]);
    return [heading, ...lines].join('\n');
  }

  #use(fits: (place: RecordedPlace) => boolean): RecordedPlace | undefined {
    const found = this.#places.find((candidate) => !this.#used.has(candidate.place) && fits(candidate));
    if (found) this.#used.add(found.place);
    return found;
  }

  #sessionOf(call: EffectCall): string | undefined {
    const known = this.#sessions.get(call.session);
    if (known !== undefined) return known;
    return this.#bind(call, (effect) => effect.session === call.session) ?? this.#bind(call, (effect) => effect.key === call.key);
  }

  #bind(call: EffectCall, fits: (effect: RecordedEffect) => boolean): string | undefined {
    const taken = new Set(this.#sessions.values());
    const found = this.#places.find(({ effect }) => effect.agent === call.agent && !taken.has(effect.session) && fits(effect));
    if (found) this.#sessions.set(call.session, found.effect.session);
    return found?.effect.session;
  }
}

interface RequestDifference {
  readonly path: string;
  /** Undefined where the side has no such member. */
  readonly recorded: unknown;
  readonly asked: unknown;
}

/** Where two requests differ, at most DIFFERENCES_MAX places. */
function differencesOf(recorded: unknown, asked: unknown, path = '', into: RequestDifference[] = []): RequestDifference[] {
  if (into.length >= DIFFERENCES_MAX || Object.is(recorded, asked)) return into;
  if (!isContainer(recorded) || !isContainer(asked) || Array.isArray(recorded) !== Array.isArray(asked)) {
    into.push({ path: path === '' ? '/' : path, recorded, asked });
    return into;
  }
  for (const name of new Set([...Object.keys(recorded), ...Object.keys(asked)]))
    differencesOf(recorded[name], asked[name], `${path}/${name}`, into);
  return into;
}

function isContainer(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

/** A value beside another one: of long texts the part where they part. */
function shown(value: unknown, other: unknown): string {
  if (value === undefined) return '(nothing)';
  const [text, against] = [JSON.stringify(value), JSON.stringify(other) ?? ''];
  if (text.length <= SHOWN_CHARS) return text;
  let at = 0;
  while (at < text.length && text[at] === against[at]) at += 1;
  const from = Math.max(0, at - SHOWN_BEFORE_CHARS);
  return `${from > 0 ? '…' : ''}${text.slice(from, from + SHOWN_CHARS)}${from + SHOWN_CHARS < text.length ? '…' : ''}`;
}
