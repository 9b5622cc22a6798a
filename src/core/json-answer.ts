const FENCE = '```';
const OPENING = /^```(?:json)?/;
const SPACE_BEFORE = /^\s*/;

/** JSON that a model wrote, also inside a Markdown fence. @throws SyntaxError */
export function parseJsonAnswer(text: string): unknown {
  return JSON.parse(fencedText(text.trim()) ?? text);
}

/** What stands between the lines of a fence around the whole text; undefined without one. */
function fencedText(text: string): string | undefined {
  if (!text.startsWith(FENCE) || !text.endsWith(FENCE)) return undefined;
  const inside = text.slice(0, -FENCE.length).replace(OPENING, '');
  return SPACE_BEFORE.exec(inside)![0].includes('\n') ? inside.trim() : undefined;
}
