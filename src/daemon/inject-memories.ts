import type { RecalledMemory } from '../contract/memory.ts';
import { attributeOf } from '../core/recall/attributes.ts';
import { bestSentences, saysTheSame } from '../core/recall/excerpt.ts';
import { readQuery } from '../core/recall/query.ts';
import { wordsIn } from '../core/recall/words.ts';
import { newestOf } from './inject-successors.ts';
import { memoryLine, oneLine } from './inject-text.ts';

/** Asks how things were: then the older value is part of the answer. */
const ASKS_FOR_THE_PAST =
  /\b(?:previous(?:ly)?|former(?:ly)?|used to|originally|before (?:that|the change)|in the past|histor(?:y|ical(?:ly)?)|old)\b/i;

export interface PackedMemories {
  readonly text: string;
  readonly shown: RecalledMemory[];
}

/**
 * Returns as many of the memories as fit, in order. One that does not fit is passed over for the next, a long one is cut to its best sentences,
 * and one that says what another one says is left out. A superseded memory is shown only behind its successor, marked, and only for what the
 * successor does not answer.
 *
 * @param project  of the session: a memory of another project is labelled with it
 */
export function packRecalled(
  memories: readonly RecalledMemory[],
  query: string,
  charsMax: number,
  lineCharsMax: number,
  project?: string,
): PackedMemories {
  const stems = new Set(readQuery(query).terms.map((term) => term.stem));
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  const asksForThePast = ASKS_FOR_THE_PAST.test(query);
  const lines: string[] = [];
  const shown: RecalledMemory[] = [];
  let left = charsMax;
  for (const memory of newestFirst(memories, byId)) {
    const newest = newestOf(memory, byId);
    if (newest !== memory && !(shown.includes(newest) && (asksForThePast || addsTo(newest, memory, stems)))) continue;
    if (shown.some((other) => saysTheSame(other.content, memory.content))) continue;
    const line = lineOf(memory, stems, lineCharsMax, { project, superseded: newest !== memory });
    if (line.length + 1 > left) continue;
    left -= line.length + 1;
    lines.push(line);
    shown.push(memory);
  }
  return { text: lines.join('\n'), shown };
}

/** The same memories, each successor before what it replaces. */
function newestFirst(memories: readonly RecalledMemory[], byId: ReadonlyMap<string, RecalledMemory>): RecalledMemory[] {
  return [...new Set(memories.flatMap((memory) => [newestOf(memory, byId), memory]))];
}

/** The older memory holds something of the query that its successor does not. */
function addsTo(newer: RecalledMemory, older: RecalledMemory, stems: ReadonlySet<string>): boolean {
  const told = new Set(wordsIn(newer.content).flatMap((word) => [word.stem, attributeOf(word.stem)]));
  return wordsIn(older.content).some(({ stem }) => stems.has(stem) && !told.has(stem) && !told.has(attributeOf(stem)));
}

function lineOf(
  memory: RecalledMemory,
  stems: ReadonlySet<string>,
  charsMax: number,
  mark: { readonly project: string | undefined; readonly superseded: boolean },
): string {
  const whole = memoryLine(memory, Number.MAX_SAFE_INTEGER, mark);
  if (whole.length <= charsMax) return whole;
  const room = charsMax - (whole.length - oneLine(memory.content).length);
  const content = bestSentences(memory.content, stems, room) || memory.content;
  return memoryLine({ ...memory, content }, charsMax, mark);
}
