/** Longest `[a,b]:` prefix that is read as tags, in characters. */
const TAG_PREFIX_CHARS_MAX = 256;

/** Talk rather than a note: a question, a greeting, an exclamation. It says what somebody feels just now. */
const TALK = /\?\s*$|!\s+\S|^\W*(?:hey|hi|hello|thanks|thank you|wow|yeah|haha|oh|aww|congrat\w*)\b/i;

/** Somebody of whom a lasting liking can be told: a name, `the user`, `I`, `we`, or nobody at the start of a note. */
const SOMEBODY = `(?:^|[.;:,]\\s+|\\b(?:and|but)\\s+)(?:(?:the )?(?:user|team|customer|client)|I|we|they|he|she|\\p{Lu}[\\p{L}'’-]+(?: \\p{Lu}[\\p{L}'’-]+)?)?\\s*`;
const OFTEN = `(?:(?:really|always|usually|generally|also|still|strongly|no longer|does not|doesn['’]t|do not|don['’]t|now)\\s+)*`;
const LIKING = new RegExp(
  `${SOMEBODY}${OFTEN}(?:likes?|dislikes?|loves?|hates?|enjoys|can['’]t stand|would rather|wants?(?! a\\b| an\\b| some\\b|[^.;]* to\\b))(?=\\s)`,
  'u',
);
const PREFERENCE = /\b(?:prefer(?:s|red|ence|ences)?|favou?rites?|dislikes|allergic|vegetarian|vegan)\b/i;
/** Told of what comes back, such as a habit. */
const PASSING = /\b(?:yesterday|today|tonight|tomorrow|last (?:week|night|month|year)|this (?:week|morning|evening)|right now)\b/i;

/** What is to be done, or not, whenever it comes to it. */
const RULE_WORDS =
  /\b(?:must(?:n['’]t)?|may (?:not|never|only) (?:be )?\w+|not allowed|forbidden|should (?:always|never|not)|shouldn['’]t|no \w+ without)\b|(?:^|[.;:,]\s+|\band )(?:always|never|do not|don['’]t)\s/i;
const RULE_START =
  /^(?:(?:always|never|please|only|when|whenever|if)\b|(?:use|answer|reply|respond|write|keep|avoid|prefer|address|call (?:me|him|her|them)|speak|talk|format|sign|name|follow|stick to|make sure|ensure|remember to|check|ask|leave|include|put|no|don['’]t|do not)\s+\S)/i;

/** First that fits decides. Whole words only: `dislike` is a preference, `likelihood` is none. */
const TYPES: readonly (readonly [type: string, words: (content: string) => boolean])[] = [
  ['decision', matches(/^\W*(?:decision\b|we (?:have |['’]ve )?(?:decided|agreed|chose(?:n)?)\b)/i)],
  ['rule', isRule],
  ['preference', isPreference],
  ['decision', matches(/\b(?:decided|decision|agreed|will use|going with|chose|chosen)\b/i)],
  ['learning', matches(/\b(?:learn(?:ed|t)|discovered|found out|realized|realised|til)\b/i)],
  ['issue', matches(/\b(?:bugs?|issues?|broken|fails?|failing|crash(?:es|ed)?)\b/i)],
];

/** The type a memory's own words suggest; `fact` when they suggest none, and always for talk as far as rules and preferences go. */
export function inferType(content: string): string {
  return TYPES.find(([, fits]) => fits(content))?.[0] ?? 'fact';
}

function matches(words: RegExp): (content: string) => boolean {
  return (content) => words.test(content);
}

function isRule(content: string): boolean {
  if (TALK.test(content) || /^(?:I|we|he|she|they|you)\b/i.test(content)) return false;
  return RULE_START.test(content) || RULE_WORDS.test(content);
}

function isPreference(content: string): boolean {
  if (TALK.test(content) || PASSING.test(content)) return false;
  return PREFERENCE.test(content) || LIKING.test(content);
}

export interface Prefixed {
  readonly content: string;
  /** From `[a,b]:`, in order. */
  readonly tags: string[];
  /** From `critical:`. */
  readonly critical: boolean;
}

/**
 * Take `critical:` and `[a,b]:` off the front of a memory. A memory that is nothing but prefix stays as it is.
 *
 * @source spec/mcp-server, memory_store: tags are prepended to the content
 */
export function readPrefixes(text: string): Prefixed {
  let content = text.trim();
  const critical = /^critical:/i.test(content);
  if (critical) content = content.slice('critical:'.length).trim();
  const bracket = /^\[([^\]\n]+)\]:/.exec(content.slice(0, TAG_PREFIX_CHARS_MAX));
  if (bracket) content = content.slice(bracket[0].length).trim();
  if (content === '') return { content: text.trim(), tags: [], critical: false };
  return { content, tags: tagList(bracket?.[1] ?? null), critical };
}

/** Tags in order, trimmed, each once; `"a,b"` and `["a","b"]` are the same. */
export function tagList(tags: readonly string[] | string | null | undefined): string[] {
  if (!tags) return [];
  const parts = (typeof tags === 'string' ? [tags] : tags).flatMap((part) => part.split(','));
  return [...new Set(parts.map((part) => part.replace(/\s+/g, ' ').trim()).filter((part) => part !== ''))];
}
