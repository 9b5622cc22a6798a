import { frameOf } from './frame.ts';
import { HAS_NUMBER, HAS_TIME, IndexColumns, NONE, OF_AUTHOR } from './index-columns.ts';
import { mentionsNumber, mentionsTime } from './time-words.ts';
import { tellsSomething, wordsIn } from './words.ts';

/** Occurrences of a term in one memory that are counted; more of them change nothing. */
const OCCURRENCES_MAX = 15;
/** Told by the user of himself, or by somebody else of the user. */
const OF_USER = /\b(?:i|my|me|mine|(?:the )?user(?:['’]s)?)\b/i;
/** Memories of one frame that are kept in mind; a form filled in more often is no changing value. */
const FRAME_ENTRIES_MAX = 16;

/** Terms that share so many letters at their beginning may be forms of one word. */
const BEGINNING_CHARS = 4;
/** Terms by which memories on the same subject are looked up, the rarest; … */
const SHARED_TERMS_MAX = 8;
/** … memories looked at for each of them, … */
const SHARED_SLOTS_MAX = 256;
/** … and those of them that are read. */
const SHARING_MAX = 8;

/** What the index must know of a memory; the text itself stays in the store. */
export interface IndexedMemory {
  /** Its row in the store. */
  readonly seq: number;
  readonly id: string;
  readonly content: string;
  readonly who: string;
  readonly type: string;
  readonly agentId: string;
  readonly scope: string;
  readonly sourceType: string;
  readonly project: string | null;
  /** `a,b` */
  readonly tags: string | null;
  readonly pinned: boolean;
  readonly importance: number;
  readonly sessionKey: string | null;
  readonly supersededBy: string | null;
  readonly createdAtMs: number;
}

/** What is known of a memory that is about to be written. */
export type Newcomer = Pick<IndexedMemory, 'content' | 'who' | 'agentId' | 'project' | 'sessionKey' | 'createdAtMs'> & {
  /** Its writer may change nothing outside of this project. */
  readonly withinProject?: string | undefined;
};

/** A term and the memories that hold it: `slot * 16 + occurrences`, ascending. */
export interface Posting {
  readonly term: string;
  slots: number[];
}

export interface Entry extends Omit<IndexedMemory, 'content'> {
  readonly slot: number;
  /** Terms of `who: content` in reading order, common words left out; the content begins at `bodyFrom`. */
  readonly terms: readonly Posting[];
  readonly bodyFrom: number;
  readonly words: number;
  /** Who wrote it, in lower case. */
  readonly author: string;
  readonly hasTime: boolean;
  readonly hasNumber: boolean;
  /** It speaks of whoever wrote it, or of the user. */
  readonly ofAuthor: boolean;
  /** See frame.ts. */
  readonly frame: string;
  readonly changes: boolean;
  readonly states: boolean;
  readonly session: Session | undefined;
}

/** Memories of one session of one agent, oldest first. */
export interface Session {
  readonly number: number;
  readonly entries: Entry[];
}

/**
 * The memories of one view (global, or private ones of one agent) as an inverted index. All counts are of this view alone,
 * so that what somebody may not see cannot move a score.
 */
export class IndexView {
  readonly #postings = new Map<string, Posting>();
  /** Terms by their first letters. */
  readonly #beginnings = new Map<string, Set<string>>();
  readonly #sessions = new Map<string, Session>();
  readonly #sessionSlots: (Session | undefined)[] = [];
  readonly #freeSessions: number[] = [];
  readonly #authors = new Map<string, Author>();
  /** How many memories each project has. */
  readonly #projects = new Map<string | null, number>();
  /** Memories by their frame; those without one are not here. */
  readonly #frames = new Map<string, Entry[]>();
  /** Rules, preferences and pinned memories. */
  readonly #standing = new Set<Entry>();
  readonly #entries: (Entry | undefined)[] = [];
  readonly #free: number[] = [];
  readonly columns = new IndexColumns();
  #size = 0;
  #length = 0;
  #authorsEver = 0;

  /** Memories. */
  get size(): number {
    return this.#size;
  }

  /** Memories of a project; of none with null. */
  sizeOf(project: string | null): number {
    return this.#projects.get(project) ?? 0;
  }

  /** Terms of all memories together. */
  get length(): number {
    return this.#length;
  }

  /** Slots ever used: an upper bound for arrays by slot. */
  get slots(): number {
    return this.#entries.length;
  }

  get sessionCount(): number {
    return this.#sessions.size;
  }

  get sessionSlots(): number {
    return this.#sessionSlots.length;
  }

  /** Rules, preferences and pinned memories, in no order. */
  get standing(): ReadonlySet<Entry> {
    return this.#standing;
  }

  entry(slot: number): Entry | undefined {
    return this.#entries[slot];
  }

  session(number: number): Session | undefined {
    return this.#sessionSlots[number];
  }

  posting(term: string): Posting | undefined {
    return this.#postings.get(term);
  }

  /** How many memories hold a term, among those that `admits` lets through; of a common term, judged by some of them. */
  documents(term: string, admits: ((entry: Entry) => boolean) | undefined, looksMax: number): number {
    const slots = this.#postings.get(term)?.slots;
    if (!slots) return 0;
    if (admits === undefined) return slots.length;
    const step = Math.max(1, slots.length / looksMax);
    let looked = 0;
    let admitted = 0;
    for (let place = 0; place < slots.length; place += step) {
      looked += 1;
      if (admits(this.#entries[slots[Math.floor(place)]! >>> 4]!)) admitted += 1;
    }
    return step === 1 ? admitted : Math.round((admitted * slots.length) / looked);
  }

  /** Terms that begin like this one: one of the two is the beginning of the other. */
  beginningLike(term: string): string[] {
    if (term.length < BEGINNING_CHARS) return [];
    const alike = this.#beginnings.get(term.slice(0, BEGINNING_CHARS));
    if (!alike) return [];
    return [...alike].filter((other) => other !== term && (other.startsWith(term) || (other.length > 4 && term.startsWith(other))));
  }

  /** The number of an author, by the name in lower case; NONE when nobody of this name has written a memory. */
  authorNumber(name: string): number {
    return this.#authors.get(name)?.number ?? NONE;
  }

  add(memory: IndexedMemory): Entry {
    const slot = this.#free.pop() ?? this.#entries.length;
    const { content, ...kept } = memory;
    const body = bodyOf(memory);
    const author = wordsIn(memory.who).filter(tellsSomething);
    const words = wordsIn(body);
    const terms = [...author, ...words.filter(tellsSomething)].map((word) => this.#posting(word.stem));
    const session = this.#sessionOf(memory);
    const frame = frameOf(body);
    const entry: Entry = {
      ...kept,
      slot,
      terms,
      bodyFrom: author.length,
      words: words.length,
      author: memory.who.toLowerCase(),
      hasTime: mentionsTime(content),
      hasNumber: mentionsNumber(content),
      ofAuthor: OF_USER.test(body) || words.some((word) => author.some((name) => name.stem === word.stem)),
      frame: frame.text,
      changes: frame.changes,
      states: frame.state,
      session,
    };
    this.#entries[slot] = entry;
    this.#count(entry, 1);
    for (const [posting, occurrences] of countsOf(terms)) insert(posting, slot * 16 + Math.min(occurrences, OCCURRENCES_MAX));
    this.#fillColumns(entry);
    this.#noteFrame(entry);
    if (isStanding(entry)) this.#standing.add(entry);
    return entry;
  }

  /** Also gives it its place in its session. */
  #fillColumns(entry: Entry): void {
    const { columns } = this;
    const { slot, session } = entry;
    columns.reserve(slot);
    columns.lengths[slot] = entry.terms.length;
    columns.words[slot] = entry.words;
    columns.createdAtMs[slot] = entry.createdAtMs;
    columns.authors[slot] = this.authorNumber(entry.author);
    columns.signs[slot] = (entry.hasTime ? HAS_TIME : 0) | (entry.hasNumber ? HAS_NUMBER : 0) | (entry.ofAuthor ? OF_AUTHOR : 0);
    columns.sessionOf[slot] = session?.number ?? NONE;
    const place = session ? insertByTime(session.entries, entry) : 0;
    columns.link(slot, session?.entries[place - 1]?.slot ?? NONE, session?.entries[place + 1]?.slot ?? NONE);
  }

  remove(entry: Entry): void {
    for (const posting of new Set(entry.terms)) {
      posting.slots.splice(lowerBound(posting.slots, entry.slot * 16), 1);
      if (posting.slots.length > 0) continue;
      this.#postings.delete(posting.term);
      this.#beginnings.get(posting.term.slice(0, BEGINNING_CHARS))?.delete(posting.term);
    }
    this.#count(entry, -1);
    this.#forgetFrame(entry);
    this.#standing.delete(entry);
    this.#entries[entry.slot] = undefined;
    this.#free.push(entry.slot);
    this.columns.unlink(entry.slot);
    const { session } = entry;
    if (!session) return;
    session.entries.splice(placeOf(session.entries, entry), 1);
    if (session.entries.length > 0) return;
    this.#sessions.delete(sessionName(entry)!);
    this.#sessionSlots[session.number] = undefined;
    this.#freeSessions.push(session.number);
  }

  /** The newest memory of the same agent and project that says how things were where a new one says how they are. */
  predecessor(memory: Newcomer): Entry | undefined {
    const { text, changes, state } = frameOf(bodyOf(memory));
    if (text === '' || !(changes || state)) return undefined;
    const { agentId, project, createdAtMs } = memory;
    const older = (this.#frames.get(text) ?? []).filter(
      (entry) => entry.states && entry.agentId === agentId && entry.project === project && entry.createdAtMs < createdAtMs,
    );
    return older.reduce<Entry | undefined>((newest, entry) => (newest && isBefore(entry, newest) ? newest : entry), undefined);
  }

  /**
   * Older memories of the same agent and around the same project that hold the most, and the rarest, of these terms: best first, then newest.
   * Of a common term only the memories stored last are looked at, so that the work does not grow with the view.
   */
  sharing(stems: readonly string[], memory: Newcomer): Entry[] {
    const postings = stems.flatMap((stem) => this.#postings.get(stem) ?? []).sort((a, b) => a.slots.length - b.slots.length);
    const weights = new Map<number, number>();
    for (const { slots } of postings.slice(0, SHARED_TERMS_MAX)) {
      const weight = Math.log(1 + this.#size / slots.length);
      for (let at = Math.max(0, slots.length - SHARED_SLOTS_MAX); at < slots.length; at += 1) {
        const slot = Math.floor(slots[at]! / 16);
        weights.set(slot, (weights.get(slot) ?? 0) + weight);
      }
    }
    const found = [...weights]
      .map(([slot, weight]) => ({ entry: this.#entries[slot]!, weight }))
      .filter(({ entry }) => mayBeReplaced(entry, memory));
    found.sort((a, b) => b.weight - a.weight || (isBefore(b.entry, a.entry) ? -1 : 1));
    return found.slice(0, SHARING_MAX).map(({ entry }) => entry);
  }

  /** The memory of the same session right before a new one. */
  before(memory: Newcomer): Entry | undefined {
    const session = this.#sessions.get(sessionName(memory) ?? '');
    return session?.entries.findLast((entry) => entry.createdAtMs <= memory.createdAtMs && mayBeReplaced(entry, memory));
  }

  #noteFrame(entry: Entry): void {
    if (entry.frame === '') return;
    const known = this.#frames.get(entry.frame);
    if (!known) this.#frames.set(entry.frame, [entry]);
    else if (known.length < FRAME_ENTRIES_MAX) known.push(entry);
  }

  #forgetFrame(entry: Entry): void {
    const left = (this.#frames.get(entry.frame) ?? []).filter((other) => other !== entry);
    if (left.length === 0) this.#frames.delete(entry.frame);
    else this.#frames.set(entry.frame, left);
  }

  #count(entry: Entry, by: 1 | -1): void {
    this.#size += by;
    const inProject = this.sizeOf(entry.project) + by;
    if (inProject === 0) this.#projects.delete(entry.project);
    else this.#projects.set(entry.project, inProject);
    this.#length += by * entry.terms.length;
    if (entry.session) this.columns.sessionLengths[entry.session.number]! += by * entry.terms.length;
    let author = this.#authors.get(entry.author);
    if (!author) {
      author = { number: this.#authorsEver, memories: 0 };
      this.#authorsEver += 1;
      this.#authors.set(entry.author, author);
    }
    author.memories += by;
    if (author.memories === 0) this.#authors.delete(entry.author);
  }

  #posting(term: string): Posting {
    let posting = this.#postings.get(term);
    if (!posting) {
      posting = { term, slots: [] };
      this.#postings.set(term, posting);
      this.#noteBeginning(term);
    }
    return posting;
  }

  #noteBeginning(term: string): void {
    if (term.length < BEGINNING_CHARS || !/^[a-z]+$/.test(term)) return;
    const beginning = term.slice(0, BEGINNING_CHARS);
    const alike = this.#beginnings.get(beginning);
    if (alike) alike.add(term);
    else this.#beginnings.set(beginning, new Set([term]));
  }

  #sessionOf(memory: IndexedMemory): Session | undefined {
    const name = sessionName(memory);
    if (name === undefined) return undefined;
    let session = this.#sessions.get(name);
    if (!session) {
      session = { number: this.#freeSessions.pop() ?? this.#sessionSlots.length, entries: [] };
      this.columns.reserveSession(session.number);
      this.#sessions.set(name, session);
      this.#sessionSlots[session.number] = session;
    }
    return session;
  }
}

/** Types of what holds until it is changed, and is to be known before it is asked for. */
const STANDING_TYPES: ReadonlySet<string> = new Set(['rule', 'preference']);

function isStanding({ type, pinned }: Entry): boolean {
  return pinned || STANDING_TYPES.has(type);
}

interface Author {
  readonly number: number;
  memories: number;
}

/** Older, of the same agent, not replaced yet, and of the same project or of none. */
function mayBeReplaced(entry: Entry, { agentId, project, withinProject, createdAtMs }: Newcomer): boolean {
  const isNear = entry.project === project || (withinProject === undefined && (entry.project === null || project === null));
  return isNear && entry.agentId === agentId && entry.supersededBy === null && entry.createdAtMs <= createdAtMs;
}

/** The content without the author that some put before it. */
function bodyOf({ who, content }: Pick<IndexedMemory, 'who' | 'content'>): string {
  return content.startsWith(`${who}:`) ? content.slice(who.length + 1) : content;
}

/** The same key of two agents is two sessions. */
function sessionName({ agentId, sessionKey }: Pick<IndexedMemory, 'agentId' | 'sessionKey'>): string | undefined {
  return sessionKey === null ? undefined : `${agentId}\0${sessionKey}`;
}

function countsOf(terms: readonly Posting[]): Map<Posting, number> {
  const counts = new Map<Posting, number>();
  for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
  return counts;
}

/** Where the first value of at least `least` stands. */
function lowerBound(sorted: readonly number[], least: number): number {
  let from = 0;
  let to = sorted.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle]! < least) from = middle + 1;
    else to = middle;
  }
  return from;
}

function insert(posting: Posting, value: number): void {
  const { slots } = posting;
  // Most terms stand in one memory: an array made with its first value has no room to spare.
  if (slots.length === 0) posting.slots = [value];
  else if (slots[slots.length - 1]! < value) slots.push(value);
  else slots.splice(lowerBound(slots, value), 0, value);
}

/** Older first; of the same moment, by id. */
export function isBefore(a: Pick<Entry, 'createdAtMs' | 'id'>, b: Pick<Entry, 'createdAtMs' | 'id'>): boolean {
  return a.createdAtMs < b.createdAtMs || (a.createdAtMs === b.createdAtMs && a.id < b.id);
}

/** Where it stands then. */
function insertByTime(entries: Entry[], entry: Entry): number {
  const place = placeOf(entries, entry);
  entries.splice(place, 0, entry);
  return place;
}

/** Where an entry stands, or would stand, among entries in order of time. */
function placeOf(entries: readonly Entry[], entry: Entry): number {
  let from = 0;
  let to = entries.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (isBefore(entries[middle]!, entry)) from = middle + 1;
    else to = middle;
  }
  return from;
}
