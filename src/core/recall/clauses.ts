import { tellsSomething, wordsIn } from './words.ts';

/** Clauses read of one text; what comes after says too little about its subject. */
const CLAUSES_MAX = 12;
/** Tokens kept in memory, about 200 bytes each, and the longest of one in characters. */
const TOKENS_KEPT_MAX = 5_000;
const TOKEN_KEPT_CHARS_MAX = 24;

/** Ends of a clause. What follows a word of reason is no statement of its own. */
const CLAUSE_END =
  /[.!?;]+(?=\s|$)(?<!\b(?:Dr|Mr|Mrs|Ms|Prof|St|No|vs|approx)\.)|,(?=\s)|:(?=\s+[^\s\d])|\s[–—]\s|\s(?=(?:and|but|while|whereas|because|since|which|who|so that|due to)\s)/gi;
const REASON = /^\s*(?:because|since|due to|so that)\b/i;
const PRONOUN = /^\s*(?:and |but |so |then )*(?:it|they|he|she|we|that|this|these|those|one|is|are|was|were|has|have|had)\b/i;

const TOKEN = /→|->|[$€£]?[\p{L}\p{N}](?:[\p{L}\p{N}'’_]|[.:/@#+,-](?=[\p{L}\p{N}]))*[%€$£]?/gu;
const NUMBER = /^[$€£]?v?\d[\d.,]*(?:st|nd|rd|th|[%€$£x]|k|ms|s|min|h|kb|mb|gb|tb)?$/i;
const NUMBER_WORDS = new Map(
  'one two three four five six seven eight nine ten eleven twelve'.split(' ').map((word, at) => [word, String(at + 1)]),
);
const TIME = /^\d{1,2}(?:[:h]\d{2}|[ap]m)$/i;
const ISO_DATE = /^\d{4}-\d{2}(?:-\d{2})?$/;
const YEAR = /^(?:19|20)\d{2}$/;
const WEEKDAY = /^(?:mon|tues|wednes|thurs|fri|satur|sun)days?$/;
const MONTH = /^(?:january|february|march|april|may|june|july|august|september|october|november|december)$/;
const CLOCK_WORD = /^(?:noon|midnight)$/;

/** Units that measure the same. */
const MEASURES = new Map(
  Object.entries({
    duration: 'second minut hour dai week month year ms min sec s h',
    size: 'kb mb gb tb byte megabyt gigabyt kilobyt',
    money: 'euro dollar pound franc cent usd eur gbp chf $ € £',
    percent: 'percent %',
    temperature: 'degre °c °f',
    frequency: 'hz khz mhz ghz rpm',
    length: 'mm cm m km mile metr meter',
    weight: "g kg lb gram kilo kilogram pound's",
  }).flatMap(([measure, units]) => units.split(' ').map((unit): [string, string] => [unit, measure])),
);

/** Verbs and nouns that say nothing about what a memory is about: how things stand, are used or are planned. */
export const NEUTRAL = new Set(
  (
    'plan schedul set happen take place run go send us make get got hold keep start begin end open close last need want listen live lie sit stand ' +
    'stai work come expir valid default current time todai yesterdai tomorrow hour minut second dai week month year date let find found have give ' +
    'put call name base write default locat alwai never each everi per least most onli also still just then next previou version releas number valu ' +
    'thing idea decis rule polici prefer like user minimum maximum total due free amount it at monthli daili weekli again back'
  ).split(' '),
);

/** Verbs that say that something became different, as stems. */
export const CHANGE_STEMS = new Set(
  (
    'chang switch move migrat convert transit shift swap replac supersed substitut renam rebrand upgrad downgrad updat bump rais lower increas ' +
    'decreas reduc cut extend shorten doubl halv tripl lengthen tighten relax postpon delai defer resched push pull bring slip transfer hand ' +
    'take inherit promot succe step leav quit resign depart reloc settl revert adopt revis amend adjust correct reassign redirect ' +
    'consolid merg expand shrink grow enlarg drop rise climb fall becom trade exchang ditch sell sold bui bought stop give retir cancel ' +
    'deprec remov scrap abandon renew port flash turn rewrit rewritten reach get come new now no longer instead anymor dead gone histori over ' +
    'place favour favor plan correct updat effect nowadai today'
  ).split(' '),
);

export interface Clause {
  readonly text: string;
  /** Stems of what it is about, names included; numbers, days and dates are not here. */
  readonly content: ReadonlySet<string>;
  /** Stems of names and identifiers among the content. */
  readonly names: ReadonlySet<string>;
  /** All stems, numbers as written included. */
  readonly stems: ReadonlySet<string>;
  /** Values by what they measure: `duration`, `day`, `time`, `of request` (its unit), `at port` (the word before it). */
  readonly values: ReadonlyMap<string, ReadonlySet<string>>;
  /** Stem of a noun whose number tells which one is meant: `user` in `User 17 is …`. */
  readonly numbered: ReadonlyMap<string, string>;
  /** Says why, not what. */
  readonly isReason: boolean;
}

interface Token {
  readonly raw: string;
  readonly lower: string;
  readonly stem: string;
  readonly isTelling: boolean;
  /** A number, a day, a month or a time. */
  readonly mayMeasure: boolean;
}

/** A text as clauses, in order. A clause that begins with a pronoun is also about what the one before it is about. */
export function clausesIn(text: string): Clause[] {
  const clauses: Clause[] = [];
  const plain = text.replace(/(?<=\p{L})-(?=\p{L})/gu, ' ');
  let from = 0;
  let begins = true;
  for (const end of [...plain.matchAll(CLAUSE_END), undefined]) {
    const part = plain.slice(from, end?.index);
    // `Kai and Mira` are one subject.
    if (end !== undefined && /^\s$/.test(end[0]) && part.trim().split(/\s+/).length < 3) continue;
    if (/[\p{L}\p{N}]/u.test(part)) clauses.push(clauseOf(part, clauses.at(-1), begins));
    if (end === undefined || clauses.length >= CLAUSES_MAX) break;
    from = end.index + end[0].length;
    begins = /[.!?]/.test(end[0]);
  }
  return clauses;
}

function clauseOf(text: string, before: Clause | undefined, beginsSentence: boolean): Clause {
  const tokens = (text.match(TOKEN) ?? []).map(readToken);
  const [content, names, stems] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const values = new Map<string, Set<string>>();
  const numbered = new Map<string, string>();
  for (const [at, token] of tokens.entries()) {
    if (!NUMBER_WORDS.has(token.lower)) stems.add(token.stem);
    const found = token.mayMeasure ? measured(tokens, at) : [];
    if (found.length > 0) {
      for (const [kind, value] of found) values.set(kind, (values.get(kind) ?? new Set()).add(value));
      stems.add(numberOf(token));
      if (found[0]![0] === 'identifier') names.add(token.stem);
      const label = tokens[at - 1];
      if (at <= 2 && label?.isTelling && /^\d+$/.test(token.raw) && isPlainWord(label)) numbered.set(label.stem, token.raw);
    } else if (token.isTelling) {
      content.add(token.stem);
      if (isName(tokens, at, beginsSentence)) names.add(token.stem);
    }
  }
  const isCarried = before !== undefined && (PRONOUN.test(text) || [...content].every((stem) => NEUTRAL.has(stem) || names.has(stem)));
  if (isCarried) for (const stem of before.content) if (!names.has(stem)) content.add(stem);
  return { text, content, names, stems, values, numbered, isReason: REASON.test(text) };
}

const tokens = new Map<string, Token>();

/** Tokens come again and again: they are kept, until there are too many. */
function readToken(raw: string): Token {
  const known = tokens.get(raw);
  if (known) return known;
  const token = tokenOf(raw);
  if (tokens.size >= TOKENS_KEPT_MAX) tokens.clear();
  if (raw.length <= TOKEN_KEPT_CHARS_MAX) tokens.set(raw, token);
  return token;
}

function tokenOf(raw: string): Token {
  const bare = raw.replace(/['’]s$/u, '');
  const [word] = wordsIn(bare);
  const isWhole = /\d/.test(bare) || /[./:@#_]/.test(bare);
  const lower = bare.toLowerCase();
  const stem = isWhole ? lower : (word?.stem ?? lower);
  const mayMeasure = /\d/.test(lower) || NUMBER_WORDS.has(lower) || WEEKDAY.test(lower) || MONTH.test(lower) || CLOCK_WORD.test(lower);
  return { raw: bare, lower, stem, isTelling: isWhole || (word !== undefined && tellsSomething(word)), mayMeasure };
}

/** What a token measures, with its value; none for a word. */
function measured(tokens: readonly Token[], at: number): [kind: string, value: string][] {
  const { lower } = tokens[at]!;
  if (WEEKDAY.test(lower)) return [['day', lower.replace(/s$/, '')]];
  if (TIME.test(lower) || CLOCK_WORD.test(lower)) return [['time', lower]];
  const [previous, next] = [tokens[at - 1], tokens[at + 1]];
  const counts = next?.isTelling === true && /^\p{Ll}/u.test(next.raw);
  if (ISO_DATE.test(lower) || (YEAR.test(lower) && !counts)) return [['date', lower]];
  if (MONTH.test(lower)) return lower === 'may' && !isDayNumber(previous) && !isDayNumber(next) ? [] : [['date', lower]];
  const value = numberOf(tokens[at]!);
  if (!NUMBER.test(value)) return /\d/.test(lower) ? [['identifier', lower]] : [];
  if (MONTH.test(previous?.lower ?? '') || MONTH.test(next?.lower ?? '') || /(?:st|nd|rd|th)$/.test(value)) return [['date', value]];
  const attached = /([%€$£]|k?b|mb|gb|tb|ms|s|min|h)$/i.exec(value)?.[1]?.toLowerCase() ?? /^[$€£]/.exec(value)?.[0];
  const unit =
    attached ??
    (next && (/^\p{Ll}/u.test(next.raw) || MEASURES.has(next.lower)) ? (MEASURES.has(next.lower) ? next.lower : next.stem) : undefined);
  const measure = unit === undefined ? undefined : MEASURES.get(unit);
  if (measure !== undefined) return [[measure, value.replace(/[^\d.]/g, '')]];
  const label = tokens.slice(0, at).findLast((token) => token.isTelling && !NUMBER.test(numberOf(token)) && !CHANGE_STEMS.has(token.stem));
  const isVersion = /^v?\d+(?:\.\d+)+$/.test(value) || label?.stem === 'version' || label?.stem === 'releas';
  return [
    ...(isVersion ? [['version', value.replace(/^v/, '')] as [string, string]] : []),
    ...(unit !== undefined && next?.isTelling ? [[`of ${unit}`, value] as [string, string]] : []),
    ...(label === undefined ? [['number', value] as [string, string]] : [[`at ${label.stem}`, value] as [string, string]]),
  ];
}

function isDayNumber(token: Token | undefined): boolean {
  return token !== undefined && /^\d{1,2}(?:st|nd|rd|th)?$|^(?:19|20)\d{2}$/.test(token.lower);
}

function numberOf({ lower }: Token): string {
  return (NUMBER_WORDS.get(lower) ?? lower).replace(/,(?=\d{3})/g, '');
}

/** `Bug`, `user`; a product such as `PostgreSQL` is none, for its number is its version. */
function isPlainWord({ raw }: Token): boolean {
  return /^\p{L}\p{Ll}+$/u.test(raw);
}

/** Written with a capital within a sentence, or before a verb at its beginning; identifiers are names as well. */
function isName(tokens: readonly Token[], at: number, beginsSentence: boolean): boolean {
  const { raw } = tokens[at]!;
  if (/[./:@#_\d]/.test(raw)) return true;
  if (!/\p{Lu}/u.test(raw)) return false;
  if (at > 0 || !beginsSentence || /\p{Lu}/u.test(raw.slice(1))) return true;
  const verb = tokens.slice(1).find(({ lower }) => !/^(?:now|also|still|always|has|had|and|,)$/.test(lower));
  return verb !== undefined && /^(?:is|was|took|sold|quit|left|gave|moved|\p{L}+[^s\W]s|\p{L}+ed)$/u.test(verb.lower);
}
