/**
 * Characters that show nothing, or change how others are shown: controls (C0, DEL, C1), formats (zero width, bidirectional marks, tags), lone
 * surrogates, private and unassigned ones, separators and blanks but the space, fillers and selectors.
 */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
/** Letters of living scripts carry at most three marks; more pile up over other lines. */
const MANY_MARKS = /\p{M}{4,}/gu;
/** A longer run of spaces can push what follows out of sight; unit: characters. */
const MANY_SPACES = / {17,}/g;

/** A text with every character visible: what a screen would not show, or would obey, is written as `\u` escapes. Never throws. */
export function visibleText(text: string): string {
  return text.replace(INVISIBLE, escapeAll).replace(MANY_MARKS, escapeAll).replace(MANY_SPACES, escapeAll);
}

/**
 * The input of a tool call as a person must see it before deciding: all of it as JSON, every character visible. Escapes cannot be confused
 * with text, since JSON doubles the backslashes of texts.
 *
 * @param indent  spaces a level; structure then begins new lines, which no text in the input can
 */
export function visibleJson(value: unknown, indent?: number): string {
  const json = JSON.stringify(value, null, indent) ?? 'null';
  if (!indent) return visibleText(json);
  // A run of spaces at the beginning of a line is indentation.
  return json
    .split('\n')
    .map((line) => {
      const depth = line.length - line.trimStart().length;
      return line.slice(0, depth) + visibleText(line.slice(depth));
    })
    .join('\n');
}

/** The beginning of a visible text; a cut says how many characters are not shown. */
export function visibleStart(text: string, charsMax: number): string {
  const visible = visibleText(text.slice(0, charsMax));
  const shown = visible.slice(0, charsMax);
  const hidden = text.length > charsMax ? text.length - charsMax : 0;
  if (hidden > 0) return `${shown}… (${hidden} more characters)`;
  return shown.length < visible.length ? `${shown}…` : shown;
}

function escapeAll(chars: string): string {
  let out = '';
  for (let at = 0; at < chars.length; at += 1) out += `\\u${chars.charCodeAt(at).toString(16).padStart(4, '0')}`;
  return out;
}
