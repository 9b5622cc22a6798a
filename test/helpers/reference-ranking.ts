import type { IndexedMemory } from '../../src/core/recall/index-view.ts';
import { readQuery } from '../../src/core/recall/query.ts';
import { askedDates, asksHowMany, asksWhen, dateMatch, mentionsNumber, mentionsTime } from '../../src/core/recall/time-words.ts';
import { tellsSomething, wordsIn } from '../../src/core/recall/words.ts';

/** A memory of a view, read word by word. */
interface Read {
  readonly memory: IndexedMemory;
  readonly view: string;
  readonly session: string | undefined;
  readonly terms: readonly string[];
  readonly words: number;
  /** It speaks of its author or of the user. */
  readonly ofAuthor: boolean;
}

/** A term that is looked up, what it weighs, and the terms that it stands in for or behind. */
interface Looked {
  readonly stem: string;
  readonly mass: number;
  readonly before: readonly string[];
}

export interface ReferenceHit {
  readonly id: string;
  readonly relevance: number;
  readonly coverage: number;
  readonly around: number;
}

/**
 * The order of recall, written down as plainly as can be: every memory is looked at for every query, and nothing is kept between them.
 * What the index answers must be this, to the last bit.
 */
// long: the whole order stands in one place, to be read from top to bottom
export function rankByReading(
  memories: readonly { readonly view: string; readonly memory: IndexedMemory }[],
  views: readonly string[],
  text: string,
): ReferenceHit[] {
  const asked = readQuery(text);
  const all = memories.filter(({ view }) => views.includes(view)).map(({ view, memory }) => read(view, memory));
  const held = (one: Read, term: string): number => Math.min(15, one.terms.filter((other) => other === term).length);
  const documentsOf = (stem: string): number => all.filter((one) => one.terms.includes(stem)).length;
  const idf = (documents: number): number => Math.log(1 + (Math.max(all.length, documents, 100) - documents + 0.5) / (documents + 0.5));
  const words = asked.terms
    .map((term) => ({ ...term, documents: documentsOf(term.stem), looked: [] as Looked[] }))
    .filter(({ whole, documents }) => documents > 0 || !whole)
    .sort((a, b) => a.documents - b.documents)
    .map((word) => ({ ...word, mass: word.weight * idf(Math.max(1, word.documents)) }));
  const looked: Looked[] = [];
  const look = (word: (typeof words)[number], stem: string, mass: number): void => {
    if (looked.length === 31) return;
    looked.push({ stem, mass, before: word.looked.map((other) => other.stem) });
    word.looked.push(looked.at(-1)!);
  };
  for (const word of words.slice(0, 20)) if (word.documents > 0) look(word, word.stem, word.mass);
  for (const word of words.filter(({ documents }) => documents <= 10)) {
    const alike = word.documents === 0 && !word.whole ? views.flatMap((view) => beginningLike(all, view, word.stem)) : [];
    for (const other of new Set([...alike, ...word.related])) {
      const documents = asked.terms.some(({ stem }) => stem === other) ? 0 : documentsOf(other);
      if (documents > 0) look(word, other, 0.75 * Math.min(word.mass, word.weight * idf(documents)));
    }
  }
  const weight = words.reduce((sum, { mass }) => sum + mass, 0);
  const sessions = Map.groupBy(all.filter(({ session }) => session !== undefined).sort(older), ({ view, session }) => `${view} ${session}`);
  const length = all.reduce((sum, one) => sum + one.terms.length, 0);
  const bm = (occurrencesOf: (term: string, before: readonly string[]) => number, terms: number, average: number): number =>
    looked.reduce((sum, { stem, mass, before }) => {
      const occurrences = occurrencesOf(stem, before);
      return occurrences === 0
        ? sum
        : sum + (mass * (1.2 + 1) * occurrences) / (occurrences + 1.2 * (1 - 0.75) + ((1.2 * 0.75) / average) * terms);
    }, 0);
  /** A word that stands in for another counts where the other is not held. */
  const heldAlone = (one: Read, stem: string, before: readonly string[]): number =>
    before.some((other) => one.terms.includes(other)) ? 0 : held(one, stem);
  const bmOf = new Map(
    all.map((one) => [one, bm((term, before) => heldAlone(one, term, before), one.terms.length, length / Math.max(all.length, 1))]),
  );
  const bmOfSession = new Map(
    [...sessions.values()].map((entries) => {
      const terms = entries.reduce((sum, one) => sum + one.terms.length, 0);
      return [
        entries,
        bm(
          (term, before) => entries.reduce((sum, one) => sum + heldAlone(one, term, before), 0),
          terms,
          length / Math.max(sessions.size, 1),
        ),
      ];
    }),
  );
  const best = all
    .filter((one) => bmOf.get(one)! > 0)
    .sort((a, b) => bmOf.get(b)! - bmOf.get(a)! || older(b, a))
    .slice(0, 200);
  const bestSessions = [...sessions.values()]
    .filter((entries) => bmOfSession.get(entries)! > 0)
    .sort((a, b) => bmOfSession.get(b)! - bmOfSession.get(a)! || older(b.at(-1)!, a.at(-1)!))
    .slice(0, 3);
  const sessionOf = (one: Read): Read[] => sessions.get(`${one.view} ${one.session}`) ?? [];
  const near = (one: Read, step: number): Read | undefined => sessionOf(one)[sessionOf(one).indexOf(one) + step];
  const neighbours = best.slice(0, 50).flatMap((one) => [-2, -1, 1, 2].flatMap((step) => near(one, step) ?? []));
  const candidates = new Set([...best, ...neighbours, ...bestSessions.filter((entries) => entries.length <= 200).flat()]);
  const bestBm = best[0] ? bmOf.get(best[0])! : 0;
  const bestSession = bestSessions[0] ? bmOfSession.get(bestSessions[0])! : 0;
  const authors = [...asked.words].filter((word) => all.some((one) => one.memory.who.toLowerCase() === word));
  const mass = (of: readonly (Read | undefined)[]): number => {
    const holds = (term: string): boolean => of.some((one) => one?.terms.includes(term));
    const best = looked.filter(({ stem, before }) => holds(stem) && !before.some(holds));
    return weight === 0 ? 0 : best.reduce((sum, { mass }) => sum + mass, 0) / weight;
  };
  const share = (one: Read | undefined): number => (one ? bmOf.get(one)! : 0) / bestBm;

  const score = (one: Read): ReferenceHit => {
    const { memory } = one;
    const count = looked.filter(({ stem, before }) => heldAlone(one, stem, before) > 0).length;
    const around = mass([near(one, -2), near(one, -1), one, near(one, 1), near(one, 2)]);
    const pairs = one.terms.filter((term, place) => place > 0 && asked.pairs.get(one.terms[place - 1]!)?.has(term)).length;
    const rank = best.includes(one) ? best.indexOf(one) : 200;
    const signs = [
      share(one),
      0.75 * share(one.session === undefined ? undefined : near(one, -1)),
      0.75 * share(one.session === undefined ? undefined : near(one, -2)),
      0.5 * share(one.session === undefined ? undefined : near(one, 1)),
      1.25 * (one.session === undefined ? share(one) : bmOfSession.get(sessionOf(one))! / (bestSession || 1)),
      2 * around,
      1.5 * (count / Math.max(1, asked.terms.length)),
      0.3 * (authors.length !== 1 ? 0 : memory.who.toLowerCase() === authors[0] ? 1 : -1),
      asked.aboutMe && one.ofAuthor ? 1.75 : 0,
      0.75 * Math.min(1, one.words / 10),
      asksWhen(text) && mentionsTime(memory.content) ? 1 : 0,
      asksHowMany(text) && mentionsNumber(memory.content) ? 1.25 : 0,
      2.5 * dateMatch(askedDates(text), memory.createdAtMs),
      1.75 * (1 / (5 + rank)),
      0.4 * (count < 2 ? 0 : Math.min(2, pairs)),
    ];
    return { id: memory.id, relevance: signs.reduce((sum, sign) => sum + sign, 0), coverage: mass([one]), around };
  };
  const byRead = new Map([...candidates].map((one) => [one, score(one)]));
  return [...byRead].sort(([a, first], [b, second]) => second.relevance - first.relevance || older(b, a)).map(([, hit]) => hit);
}

