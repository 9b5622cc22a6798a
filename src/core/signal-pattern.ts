import { AppError } from './errors.ts';

export const PATTERN_CHARS_MAX = 128;
export const PATTERN_SEGMENTS_MAX = 8;
export const PATTERNS_MAX = 64;
/** Names whose answer one compiled list remembers; daemon names are about a hundred, custom ones may be endless. */
const NAMES_CACHED_MAX = 1_024;

/** Does a signal of this name belong to the subscription? */
export type NameMatcher = (name: string) => boolean;

type Segment =
  | { readonly kind: 'literal'; readonly text: string }
  /** `*`: exactly one segment. */
  | { readonly kind: 'one' }
  /** `**`: one or more segments. */
  | { readonly kind: 'many' }
  /** Stars inside: `prefix*middle*suffix`. */
  | {
      readonly kind: 'glob';
      readonly prefix: string;
      readonly middles: readonly string[];
      readonly suffix: string;
      readonly charsMin: number;
    };

interface CompiledPattern {
  readonly excludes: boolean;
  readonly matches: (name: string, segments: readonly string[]) => boolean;
}

/**
 * One predicate for a list of name patterns: any of them matches and no `!pattern` does; only exclusions mean everything else.
 * `*` as a segment is one segment, inside a segment any run without colon, `**` one or more segments; case-sensitive, the whole name.
 * Regular expressions are for code only, never from the wire. Cached per returned function.
 *
 * @param pointer  JSON pointer of the list in the request, for error messages
 * @throws AppError `invalid_pattern`
 * @source signals.md, section 9
 */
export function compilePatterns(list: readonly (string | RegExp)[], pointer = ''): NameMatcher {
  if (list.length === 0) throw refusal('the list is empty', 'give at least one pattern; `**` matches every signal', pointer);
  if (list.length > PATTERNS_MAX) {
    throw refusal(`${list.length} patterns are more than ${PATTERNS_MAX}`, 'use wildcards or a second subscription', pointer);
  }
  const compiled = list.map((pattern, index) => compile(pattern, `${pointer}/${index}`));
  const wanted = compiled.filter((pattern) => !pattern.excludes);
  const unwanted = compiled.filter((pattern) => pattern.excludes);
  const answers = new Map<string, boolean>();
  return (name) => {
    const known = answers.get(name);
    if (known !== undefined) return known;
    const segments = name.split(':');
    const any = (patterns: readonly CompiledPattern[]): boolean => patterns.some((pattern) => pattern.matches(name, segments));
    const answer = (wanted.length === 0 || any(wanted)) && !any(unwanted);
    if (answers.size >= NAMES_CACHED_MAX) answers.clear();
    answers.set(name, answer);
    return answer;
  };
}

/** `text:*,!text:complete` as a list; white space around a pattern is dropped. Not checked here, see compilePatterns. */
export function parsePatternList(text: string): string[] {
  return text.split(',', PATTERNS_MAX + 1).map((pattern) => pattern.trim());
}

function compile(pattern: string | RegExp, pointer: string): CompiledPattern {
  if (typeof pattern !== 'string') return compileRegExp(pattern, pointer);
  const excludes = pattern.startsWith('!');
  const text = excludes ? pattern.slice(1) : pattern;
  checkText(text, pointer);
  const segments = text.split(':').map(compileSegment);
  return { excludes, matches: (_name, names) => matchSegments(segments, names) };
}

function compileRegExp(pattern: RegExp, pointer: string): CompiledPattern {
  // A sticky or global expression keeps a position between calls and would answer differently each time.
  if (pattern.global || pattern.sticky) throw refusal(`${pattern} has the flag g or y`, 'leave the flag out', pointer);
  return { excludes: false, matches: (name) => pattern.test(name) };
}

