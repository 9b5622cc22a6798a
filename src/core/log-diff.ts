import type { Signal } from '../contract/signal.ts';

/** Differences named of one signal. */
export const SIGNAL_DIFFERENCES_MAX = 10;
/** Differences named of two states. */
export const STATE_DIFFERENCES_MAX = 100;
/** Longest value shown of a difference; unit: characters of JSON. */
const VALUE_CHARS_MAX = 1_000;

type DiffSignal = Pick<Signal, 'id' | 'seq' | 'name' | 'payload' | 'source'>;

export interface ValueDifference {
  /** Dotted path into the value. */
  readonly path: string;
  /** Undefined where the side has no such member. */
  readonly a?: unknown;
  readonly b?: unknown;
}

export interface SignalDifference {
  /** Null for the side whose log has ended. */
  readonly a: { readonly seq: number; readonly name: string } | null;
  readonly b: { readonly seq: number; readonly name: string } | null;
  readonly differences: ValueDifference[];
}

export interface SessionDiff {
  readonly equal: boolean;
  /** Signals found equal before the first difference. */
  readonly compared: number;
  readonly first: SignalDifference | null;
  readonly state: ValueDifference[];
}

export interface DiffSide {
  readonly session: string;
  readonly signals: Iterable<DiffSignal>;
  /** Folded state: any JSON value. */
  readonly state: unknown;
}

/**
 * Where two sessions part: the first signal that differs, then what is different in their states. Ids count by their order (two sessions
 * that name their prompts differently are equal, one that answers the wrong prompt is not); times, digests, numbers and facts about
 * processes (system signals) do not count, in texts of models and tools neither. Pure.
 */
export function diffSessions(a: DiffSide, b: DiffSide): SessionDiff {
  const comparison = createComparison([a.session], [b.session]);
  const left = ownSignals(a.signals);
  const right = ownSignals(b.signals);
  for (;;) {
    const [one, other] = [left.next(), right.next()];
    if (one.done && other.done) break;
    if (comparison.add(one.value ?? null, other.value ?? null)) break;
  }
  return comparison.finish(a.state, b.state);
}

function* ownSignals(signals: Iterable<DiffSignal>): Generator<DiffSignal, undefined> {
  for (const signal of signals) if (takesPart(signal)) yield signal;
}

/** Does the signal belong to the conduct of the session? What the supervisor notes of its processes does not. */
export function takesPart({ source }: Pick<DiffSignal, 'source'>): boolean {
  return source.kind !== 'system';
}

export interface Comparison {
  /** The next signal of each side, null behind the end of a log. True at the first difference: then `finish`. */
  add(a: DiffSignal | null, b: DiffSignal | null): boolean;
  finish(stateA: unknown, stateB: unknown): SessionDiff;
}

/**
 * The comparison a pair of signals at a time, for logs that are read in pages.
 *
 * @param sessionsA  the session and those it was forked from: their ids mean the same
 */
export function createComparison(sessionsA: readonly string[], sessionsB: readonly string[]): Comparison {
  const namesA = new Names(sessionsA);
  const namesB = new Names(sessionsB);
  let compared = 0;
  let first: SignalDifference | null = null;
  return {
    add(a, b) {
      const differences: ValueDifference[] = [];
      collect(a && conduct(a, namesA), b && conduct(b, namesB), '', differences, SIGNAL_DIFFERENCES_MAX);
      if (differences.length === 0) {
        compared += 1;
        return false;
      }
      first = { a: a && { seq: a.seq, name: a.name }, b: b && { seq: b.seq, name: b.name }, differences: a && b ? differences : [] };
      return true;
    },
    finish(stateA, stateB) {
      const state: ValueDifference[] = [];
      collect(namesA.own(stateA), namesB.own(stateB), '', state, STATE_DIFFERENCES_MAX);
      return { equal: first === null && state.length === 0, compared, first, state };
    },
  };
}

function conduct({ id, name, payload, source }: DiffSignal, names: Names): unknown {
  names.of(id);
  return {
    name,
    kind: source.kind,
    turn: source.turn,
    parent: source.parent === undefined ? undefined : names.of(source.parent),
    payload: names.own(without(payload, NOT_COMPARED[name])),
  };
}