function read(view: string, memory: IndexedMemory): Read {
  const { who, content, agentId, sessionKey } = memory;
  const body = content.startsWith(`${who}:`) ? content.slice(who.length + 1) : content;
  const words = wordsIn(body);
  const terms = [...wordsIn(who), ...words].filter(tellsSomething).map((word) => word.stem);
  const ofAuthor =
    /\b(?:i|my|me|mine|(?:the )?user(?:['’]s)?)\b/i.test(body) ||
    words.some(({ stem }) => terms.slice(0, wordsIn(who).filter(tellsSomething).length).includes(stem));
  return { memory, view, session: sessionKey === null ? undefined : `${agentId} ${sessionKey}`, terms, words: words.length, ofAuthor };
}

/** Terms of a view that begin with this one, or are its beginning. */
function beginningLike(all: readonly Read[], view: string, stem: string): string[] {
  if (stem.length < 4) return [];
  const terms = new Set(all.filter((one) => one.view === view).flatMap((one) => one.terms));
  return [...terms].filter(
    (term) => /^[a-z]{4,}$/.test(term) && term !== stem && (term.startsWith(stem) || (term.length > 4 && stem.startsWith(term))),
  );
}

/** Negative when the first is the older; of the same moment, by id. */
function older(a: Read, b: Read): number {
  return a.memory.createdAtMs - b.memory.createdAtMs || (a.memory.id < b.memory.id ? -1 : 1);
}
