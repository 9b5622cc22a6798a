import { type Entry, type IndexView, isBefore, placeOf, type Session } from './index-view.ts';

/** BM25: how soon more occurrences stop to matter, and how much length counts. */
const K1 = 0.9;
const B = 0.3;
/** Terms of a query that are looked up, the rarest first; a mask of them must fit into 31 bits. */
export const TERMS_LOOKED_UP_MAX = 24;
/** Memories that are scored in full: the best by their words … */
const BEST_BY_WORDS = 200;
/** … those around the first of them in their session … */
const AROUND = 2;
const WITH_NEIGHBOURS = 50;
/** … and all of the best sessions, unless a session is longer than anybody reads. */
const BEST_SESSIONS = 3;
const SESSION_ENTRIES_MAX = 200;
/** The room of a view is made for so many times what it needs. */
const ROOM_TO_GROW = 1.25;

export interface LookedUp {
  readonly term: string;
  /** Inverse document frequency among what the reader may see. */
  readonly idf: number;
  /** Its bit in masks of terms. */
  readonly bit: number;
}

/** Words of one memory against the query. */
export interface WordHit {
  /** BM25 */
  readonly bm: number;
  /** Terms it holds, as bits. */
  readonly mask: number;
}

export interface Candidate {
  readonly entry: Entry;
  readonly view: IndexView;
  /** Place by words alone; BEST_BY_WORDS for those that came otherwise. */
  readonly rank: number;
}

export interface Gathered {
  readonly candidates: readonly Candidate[];
  readonly bestBm: number;
  readonly bestSession: number;
  hitOf(view: IndexView, entry: Entry): WordHit;
  /** BM25 of a whole session. */
  sessionBm(view: IndexView, session: Session): number;
}

/** Undefined lets everything through, without a look at it. */
export type Admits = (entry: Entry) => boolean;

interface ViewHits {
  readonly view: IndexView;
  readonly bm: Float64Array;
  readonly mask: Uint32Array;
  readonly touched: number[];
  readonly sessions: Float64Array;
  readonly touchedSessions: number[];
}

export const NOT_HELD: WordHit = { bm: 0, mask: 0 };

/**
 * Look the terms up in every view, choose whom to score in full, and have it scored. What `admits` refuses counts for nothing.
 *
 * @param score  may use what it is given until it returns
 */
export function gather<T>(
  views: readonly IndexView[],
  terms: readonly LookedUp[],
  admits: Admits | undefined,
  score: (gathered: Gathered) => T,
): T {
  const totals = { size: 0, length: 0, sessions: 0 };
  for (const view of views) {
    totals.size += view.size;
    totals.length += view.length;
    totals.sessions += view.sessionCount;
  }
  const average = { memory: totals.length / Math.max(totals.size, 1), session: totals.length / Math.max(totals.sessions, 1) };
  const hits = views.map((view) => lookUp(view, terms, admits, average));
  const best = bestByWords(hits);
  const sessions = bestSessions(hits);
  const byView = new Map(hits.map((hit) => [hit.view, hit]));
  const gathered: Gathered = {
    candidates: withCompany(best, sessions, admits),
    bestBm: best[0] ? byView.get(best[0].view)!.bm[best[0].entry.slot]! : 0,
    bestSession: sessions[0]?.bm ?? 0,
    hitOf: (view, entry) => {
      const { bm, mask } = byView.get(view)!;
      return mask[entry.slot] === 0 ? NOT_HELD : { bm: bm[entry.slot]!, mask: mask[entry.slot]! };
    },
    sessionBm: (view, session) => byView.get(view)!.sessions[session.number]!,
  };
  try {
    return score(gathered);
  } finally {
    for (const hit of hits) clear(hit);
  }
}

function lookUp(
  view: IndexView,
  terms: readonly LookedUp[],
  admits: Admits | undefined,
  average: { memory: number; session: number },
): ViewHits {
  const { bm, mask, refused, sessions, inSession, refusedSlots } = scratchOf(view);
  const touched: number[] = [];
  const touchedSessions: number[] = [];
  const { lengths, sessionOf } = view;
  const base = K1 * (1 - B);
  const perTerm = { memory: (K1 * B) / average.memory, session: (K1 * B) / average.session };
  for (const { term, idf, bit } of terms) {
    const gain = idf * (K1 + 1);
    const held: number[] = [];
    for (const packed of view.posting(term)?.slots ?? []) {
      const slot = packed >>> 4;
      if (mask[slot] === 0) {
        if (refused[slot] === 1) continue;
        if (admits && !admits(view.entry(slot)!)) {
          refused[slot] = 1;
          refusedSlots.push(slot);
          continue;
        }
        touched.push(slot);
      }
      const occurrences = packed & 15;
      bm[slot]! += (gain * occurrences) / (occurrences + base + perTerm.memory * lengths[slot]!);
      mask[slot]! |= bit;
      const session = sessionOf[slot]!;
      if (session < 0) continue;
      if (inSession[session] === 0) held.push(session);
      inSession[session]! += occurrences;
    }
    for (const session of held) {
      const occurrences = inSession[session]!;
      inSession[session] = 0;
      if (sessions[session] === 0) touchedSessions.push(session);
      sessions[session]! += (gain * occurrences) / (occurrences + base + perTerm.session * view.session(session)!.length);
    }
  }
  return { view, bm, mask, touched, sessions, touchedSessions };
}

