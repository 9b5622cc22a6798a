import { normalForm } from '../normal-form.ts';
import { stem } from '../recall-query-stem.ts';
import { baseForm } from './irregular-words.ts';

/** A longer word is cut: it is no word but data, and would only fill the index; unit: characters. */
const WORD_CHARS_MAX = 64;
/** A sign may stand for 18 letters: beyond the first characters, a text may become this many times as long, and what is over is not looked up. */
const PLAIN_CHARS_MIN = 1_000;
const PLAIN_GROWTH_MAX = 2;

/** Stems kept in memory, about 100 bytes each, and the longest word of one in characters. */
const STEMS_KEPT_MAX = 20_000;
const STEM_KEPT_CHARS_MAX = 12;

/** Words too common to say what a memory is about. */
const COMMON = new Set(
  (
    'a about above after again all also am an and any are aren as at be because been before being below between both but by can cannot could ' +
    'couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he her here hers ' +
    'him his i if in into is isn it its just ll m me might more most must my no nor now of off on once only ' +
    'or other our ours out over own re same shall she should shouldn so some such t than that the their them ' +
    'then there these they this those through to too under until up us ve very was wasn we were weren while ' +
    'will with won would wouldn you your yours s'
  ).split(' '),
);

/** How something is asked, and small talk: in a query they stand for nothing that could be found. */
const ASKING = new Set(
  (
    'how what when where which who whom whose why let like please tell know thank thanks really hello hey hi ok okay yes yeah not ' +
    'remember recall anything something many much long often kind type sort'
  ).split(' '),
);

/** Letters and digits of any script with what joins them to one identifier: `foo.bar`, `a/b.ts`, `KA-6`, `--flag`, `node:sqlite`, `c++20`. */
const TOKEN = /(?:--?)?[\p{L}\p{N}\p{M}\p{Co}_]+(?:['’][\p{L}]+)?(?:(?:[./:@#\\-]|\+\+)+[\p{L}\p{N}\p{M}\p{Co}_*]+)*/gu;
/** The same for text that is plain ASCII, which most is: several times as fast. */
const ASCII_TOKEN = /(?:--?)?\w+(?:'[a-z]+)?(?:(?:[./:@#\\-]|\+\+)+[\w*+]+)*/g;
const ASCII_WORD = /^[a-z0-9]+$/;
const PART = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
const JOINED = /[./:@#\\+_-]/;
/** Scripts that are written without spaces: two neighbouring signs are taken as a word. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]{2,}/u;

export interface Word {
  /** As written, in lower case and without accents. */
  readonly text: string;
  /** What it is looked up by. */
  readonly stem: string;
  /** A whole `foo.bar`, which stands beside its parts. */
  readonly whole: boolean;
}

/** Words in reading order, common ones included; an identifier comes after its parts. */
export function wordsIn(text: string): Word[] {
  const words: Word[] = [];
  const written = plain(text);
  const pattern = /[^\0-\x7f]/.test(written) ? TOKEN : ASCII_TOKEN;
  for (const token of written.match(pattern) ?? []) {
    if (ASCII_WORD.test(token) && token.length <= WORD_CHARS_MAX) words.push({ text: token, stem: stemOf(token), whole: false });
    else addToken(words, token);
  }
  return words;
}

const stems = new Map<string, string>();

/** Most words are said again and again: their stems are kept, until there are too many. Long words would keep the text alive that they were cut from. */
function stemOf(word: string): string {
  if (word.length > STEM_KEPT_CHARS_MAX) return stem(baseForm(word));
  let known = stems.get(word);
  if (known === undefined) {
    known = stem(baseForm(word));
    if (stems.size >= STEMS_KEPT_MAX) stems.clear();
    stems.set(word, known);
  }
  return known;
}

/** NFKD without the accents of Latin, Greek and Cyrillic; marks of other scripts carry meaning and stay. */
function plain(text: string): string {
  if (!/[^\0-\x7f]/.test(text)) return text.toLowerCase();
  const bare = normalForm(text, 'NFKD').replace(/[\u0300-\u036f]+/g, '');
  return normalForm(bare, 'NFC')
    .slice(0, Math.max(PLAIN_CHARS_MIN, text.length * PLAIN_GROWTH_MAX))
    .toLowerCase();
}

function addToken(words: Word[], token: string): void {
  const bare = token.replace(/['’]s\b/g, '').replace(/['’]/g, ' ');
  for (const [part] of bare.matchAll(PART)) {
    const text = part.slice(0, WORD_CHARS_MAX);
    if (UNSPACED.test(text)) addPairs(words, text);
    else words.push({ text, stem: stemOf(text), whole: false });
  }
  if (JOINED.test(bare) && !bare.includes(' ')) {
    const whole = bare.slice(0, WORD_CHARS_MAX);
    words.push({ text: whole, stem: whole, whole: true });
  }
}

function addPairs(words: Word[], text: string): void {
  const signs = [...text];
  for (let index = 0; index + 1 < signs.length; index += 1) {
    const pair = signs[index]! + signs[index + 1]!;
    words.push({ text: pair, stem: pair, whole: false });
  }
}

/** Says what a memory is about: not common. */
export function tellsSomething(word: Word): boolean {
  return !COMMON.has(word.text);
}

/** Says what a query is about: neither common, nor how it is asked, nor a single letter. */
export function asksForSomething(word: Word): boolean {
  return !COMMON.has(word.text) && !ASKING.has(word.text) && !/^[a-z]$/.test(word.text);
}
