import type { Memory, RecalledMemory } from '../contract/memory.ts';
import type { Ranking } from '../core/memory-store.ts';
import type { HookDeps } from './hook-deps.ts';
import type { HookSession } from './hook-session.ts';
import { besideSuccessors } from './inject-successors.ts';
import { packMemories } from './inject-text.ts';

/** All lines together, in characters. */
export const MEMORIES_CHARS_MAX = 1_500;
const MEMORY_LINE_CHARS_MAX = 400;
/** Of the lines, those for what the context of a session found, and the characters they may take. */
const ABOUT_SHARE = 0.5;
const ABOUT_CHARS_MAX = 600;
/** Of the lines, those kept for standing rules and preferences, and the characters they may take. */
const STANDING_SHARE = 0.7;
const STANDING_CHARS_MAX = 950;
/** Open threads shown, and the characters they may take. */
const OPEN_MAX = 2;
const OPEN_CHARS_MAX = 300;
const OPEN_TYPES: ReadonlySet<string> = new Set(['todo', 'task', 'open']);
const OPEN_WORDS =
  /\b(?:to-?do|open (?:question|point|issue|task)|still (?:open|to do|missing|waiting|pending)|not (?:yet|done|finished|decided)|unfinished|work in progress|wip|waiting (?:for|on)|pending|blocked (?:by|on)|next steps?|follow[- ]up|in review)\b/i;

export interface StartMemories {
  readonly text: string;
  readonly shown: Memory[];
}

/**
 * What a session is to know before anything is asked, in groups: what the words of its context found, standing rules and preferences, what is open, then the most recent
 * facts. Each group has its lines; what one leaves over goes to the last. A superseded memory is in none of them.
 */
export async function startMemories(
  deps: HookDeps,
  { reader, project }: HookSession,
  ranking: Ranking,
  about: readonly RecalledMemory[],
): Promise<StartMemories> {
  const { limit } = ranking;
  const current = (memories: readonly Memory[]): Memory[] => memories.filter((memory) => memory.superseded_by === null);
  const asked = (await besideSuccessors(deps.memories, reader, about)).slice(0, Math.ceil(limit * ABOUT_SHARE));
  const isNew = ({ id }: Memory): boolean => !asked.some((one) => one.id === id);
  const standing = current(await deps.memories.ranked(reader, { ...ranking, standing: true, limit: 2 * limit })).filter(isNew);
  const kept = standing.slice(0, Math.ceil((limit - asked.length) * STANDING_SHARE));
  const others = current(await deps.memories.ranked(reader, { ...ranking, limit: 3 * limit })).filter(
    (memory) => isNew(memory) && !kept.some(({ id }) => id === memory.id),
  );
  const open = others.filter(isOpen).slice(0, OPEN_MAX);
  const recent = others.filter((memory) => !open.includes(memory));
  const groups: [heading: string, memories: readonly Memory[], charsMax: number][] = [
    ['About this session:', asked, ABOUT_CHARS_MAX],
    ['Standing rules and preferences:', kept, STANDING_CHARS_MAX],
    ['Open:', open.slice(0, Math.max(0, limit - asked.length - kept.length)), OPEN_CHARS_MAX],
    ['Recent:', recent.slice(0, Math.max(0, limit - asked.length - kept.length - open.length)), MEMORIES_CHARS_MAX],
  ];
  const parts: string[] = [];
  const shown: Memory[] = [];
  let left = MEMORIES_CHARS_MAX;
  for (const [heading, memories, charsMax] of groups) {
    const packed = packMemories(memories, Math.min(charsMax, left - heading.length - 1), MEMORY_LINE_CHARS_MAX, project);
    if (packed.shown.length === 0) continue;
    const part = `${heading}\n${packed.text}`;
    left -= part.length + 1;
    parts.push(part);
    shown.push(...packed.shown);
  }
  return { text: parts.join('\n'), shown };
}

/** Begun and not ended, as far as its words say. */
function isOpen({ content, type }: Memory): boolean {
  return OPEN_TYPES.has(type) || OPEN_WORDS.test(content);
}