function without(payload: Readonly<Record<string, unknown>>, member: string | undefined): Readonly<Record<string, unknown>> {
  if (member === undefined) return payload;
  const { [member]: _left, ...rest } = payload;
  return rest;
}

/** Members that count for nothing in one signal, but do in others: the digest of a state, the name a harness gave the session. */
const NOT_COMPARED: Readonly<Record<string, string>> = { 'session:transition': 'state', 'session:created': 'key' };

/** Members of our own records that say when, how long, how often written, or by which process; and digests, which follow from the rest. */
export const IGNORED: ReadonlySet<string> = new Set(
  (
    'at seq timestamp createdAt updatedAt startedAt endedAt requestedAt receivedAt deadlineAt expiresAt dueAt researchAt idleSince ms delayMs ' +
    'durationMs dwellMs firstTokenMs tookMs jitter epoch pid digest bodyDigest inputDigest'
  ).split(' '),
);
/** Members that hold what models, tools and clients said: none of their members mean anything to us. */
export const FOREIGN: ReadonlySet<string> = new Set(['input', 'output', 'metadata', 'outputSchema', 'attachments']);
/** Members that hold an id, whoever made it. Keys of effects (`t1.r1.c0`) are the same in every session that does the same. */
const ID_MEMBER = /^(?:id|session|sessionKey|promptIds|memoryIds|resumedFrom|\w+Id)$/;
/** Ids as this program makes them, and moments, anywhere in a text. */
const IN_TEXT =
  /\b[a-z]{2,5}_[a-z2-7]{20}(?:_\d+)?\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?:\b[A-Z][a-z]+day )?\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z| ?[+-]\d\d:\d\d)?/g;
const MOMENT = /\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;

/** Ids of one side by the order in which they first come up. */
class Names {
  readonly #names = new Map<string, string>();
  #count = 0;

  constructor(sessions: readonly string[]) {
    for (const session of sessions) this.#names.set(session, '<session>');
  }

  of(id: string): string {
    const known = this.#names.get(id);
    if (known) return known;
    this.#count += 1;
    const name = `<id ${this.#count}>`;
    this.#names.set(id, name);
    return name;
  }

  /** A record of ours, without what does not count. */
  own(value: unknown, member = ''): unknown {
    if (typeof value === 'string') return ID_MEMBER.test(member) ? this.of(value) : this.#text(value);
    if (Array.isArray(value)) return value.map((item) => this.own(item, member));
    if (typeof value !== 'object' || value === null) return value;
    return this.#members(value, (inner, name) => (FOREIGN.has(name) ? this.#foreign(inner) : this.own(inner, name)), IGNORED);
  }

  #foreign(value: unknown): unknown {
    if (typeof value === 'string') return this.#text(value);
    if (Array.isArray(value)) return value.map((item) => this.#foreign(item));
    return typeof value === 'object' && value !== null ? this.#members(value, (inner) => this.#foreign(inner)) : value;
  }

  /** In the order of their names, so that the order of members does not change which id is first. */
  #members(value: object, convert: (inner: unknown, name: string) => unknown, without?: ReadonlySet<string>): unknown {
    const names = Object.keys(value).sort();
    return Object.fromEntries(
      names.filter((name) => !without?.has(name)).map((name) => [name, convert((value as Record<string, unknown>)[name], name)]),
    );
  }

  #text(text: string): string {
    if (this.#names.has(text)) return this.of(text);
    return text.replace(IN_TEXT, (found) => (MOMENT.test(found) ? '<time>' : this.of(found)));
  }
}

function collect(a: unknown, b: unknown, path: string, into: ValueDifference[], max: number): void {
  if (into.length >= max || Object.is(a, b)) return;
  const isRecord = (value: unknown) => typeof value === 'object' && value !== null;
  if (!isRecord(a) || !isRecord(b) || Array.isArray(a) !== Array.isArray(b)) {
    into.push({ path, a: shown(a), b: shown(b) });
    return;
  }
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  for (const name of new Set([...Object.keys(left), ...Object.keys(right)]))
    collect(left[name], right[name], path === '' ? name : `${path}.${name}`, into, max);
}

function shown(value: unknown): unknown {
  const text = JSON.stringify(value);
  return text === undefined || text.length <= VALUE_CHARS_MAX ? value : `${text.slice(0, VALUE_CHARS_MAX - 1)}…`;
}
