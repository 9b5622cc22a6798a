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
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  const lines: string[] = [];
  const shown: RecalledMemory[] = [];
  let left = charsMax;
  for (const memory of memories) {
    const newer = newerOf(memory, byId);
    if (newer !== undefined && memory.score - newer.score < CLEARLY_ABOVE) continue;
    if (shown.some((other) => saysTheSame(other.content, memory.content))) continue;
    const line = lineOf(memory, stems, lineCharsMax);
    if (line.length + 1 > left) continue;
    left -= line.length + 1;
    lines.push(line);
    shown.push(memory);
  }
  return { text: lines.join('\n'), shown };
}

/** The one of them that took its place. Where the links lead in a circle, the memory that was stored last stands, so that one always does. */
function newerOf(memory: RecalledMemory, byId: ReadonlyMap<string, RecalledMemory>): RecalledMemory | undefined {
  const next = ({ superseded_by: id }: RecalledMemory) => (id === null ? undefined : byId.get(id));
  const newer = next(memory);
  const passed = new Set([memory]);
  let last = newer;
  while (last !== undefined && !passed.has(last)) {
    passed.add(last);
    last = next(last);
  }
  if (last !== memory) return newer;
  const stands = [...passed].reduce((best, other) => (isNewer(other, best) ? other : best));
  return stands === memory ? undefined : newer;
}

function isNewer(one: RecalledMemory, other: RecalledMemory): boolean {
  return one.created_at === other.created_at ? one.id < other.id : one.created_at > other.created_at;
}

function lineOf(memory: RecalledMemory, stems: ReadonlySet<string>, charsMax: number): string {
  const whole = memoryLine(memory, Number.MAX_SAFE_INTEGER);
  if (whole.length <= charsMax) return whole;
  const room = charsMax - (whole.length - oneLine(memory.content).length);
  const content = bestSentences(memory.content, stems, room) || memory.content;
  return memoryLine({ ...memory, content }, charsMax);
}