function checkText(text: string, pointer: string): void {
  if (text.length > PATTERN_CHARS_MAX) {
    throw refusal(`a pattern of ${text.length} characters is longer than ${PATTERN_CHARS_MAX}`, 'no signal name is longer', pointer);
  }
  if (text === '*') throw refusal('`*` matches no signal', 'every name has two segments or more; did you mean `**`?', pointer);
  const stranger = /[^A-Za-z0-9_.:*-]/.exec(text)?.[0];
  if (stranger !== undefined) {
    const hint = text.startsWith('/')
      ? 'a regular expression is for workflows in code; here use `*` for one segment and `**` for one or more'
      : 'use letters, digits, `_`, `.`, `-`, `:` and `*`; a leading `!` excludes, several patterns are separated by commas';
    throw refusal(`${JSON.stringify(stranger)} in \`${text}\` cannot occur in a signal name`, hint, pointer);
  }
  const segments = text.split(':');
  if (segments.length > PATTERN_SEGMENTS_MAX) {
    throw refusal(`\`${text}\` has ${segments.length} segments, more than ${PATTERN_SEGMENTS_MAX}`, 'use `**` for the rest', pointer);
  }
  for (const segment of segments) checkSegment(segment, text, pointer);
}

function checkSegment(segment: string, text: string, pointer: string): void {
  if (segment === '') throw refusal(`\`${text}\` has an empty segment`, 'write `*` for any one segment', pointer);
  if (segment.includes('***')) throw refusal(`\`${text}\` has three stars in a row`, '`*` is one segment, `**` one or more', pointer);
  if (segment !== '**' && segment.includes('**')) {
    throw refusal(`\`${text}\` has \`**\` inside a segment`, '`**` stands alone between colons; inside a segment use one `*`', pointer);
  }
}

function refusal(problem: string, hint: string, pointer: string): AppError {
  const detail = `${problem}; ${hint}`;
  return new AppError('invalid_pattern', { detail, errors: [{ pointer, detail }], extra: { hint } });
}

function compileSegment(text: string): Segment {
  if (text === '**') return { kind: 'many' };
  if (text === '*') return { kind: 'one' };
  if (!text.includes('*')) return { kind: 'literal', text };
  const parts = text.split('*');
  const prefix = parts[0]!;
  const suffix = parts.at(-1)!;
  return { kind: 'glob', prefix, suffix, middles: parts.slice(1, -1), charsMin: prefix.length + suffix.length };
}

/**
 * Greedy with one way back: when a segment does not fit, only the last `**` takes one segment more. An earlier one never has to,
 * because whatever it could give away the later one can take; so the work is at most pattern segments × name segments.
 */
function matchSegments(pattern: readonly Segment[], names: readonly string[]): boolean {
  let at = 0;
  let name = 0;
  let manyAt = -1;
  let manyTaken = 0;
  while (name < names.length) {
    const segment = pattern[at];
    if (segment?.kind === 'many' && names[name] !== '') {
      manyAt = at;
      manyTaken = name + 1;
      at += 1;
      name += 1;
    } else if (segment && segment.kind !== 'many' && matchSegment(segment, names[name]!)) {
      at += 1;
      name += 1;
    } else if (manyAt >= 0 && names[manyTaken] !== '') {
      manyTaken += 1;
      at = manyAt + 1;
      name = manyTaken;
    } else {
      return false;
    }
  }
  return at === pattern.length;
}

function matchSegment(segment: Exclude<Segment, { kind: 'many' }>, name: string): boolean {
  if (segment.kind === 'literal') return segment.text === name;
  if (segment.kind === 'one') return name !== '';
  if (name.length < segment.charsMin || !name.startsWith(segment.prefix) || !name.endsWith(segment.suffix)) return false;
  const end = name.length - segment.suffix.length;
  let from = segment.prefix.length;
  for (const middle of segment.middles) {
    const found = name.indexOf(middle, from);
    if (found < 0 || found + middle.length > end) return false;
    from = found + middle.length;
  }
  return true;
}
