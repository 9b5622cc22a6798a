/** Longest `[a,b]:` prefix that is read as tags, in characters. */
const TAG_PREFIX_CHARS_MAX = 256;

/** First that fits decides. Whole words only: `dislike` is a preference, `likelihood` is none. */
const TYPES: readonly (readonly [type: string, words: RegExp])[] = [
  ['preference', /\b(?:prefer(?:s|red|ence|ences)?|likes?|dislikes?|loves?|hates?|wants?|favou?rites?)\b/i],
  ['decision', /\b(?:decided|decision|agreed|will use|going with|chose|chosen)\b/i],
  ['learning', /\b(?:learn(?:ed|t)|discovered|found out|realized|realised|til)\b/i],
  ['issue', /\b(?:bugs?|issues?|broken|fails?|failing|crash(?:es|ed)?)\b/i],
  ['rule', /\b(?:never|always|must|do not|don't)\b/i],
];

/** The type a memory's own words suggest; `fact` when they suggest none. */
export function inferType(content: string): string {
  return TYPES.find(([, words]) => words.test(content))?.[0] ?? 'fact';
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
