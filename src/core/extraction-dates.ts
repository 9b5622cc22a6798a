const DAY_MS = 86_400_000;
const WEEKDAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];
const NUMBERS: Readonly<Record<string, number>> = { a: 1, an: 1, one: 1, two: 2, three: 3, four: 4, five: 5, six: 6, seven: 7 };

/** Words that mean another day tomorrow, and have no date beside them yet. */
const RELATIVE = new RegExp(
  String.raw`\b(?:(?<day>today|tonight|yesterday|tomorrow|this (?:morning|afternoon|evening))` +
    String.raw`|(?<count>\d{1,3}|a|an|one|two|three|four|five|six|seven) (?<unit>day|week|month|year)s? ago` +
    String.raw`|(?<which>last|next) (?<what>week|month|year|${WEEKDAYS.join('|')}))\b(?! \(\d)`,
  'gi',
);

/**
 * Put the date beside words like "yesterday", "last Friday" or "two weeks ago": a memory is read long after it was written.
 *
 * @param atMs  when it was said; days are those of UTC
 */
export function resolveRelativeDates(text: string, atMs: number): string {
  return text.replace(RELATIVE, (...match) => {
    const groups = match.at(-1) as Record<string, string | undefined>;
    return `${match[0]} (${dateOf(groups, atMs)})`;
  });
}

function dateOf({ day, count, unit, which, what }: Record<string, string | undefined>, atMs: number): string {
  if (day !== undefined) return isoDay(atMs + dayOffset(day.toLowerCase()) * DAY_MS);
  if (count !== undefined && unit !== undefined) {
    const number = NUMBERS[count.toLowerCase()] ?? Number(count);
    return shifted(unit.toLowerCase(), -number, atMs);
  }
  const step = which?.toLowerCase() === 'last' ? -1 : 1;
  const name = what?.toLowerCase() ?? 'week';
  const weekday = WEEKDAYS.indexOf(name);
  if (weekday === -1) return name === 'week' ? `week of ${shifted('week', step, atMs)}` : shifted(name, step, atMs);
  const ahead = (weekday - new Date(atMs).getUTCDay() + 7) % 7;
  const days = step === 1 ? ahead || 7 : ahead === 0 ? -7 : ahead - 7;
  return isoDay(atMs + days * DAY_MS);
}

function dayOffset(word: string): number {
  return word === 'yesterday' ? -1 : word === 'tomorrow' ? 1 : 0;
}

/** A month or a year is as exact as the words were. */
function shifted(unit: string, by: number, atMs: number): string {
  if (unit === 'day') return isoDay(atMs + by * DAY_MS);
  if (unit === 'week') return isoDay(atMs + by * 7 * DAY_MS);
  const date = new Date(atMs);
  if (unit === 'year') return String(date.getUTCFullYear() + by);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + by, 1)).toISOString().slice(0, 7);
}

function isoDay(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
