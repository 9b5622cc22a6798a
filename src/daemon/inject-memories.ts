import type { RecalledMemory } from '../contract/memory.ts';
import { bestSentences, saysTheSame } from '../core/recall/excerpt.ts';
import { readQuery } from '../core/recall/query.ts';
import { memoryLine, oneLine } from './inject-text.ts';

/** Of the absolute score: so far above what superseded it, the older memory is what was asked for, and the newer one about something else. */
const CLEARLY_ABOVE = 0.1;

export interface PackedMemories {
  readonly text: string;
  readonly shown: RecalledMemory[];
}

/**
 * As many of the memories as fit, in order: one that does not fit is passed over for the next, of a long one its best sentences stand,
 * and what was said before or has been superseded by another of them that answers as well is left out.
 */
export function packRecalled(memories: readonly RecalledMemory[], query: string, charsMax: number, lineCharsMax: number): PackedMemories {
  const stems = new Set(readQuery(query).terms.map((term) => term.stem));
  const scores = new Map(memories.map((memory) => [memory.id, memory.score]));
  const lines: string[] = [];
  const shown: RecalledMemory[] = [];
  let left = charsMax;
  for (const memory of memories) {
    const newer = memory.superseded_by === null ? undefined : scores.get(memory.superseded_by);
    if (newer !== undefined && memory.score - newer < CLEARLY_ABOVE) continue;
    if (shown.some((other) => saysTheSame(other.content, memory.content))) continue;
    const line = lineOf(memory, stems, lineCharsMax);
    if (line.length + 1 > left) continue;
    left -= line.length + 1;
    lines.push(line);
    shown.push(memory);
  }
  return { text: lines.join('\n'), shown };
}

function lineOf(memory: RecalledMemory, stems: ReadonlySet<string>, charsMax: number): string {
  const whole = memoryLine(memory, Number.MAX_SAFE_INTEGER);
  if (whole.length <= charsMax) return whole;
  const room = charsMax - (whole.length - oneLine(memory.content).length);
  const content = bestSentences(memory.content, stems, room) || memory.content;
  return memoryLine({ ...memory, content }, charsMax);
}