/** Zeroed room by slot, kept from one query to the next: making it anew would cost more than most queries. */
interface Scratch {
  readonly bm: Float64Array;
  readonly mask: Uint32Array;
  readonly refused: Uint8Array;
  readonly sessions: Float64Array;
  readonly inSession: Uint32Array;
  readonly refusedSlots: number[];
}

const scratches = new WeakMap<IndexView, Scratch>();

function scratchOf(view: IndexView): Scratch {
  const known = scratches.get(view);
  if (known && known.bm.length >= view.slots && known.sessions.length >= view.sessionSlots) return known;
  const [slots, sessions] = [Math.ceil(view.slots * ROOM_TO_GROW), Math.ceil(view.sessionSlots * ROOM_TO_GROW)];
  const made = {
    bm: new Float64Array(slots),
    mask: new Uint32Array(slots),
    refused: new Uint8Array(slots),
    sessions: new Float64Array(sessions),
    inSession: new Uint32Array(sessions),
    refusedSlots: [],
  };
  scratches.set(view, made);
  return made;
}

/** Zero what a query wrote. */
function clear({ view, touched, touchedSessions }: ViewHits): void {
  const { bm, mask, refused, sessions, refusedSlots } = scratchOf(view);
  for (const slot of touched) {
    bm[slot] = 0;
    mask[slot] = 0;
  }
  for (const slot of refusedSlots) refused[slot] = 0;
  for (const session of touchedSessions) sessions[session] = 0;
  refusedSlots.length = 0;
}

interface Ranked {
  readonly view: IndexView;
  readonly entry: Entry;
  readonly bm: number;
}

/** Best first: by words, then newest, then id. */
function bestByWords(hits: readonly ViewHits[]): Ranked[] {
  const least = leastOfBest(hits, BEST_BY_WORDS);
  const kept = hits.flatMap(({ view, bm, touched }) =>
    touched.filter((slot) => bm[slot]! >= least).map((slot) => ({ view, entry: view.entry(slot)!, bm: bm[slot]! })),
  );
  kept.sort((a, b) => b.bm - a.bm || (isBefore(b.entry, a.entry) ? -1 : 1));
  return kept.slice(0, BEST_BY_WORDS);
}

/** The score that the last of the `count` best has; 0 when there are fewer. A heap whose top is the least of the best so far. */
function leastOfBest(hits: readonly ViewHits[], count: number): number {
  const heap = new Float64Array(count);
  for (const { bm, touched } of hits) {
    for (const slot of touched) if (bm[slot]! > heap[0]!) sink(heap, bm[slot]!);
  }
  return heap[0]!;
}

/** Put a value in the place of the least one. */
function sink(heap: Float64Array, value: number): void {
  let place = 0;
  for (;;) {
    let child = 2 * place + 1;
    if (child + 1 < heap.length && heap[child + 1]! < heap[child]!) child += 1;
    if (child >= heap.length || heap[child]! >= value) break;
    heap[place] = heap[child]!;
    place = child;
  }
  heap[place] = value;
}

interface RankedSession {
  readonly view: IndexView;
  readonly session: Session;
  readonly bm: number;
}

/** The few best, best first; of equals, the one that ended last. */
function bestSessions(hits: readonly ViewHits[]): RankedSession[] {
  const best: RankedSession[] = [];
  for (const { view, sessions, touchedSessions } of hits) {
    for (const number of touchedSessions) {
      const found = { view, session: view.session(number)!, bm: sessions[number]! };
      if (best.length === BEST_SESSIONS && !isBetter(found, best[BEST_SESSIONS - 1]!)) continue;
      const place = best.findIndex((other) => isBetter(found, other));
      best.splice(place < 0 ? best.length : place, 0, found);
      best.length = Math.min(best.length, BEST_SESSIONS);
    }
  }
  return best;
}

function isBetter(a: RankedSession, b: RankedSession): boolean {
  if (a.bm !== b.bm) return a.bm > b.bm;
  return isBefore(b.session.entries[b.session.entries.length - 1]!, a.session.entries[a.session.entries.length - 1]!);
}

/** The best, those around them, and the best sessions. */
function withCompany(
  best: readonly Ranked[],
  sessions: readonly { view: IndexView; session: Session }[],
  admits: Admits | undefined,
): Candidate[] {
  const chosen = new Map<Entry, Candidate>();
  const join = (view: IndexView, entry: Entry): void => {
    if (!chosen.has(entry) && (admits?.(entry) ?? true)) chosen.set(entry, { entry, view, rank: BEST_BY_WORDS });
  };
  for (const [rank, { view, entry }] of best.entries()) chosen.set(entry, { entry, view, rank });
  for (const { view, entry } of best.slice(0, WITH_NEIGHBOURS)) for (const other of around(entry)) join(view, other);
  for (const { view, session } of sessions) {
    if (session.entries.length <= SESSION_ENTRIES_MAX) for (const entry of session.entries) join(view, entry);
  }
  return [...chosen.values()];
}

/** Up to AROUND memories before and after one in its session. */
function around(entry: Entry): Entry[] {
  const { session } = entry;
  if (!session) return [];
  const place = placeOf(session.entries, entry);
  return session.entries.slice(Math.max(0, place - AROUND), place + AROUND + 1);
}
