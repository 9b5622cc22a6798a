const FENCED = /^\s*```(?:json)?\s*\n([\s\S]*?)\n?```\s*$/;

/** JSON that a model wrote, also inside a Markdown fence. @throws SyntaxError */
export function parseJsonAnswer(text: string): unknown {
  return JSON.parse(FENCED.exec(text)?.[1] ?? text);
}
