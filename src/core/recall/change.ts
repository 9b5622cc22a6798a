import { attributeOf, relationsIn, stemsOfRelation } from './attributes.ts';
import {
  ADDITION,
  AFTER_TRIGGER,
  ANAPHORA,
  BECOMES,
  BEHIND_OLD,
  CUE_VERBS,
  CUE_WORDS,
  GENERIC_OLD,
  NEGATED,
  OPPOSITES,
  RENAMED,
  REPLACEMENT,
} from './change-words.ts';
import { CHANGE_STEMS, type Clause, clausesIn, NEUTRAL } from './clauses.ts';
import { tellsSomething, wordsIn } from './words.ts';

/** A longer text is a summary or a chat, not a memory that replaces another one; unit: characters. */
const CHANGE_CHARS_MAX = 400;
/** Least certainty from which the older memory is linked to the newer. */
const CERTAIN_MIN = 2;

/** A memory that may say that another one does not hold any more. */
export interface Change {
  readonly clauses: readonly Clause[];
  readonly stems: ReadonlySet<string>;
  readonly relations: ReadonlySet<string>;
  /** A word of change is in it. */
  readonly hasCue: boolean;
  /** The word is a verb such as `switch`. */
  readonly isTransition: boolean;
  /** One of the past values is a number: what has another number is about something else. */
  readonly namesOldNumber: boolean;
  readonly isRenamed: boolean;
  /** Stems of what it changes to. */
  readonly become: ReadonlySet<string>;
  readonly adds: boolean;
  readonly isNegated: boolean;
  /** Stems of each value it says to be past. */
  readonly old: readonly (readonly string[])[];
  /** It speaks of what was said right before, in the same session. */
  readonly pointsBack: boolean;
}

