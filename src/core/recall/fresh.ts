import { CHANGING, FRAME_WORDS_MIN } from './frame.ts';
import type { Entry, Posting } from './index-view.ts';
import type { RankedMemory } from './rank.ts';

/** Among so many of the best, an older memory never stands before the one that took its place. */
export const FRESH_AMONG = 20;

/**
 * The newer of two memories first, where it says the same with another value and answers the query as well as the older one.
 * Order is otherwise kept.
 */
export function freshFirst(ranked: readonly RankedMemory[]): RankedMemory[] {
  const compared = ranked.slice(0, FRESH_AMONG);
  for (let place = 0; place < compared.length; place += 1) {
    const older = compared[place]!;
    let newest = -1;
    for (let behind = place + 1; behind < compared.length; behind += 1) {
      const other = compared[behind]!;
      const answersAsWell = (older.mask & ~other.mask) === 0;
      if (answersAsWell && takesPlace(other, older) && (newest < 0 || takesPlace(other, compared[newest]!))) newest = behind;
    }
    if (newest > 0) compared.splice(place, 0, ...compared.splice(newest, 1));
  }
  return [...compared, ...ranked.slice(FRESH_AMONG)];
}

function takesPlace(newer: RankedMemory, older: RankedMemory): boolean {
  return older.entry.supersededBy === newer.entry.id || replaces(newer.entry, older.entry);
}

/** Does one memory take the place of an older one? Same frame and another value, or all words of the older one and a word of change. */
function replaces(newer: Entry, older: Entry): boolean {
  if (newer.createdAtMs <= older.createdAtMs || newer.project !== older.project) return false;
  if (newer.frame !== '' && newer.frame === older.frame) return true;
  return newer.changes && !older.changes && holdsAll(newer, older);
}

function holdsAll(newer: Entry, older: Entry): boolean {
  const held = new Set(toldTerms(newer));
  const asked = toldTerms(older);
  return asked.length >= FRAME_WORDS_MIN && asked.every((posting) => held.has(posting));
}

function toldTerms({ terms, bodyFrom }: Entry): Posting[] {
  return terms.slice(bodyFrom).filter(({ term }) => !CHANGING.has(term));
}
