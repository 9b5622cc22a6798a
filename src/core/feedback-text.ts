/** Ratings stand near the end of a message; unit: characters. */
const TEXT_CHARS_MAX = 20_000;
/** `"memory_feedback": {…}` with numbers alone inside: no nested braces, so that the end is found in one pass. */
const FEEDBACK = /"memory_feedback"\s*:\s*(\{[^{}]*\})/g;

/**
 * Ratings that a model wrote into its answer as JSON, as it did before there was a tool for them.
 *
 * @returns  by memory id, −1 to 1; of the last such text. Empty when there is none or it is damaged; never throws
 * @source spec/mcp-server, "memory_feedback"
 */
export function feedbackInText(text: string): Record<string, number> {
  const found = [...text.slice(-TEXT_CHARS_MAX).matchAll(FEEDBACK)].at(-1)?.[1];
  if (found === undefined) return {};
  let ratings: unknown;
  try {
    ratings = JSON.parse(found);
  } catch {
    return {}; // What a model writes need not be JSON.
  }
  return Object.fromEntries(Object.entries(ratings as Record<string, unknown>).filter(isRating));
}

function isRating(entry: [string, unknown]): entry is [string, number] {
  const [, value] = entry;
  return typeof value === 'number' && value >= -1 && value <= 1;
}