/** Talk rather than a note: greetings, questions, exclamations. */
const TALK =
  /^\W*(?:hey|hi|hello|thanks|thank you|wow|that['’]?s (?:great|awesome|so|really)|yeah|yes|sure|totally|absolutely|glad|nice|cool|awesome|congrat\w*|aww|haha|lol|great|good (?:to|luck|morning))\b|\?|!\s*\S/i;
/** A shorter text may give a new value without any word of change; unit: characters. */
const RESTATEMENT_CHARS_MAX = 160;
const RESTATES =
  /\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:owns?|leads?|heads?|runs|manages|maintains|responsible|in charge|on[- ]call|captain|never|always|not|no|enabled|disabled|allowed|forbidden|required|optional|open|closed|public|private|active|inactive)\b|n['’]t\b/i;

/** Sorts out, cheaply, most texts that say nothing about older memories. */
export function mayChange(content: string): boolean {
  if (content.length > CHANGE_CHARS_MAX || TALK.test(content)) return false;
  return (content.length <= RESTATEMENT_CHARS_MAX && RESTATES.test(content)) || CUE_WORDS.test(content) || CUE_VERBS.test(content);
}

/** Reads a text as a change, where `mayChange` says that it may be one. */
export function changeIn(content: string): Change {
  const clauses = clausesIn(content);
  const isTransition = CUE_VERBS.test(content);
  const hasCue = isTransition || CUE_WORDS.test(content);
  return {
    clauses,
    stems: new Set(clauses.flatMap(({ stems }) => [...stems])),
    relations: relationsIn(content),
    hasCue,
    isTransition,
    namesOldNumber: /\b(?:from|instead of|rather than|not) \S*\d/i.test(content),
    isRenamed: RENAMED.test(content),
    become: valuesAfter(content),
    adds: ADDITION.test(content) && !REPLACEMENT.test(content),
    isNegated: NEGATED.test(content),
    old: hasCue || NEGATED.test(content) ? oldValuesIn(content) : [],
    pointsBack: ANAPHORA.test(content),
  };
}

/** Stems by which memories that it may speak of are looked up, those of relations last. */
export function subjectStems({ clauses, relations }: Change): string[] {
  const told = clauses.flatMap(({ content }) => [...content]).filter((stem) => !CHANGE_STEMS.has(stem));
  return [...new Set([...told, ...[...relations].flatMap(stemsOfRelation)])];
}

/**
 * Judges whether a newer text says that an older one does not hold any more, in whole or in part: the same subject, and a value that it names
 * as past, another value of the same kind, or another holder of the same duty. Two texts that each speak of something that the other one does
 * not mention are about different things.
 *
 * @returns 0 for no; else the more, the surer
 */
export function certaintyOf(change: Change, older: string): number {
  if (older.length > CHANGE_CHARS_MAX || TALK.test(older)) return 0;
  const olderClauses = clausesIn(older);
  const olderStems = new Set(olderClauses.flatMap(({ stems }) => [...stems]));
  let best = 0;
  for (const held of olderClauses) {
    if (held.isReason) continue;
    best = Math.max(best, byOldValue(change, held));
    if (change.adds) continue;
    for (const told of change.clauses) {
      if (told.isReason) continue;
      best = Math.max(best, byValue(change, told, { held, olderStems, isNegated: NEGATED.test(older) }));
    }
  }
  return best < CERTAIN_MIN ? 0 : best;
}

/** It names the older value: `from Leipzig`, `instead of npm`, `Jenkins is gone`. */
function byOldValue(change: Change, held: Clause): number {
  const content = new Set(change.clauses.flatMap((clause) => [...clause.content]));
  if (change.old.length === 0) return 0;
  const pastBefore = NEGATED.test(held.text) ? oldValuesIn(held.text) : [];
  for (const old of change.old) {
    if (!old.every((stem) => held.stems.has(stem)) || pastBefore.some((past) => past.every((stem) => old.includes(stem)))) continue;
    const others = [...content].filter((stem) => !old.includes(stem) && isSubject(stem));
    const shared = others.filter((stem) => held.content.has(stem));
    const relation = sharesRelation(change, held);
    if (shared.length > 0) return 3 + shared.length;
    if (old.length >= 2 && old.some((stem) => /^\D+$/.test(stem) && isSubject(stem))) return 2.5;
    if (relation && !hasOtherNames(change, held, old)) return 2.5;
  }
  return 0;
}

interface Held {
  readonly held: Clause;
  readonly olderStems: ReadonlySet<string>;
  readonly isNegated: boolean;
}

function byValue(change: Change, told: Clause, { held, olderStems, isNegated }: Held): number {
  const newStems = [...told.content].filter(isSubject);
  const heldStems = [...held.content].filter(isSubject);
  const shared = newStems.filter((stem) => held.content.has(stem));
  if (hasOtherNumber(told, held)) return 0;
  const newOnly = newStems.filter((stem) => !isMet(stem, olderStems) && !told.names.has(stem) && !change.become.has(stem));
  const heldOnly = heldStems.filter((stem) => !isMet(stem, change.stems) && !held.names.has(stem));
  const newNames = [...told.names].filter((stem) => !olderStems.has(stem));
  const heldNames = [...held.names].filter((stem) => !change.stems.has(stem));
  const otherNames = newNames.length > 0 && heldNames.length > 0;
  const otherSubject = change.become.size > 0 && newNames.some((stem) => !change.become.has(stem) && !change.old.flat().includes(stem));
  const apart = (newOnly.length > 0 && heldOnly.length > 0) || (otherSubject && heldOnly.length + heldNames.length > 1);
  if (change.hasCue && otherVersion(told, held) && !areContrary(newOnly, heldOnly)) return 3;
  const kinds = otherValues(told, held) || (change.hasCue && otherBareNumber(told, held) ? 1 : 0);
  if (kinds > 0) {
    // Another value of the same kind: then names are no values, but say what it is about.
    const [mine, theirs] = [newNames, heldNames].map((names) => names.filter((name) => !IDENTIFIER.test(name)).length);
    const isApart = newOnly.length + mine! > 0 && heldOnly.length + theirs! > 0;
    if (isApart || namesOtherValue(change, held)) return 0;
    // Without a word of change, only how things are: `Ran 5 km` and `Never touch shelf 3` stay beside `Ran 7 km` and `Never touch shelf 4`.
    if (!change.hasCue && !(STATE.test(told.text) && STATE.test(held.text))) return 0;
    return isEnough(shared.length, newOnly.length, heldOnly.length, change.hasCue) ? 2 + shared.length : 0;
  }
  if (shared.length > 0 && isFlipped(change, told, held, isNegated)) return 2 + shared.length;
  if (change.isRenamed && shared.length > 0 && !apart && CALLED.test(held.text)) return 2;
  const isOnePerson = shared.length === 1 && told.names.has(shared[0]!) && isPersonLike(shared[0]!, told.text);
  const isAlike = shared.length >= 2 || (shared.length === 1 && !isOnePerson && change.isTransition);
  if (otherNames && !apart && isAlike && change.hasCue && newNames.length <= 3) {
    if (shared.length >= 2 || newOnly.length + heldOnly.length === 0) return 1.5 + shared.length / 2;
  }
  if (otherNames && !apart && isDuty(change, held) && shared.length >= 2 && newOnly.length + heldOnly.length === 0) return 2;
  if (change.become.size > 0 && isAlike && newOnly.length === 0 && heldNames.length === 0 && heldOnly.length > 0 && heldOnly.length <= 2)
    return 2;
  if (PARTING.test(told.text) && change.relations.has('partner') && relationsIn(held.text).has('partner') && shared.length >= 2) return 2;
  if (change.hasCue && heldNames.length > 0 && relationIsSingle(change, held)) {
    if (shared.some((stem) => told.names.has(stem) && !change.old.flat().includes(stem)) || isFirstPerson(told, held)) return 2;
  }
  if (change.hasCue && shared.length > 0 && isSamePredicate(told, held)) return 2;
  return 0;
}

const STATE =
  /\b(?:is|are|has|have|needs?|uses?|runs?|listens?|lives?|costs?|expires?|starts?|ends?|happens?|takes?|lasts?|opens?|closes?|keeps?|kept|must|holds?|targets?|leaves|arrives?)\b/i;
const IDENTIFIER = /[\d._/:@#]/;
const PARTING = /\b(?:broke up|split up|divorced|separated)\b/i;
const CALLED = /\b(?:called|named?|known as|titled?)\b/i;

/** `Omar`, not `CI`: of a person there is more than one thing to say. */
function isPersonLike(stem: string, text: string): boolean {
  return /(?:^|[^\p{L}])\p{Lu}\p{Ll}+/u.test(text) && !text.includes(stem.toUpperCase());
}

/** It says which value is past, and that is another one than this. */
function namesOtherValue(change: Change, held: Clause): boolean {
  const numbers = change.namesOldNumber ? change.old.flat().filter((stem) => /^\d/.test(stem)) : [];
  return numbers.length > 0 && numbers.every((number) => !held.stems.has(number));
}

/** Enough in common for another value to be a new one of the same thing. */
function isEnough(shared: number, newOnly: number, heldOnly: number, hasCue: boolean): boolean {
  if (hasCue) return shared >= 2 || (shared === 1 && (newOnly === 0 || heldOnly === 0));
  return newOnly + heldOnly === 0 ? shared >= 1 : shared >= 3;
}

/** Values of one kind that have nothing in common; how many kinds. */
function otherValues(told: Clause, held: Clause): number {
  let kinds = 0;
  for (const [kind, values] of told.values) {
    const before = held.values.get(kind);
    if (before && ![...values].every((value) => before.has(value)) && ![...before].every((value) => values.has(value))) kinds += 1;
  }
  return kinds;
}

/** `make it 4 instead` says a number and not of what; it can only be the one number of the other. */
function otherBareNumber(told: Clause, held: Clause): boolean {
  if (!/\b(?:make (?:it|that)|instead|set (?:it|that))\b/i.test(told.text)) return false;
  const [mine, theirs] = [numbersIn(told), numbersIn(held)];
  return mine.length === 1 && theirs.length === 1 && mine[0] !== theirs[0];
}

function numbersIn({ values }: Clause): string[] {
  return [...new Set([...values.values()].flatMap((numbers) => [...numbers].filter((number) => /^\d/.test(number))))];
}

/** It speaks of what was said right before: a number for its number, a name for its name, or that it does not hold. */
export function takesBack(change: Change, before: string): boolean {
  if (!change.pointsBack || before.length > CHANGE_CHARS_MAX || TALK.test(before)) return false;
  const clauses = clausesIn(before);
  const held = new Set(clauses.flatMap((clause) => [...clause.content]));
  const named = change.clauses.some((clause) =>
    [...clause.content].some((stem) => isSubject(stem) && !clause.names.has(stem) && !held.has(stem)),
  );
  const counts = (all: readonly Clause[]): boolean => all.some((clause) => numbersIn(clause).length > 0);
  return counts(change.clauses)
    ? counts(clauses)
    : !named || change.clauses.some((clause) => [...clause.content].some((stem) => held.has(stem)));
}

/** `PostgreSQL 15` and `PostgreSQL 17`: the number behind the same name. */
function otherVersion(told: Clause, held: Clause): boolean {
  for (const [kind, values] of told.values) {
    const label = kind.startsWith('at ') ? kind.slice(3) : undefined;
    if (label === undefined || !told.names.has(label) || !held.names.has(label)) continue;
    const before = held.values.get(kind);
    if (before && [...values].every((value) => !before.has(value))) return true;
  }
  return false;
}

function hasOtherNumber(told: Clause, held: Clause): boolean {
  return [...told.numbered].some(([label, number]) => held.numbered.has(label) && held.numbered.get(label) !== number);
}

const CONTRARY =
  'product:stage product:test stage:test demo:test demo:product frontend:backend io:android read:write access:refresh left:right upload:download intern:extern'
    .split(' ')
    .map((pair) => pair.split(':') as [string, string]);

function areContrary(newOnly: readonly string[], heldOnly: readonly string[]): boolean {
  return CONTRARY.some(([a, b]) => (newOnly.includes(a) && heldOnly.includes(b)) || (newOnly.includes(b) && heldOnly.includes(a)));
}

/** The same said the other way round: `enabled`, `disabled`; `need`, `do not need`. */
function isFlipped(change: Change, told: Clause, held: Clause, olderIsNegated: boolean): boolean {
  const rest = (one: Clause, other: Clause) => [...one.content].filter((stem) => !other.stems.has(stem) && !CHANGE_STEMS.has(stem));
  const [mine, theirs] = [rest(told, held), rest(held, told)];
  const opposite = OPPOSITES.some(
    ([a, b]) =>
      (told.stems.has(a) && held.stems.has(b) && !told.stems.has(b)) || (told.stems.has(b) && held.stems.has(a) && !told.stems.has(a)),
  );
  if (opposite) return [...mine, ...theirs].every((stem) => OPPOSITES.some((pair) => pair.includes(stem)));
  return change.isNegated !== olderIsNegated && mine.length === 0 && theirs.length === 0 && told.content.size >= 2;
}

function isDuty(change: Change, held: Clause): boolean {
  return change.relations.has('duty') && relationsIn(held.text).has('duty');
}

function sharesRelation(change: Change, held: Clause): boolean {
  if (change.relations.size === 0) return false;
  const relations = relationsIn(held.text);
  return [...change.relations].some((name) => relations.has(name));
}

/** Relations of which a person has one at a time; a duty is found by what it is for. */
function relationIsSingle(change: Change, held: Clause): boolean {
  const relations = relationsIn(held.text);
  return ['residence', 'employment', 'partner'].some((name) => change.relations.has(name) && relations.has(name));
}

function isFirstPerson(told: Clause, held: Clause): boolean {
  const pattern = /\b(?:I|my|me|we|our)\b/;
  return pattern.test(told.text) && pattern.test(held.text);
}

function hasOtherNames(change: Change, held: Clause, old: readonly string[]): boolean {
  const names = change.clauses.flatMap((clause) => [...clause.names]).filter((name) => !old.includes(name));
  return names.length > 0 && held.names.size > 0 && ![...held.names].some((name) => names.includes(name));
}

/** The same words up to the verb, and the same verb: what follows is the value. */
function isSamePredicate(told: Clause, held: Clause): boolean {
  const [mine, theirs] = [predicateOf(told), predicateOf(held)];
  if (mine === undefined || theirs === undefined || mine.verb !== theirs.verb) return false;
  return (
    mine.subject.length > 0 && mine.subject.length === theirs.subject.length && mine.subject.every((stem) => theirs.subject.includes(stem))
  );
}

const VERB =
  /^(.+?)\s(?:now |always |also )?(?:(?:is|are|was|were|has been|have been)\s(?:now |all )?(\w+(?:ed|en|wn|pt|lt|nt|ld|id)|in|at|on|a|an)\b|(became|becomes|become)\b)/i;

function predicateOf({ text }: Clause): { readonly subject: readonly string[]; readonly verb: string } | undefined {
  const [, subject, verb, became] = VERB.exec(text) ?? [];
  if (subject === undefined) return undefined;
  const stems = wordsIn(subject).filter((word) => !word.whole && tellsSomething(word) && !CHANGE_STEMS.has(word.stem));
  const stem = became === undefined ? wordsIn(verb!)[0]!.stem : 'a';
  return { subject: stems.map((word) => word.stem), verb: stem === 'an' ? 'a' : stem };
}

function isMet(stem: string, stems: ReadonlySet<string>): boolean {
  return stems.has(stem) || (stem.startsWith('re') && stems.has(stem.slice(2))) || stems.has(`re${stem}`);
}

/** Says what a clause is about, rather than how it stands or that it changed. */
function isSubject(stem: string): boolean {
  return !NEUTRAL.has(stem) && !CHANGE_STEMS.has(stem) && attributeOf(stem) !== 'residence';
}

function valuesAfter(content: string): Set<string> {
  return new Set([...content.matchAll(BECOMES)].flatMap((match) => wordsIn(match[1]!).map((word) => word.stem)));
}

function oldValuesIn(content: string): string[][] {
  const text = content.replace(/(?<=\p{L})-(?=\p{L})/gu, ' ');
  const phrases = [
    ...[...text.matchAll(AFTER_TRIGGER)].map((match) => match[1]!),
    ...[...text.matchAll(BEHIND_OLD)].map((match) => match[1]!),
  ];
  return phrases.flatMap((phrase) => {
    const stems = clausesIn(phrase).flatMap((clause) => [...clause.stems]);
    const telling = new Set(
      wordsIn(phrase)
        .filter(tellsSomething)
        .map((word) => word.stem),
    );
    const old = [...new Set(stems)].filter(
      (stem) => (telling.has(stem) || /\d/.test(stem)) && !GENERIC_OLD.has(stem) && !CHANGE_STEMS.has(stem),
    );
    return old.length === 0 ? [] : [old];
  });
}
