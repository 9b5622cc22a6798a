/** Stems remembered; a vocabulary beyond that starts over. */
const STEMS_CACHED_MAX = 50_000;
/** Shorter words carry no ending worth removing, longer ones are no words (as in SQLite's porter tokenizer). */
const STEM_CHARS_MIN = 3;
const STEM_CHARS_MAX = 64;

const cache = new Map<string, string>();

/**
 * The stem of an English word in lower case; words of other scripts and words with digits come back as they are.
 *
 * @source M. F. Porter, "An algorithm for suffix stripping", 1980; the steps keep the names of the paper
 */
export function stem(word: string): string {
  const known = cache.get(word);
  if (known !== undefined) return known;
  const made = word.length < STEM_CHARS_MIN || word.length > STEM_CHARS_MAX || !/^[a-z]+$/.test(word) ? word : strip(word);
  if (cache.size >= STEMS_CACHED_MAX) cache.clear();
  cache.set(word, made);
  return made;
}

const CONSONANT = '(?:[^aeiouy]|(?<![^aeiou])y|^y)';
const VOWEL = '(?:[aeiou]|(?<=[^aeiou])y)';
/** m > 0, m = 1, m > 1: how many times a vowel run is followed by a consonant run. */
const MEASURED = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}`);
const MEASURED_ONCE = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}*$`);
const MEASURED_TWICE = new RegExp(`^${CONSONANT}*${VOWEL}+${CONSONANT}+${VOWEL}+${CONSONANT}`);
const HAS_VOWEL = new RegExp(VOWEL);
/** Consonant, vowel, consonant, the last not w, x or y: `hop`, `fil`. */
const SHORT = new RegExp(`${CONSONANT}${VOWEL}[^aeiouwxy]$`);
const DOUBLE = /([^aeiouylsz])\1$/;

const STEP_2 = endings(
  'ational:ate tional:tion enci:ence anci:ance izer:ize bli:ble alli:al entli:ent eli:e ousli:ous ization:ize ' +
    'ation:ate ator:ate alism:al iveness:ive fulness:ful ousness:ous aliti:al iviti:ive biliti:ble logi:log',
);
const STEP_3 = endings('icate:ic ative: alize:al iciti:ic ical:ic ful: ness:');
const STEP_4 = endings('al: ance: ence: er: ic: able: ible: ant: ement: ment: ent: ion: ou: ism: ate: iti: ous: ive: ize:');

/** `from:to` pairs, the longest ending first, as the paper asks. */
function endings(text: string): [string, string][] {
  const pairs = text.split(' ').map((pair) => pair.split(':') as [string, string]);
  return pairs.sort((a, b) => b[0].length - a[0].length);
}

function strip(word: string): string {
  let text = step1b(step1a(word));
  if (text.endsWith('y') && HAS_VOWEL.test(text.slice(0, -1))) text = `${text.slice(0, -1)}i`;
  text = replaceEnding(text, STEP_2, MEASURED);
  text = replaceEnding(text, STEP_3, MEASURED);
  text = replaceEnding(text, STEP_4, MEASURED_TWICE);
  return step5(text);
}

function step1a(word: string): string {
  if (word.endsWith('sses') || word.endsWith('ies')) return word.slice(0, -2);
  return word.endsWith('s') && !word.endsWith('ss') ? word.slice(0, -1) : word;
}

function step1b(word: string): string {
  if (word.endsWith('eed')) return MEASURED.test(word.slice(0, -3)) ? word.slice(0, -1) : word;
  const ending = word.endsWith('ed') ? 2 : word.endsWith('ing') ? 3 : 0;
  const rest = word.slice(0, -ending);
  if (ending === 0 || !HAS_VOWEL.test(rest)) return word;
  if (/(?:at|bl|iz)$/.test(rest)) return `${rest}e`;
  if (DOUBLE.test(rest)) return rest.slice(0, -1);
  return MEASURED_ONCE.test(rest) && SHORT.test(rest) ? `${rest}e` : rest;
}

/** Only the longest ending that fits is looked at, whether its condition holds or not. */
function replaceEnding(word: string, pairs: readonly [string, string][], condition: RegExp): string {
  const pair = pairs.find(([from]) => word.length > from.length && word.endsWith(from));
  if (!pair) return word;
  const rest = word.slice(0, -pair[0].length);
  if (!condition.test(rest) || (pair[0] === 'ion' && !/[st]$/.test(rest))) return word;
  return rest + pair[1];
}

function step5(word: string): string {
  let text = word;
  if (text.endsWith('e')) {
    const rest = text.slice(0, -1);
    if (MEASURED_TWICE.test(rest) || (MEASURED.test(rest) && !SHORT.test(rest))) text = rest;
  }
  return text.endsWith('ll') && MEASURED_TWICE.test(text.slice(0, -1)) ? text.slice(0, -1) : text;
}
