/** Names offered beside a wrong one. */
const NAMES_OFFERED = 3;
/** Longest part of a name that is compared, in characters; a model may send anything as a name. */
const COMPARED_CHARS_MAX = 64;
/** Names told in one message. */
const NAMES_TOLD_MAX = 20;

/** The names most like `wrong`, best first, at most NAMES_OFFERED; empty when none shares half of its characters. */
export function nearestNames(wrong: string, names: readonly string[]): string[] {
  const asked = wrong.slice(0, COMPARED_CHARS_MAX).toLowerCase();
  return names
    .map((name) => ({ name, distance: editDistance(asked, name.toLowerCase()) }))
    .filter(({ name, distance }) => distance <= Math.max(asked.length, name.length) / 2)
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .slice(0, NAMES_OFFERED)
    .map(({ name }) => name);
}

/**
 * What a message says behind a wrong name: the names like it, and those there are.
 *
 * @param what  the names are, such as `agents of the roster`
 */
export function nameHint(wrong: string, names: readonly string[], what: string): string {
  const near = nearestNames(wrong, names).map((name) => `"${name}"`);
  const more = names.length > NAMES_TOLD_MAX ? `, and ${names.length - NAMES_TOLD_MAX} more` : '';
  const told = `${what}: ${names.slice(0, NAMES_TOLD_MAX).join(', ') || 'none'}${more}`;
  return near.length > 0 ? `did you mean ${near.join(' or ')}? ${told}` : told;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
