import type { Memory } from '../contract/memory.ts';
import { newestOf } from './inject-successors.ts';

const CUT_MARK = '…';
const SUPERSEDED_MARK = ', superseded by a newer one above';
/** Of the name of another project; unit: characters. */
const PROJECT_CHARS_MAX = 40;
/** Control characters, and those that turn the direction of text around. */
const INVISIBLE = /[\s\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu;

export interface InjectSection {
  /** Markdown heading text; without one the text stands alone. */
  readonly heading?: string;
  readonly text: string;
  /** Characters of the text that are its own; what others leave over may be added. */
  readonly charsMax: number;
}

/** At most `charsMax` characters, never half a surrogate pair, with a mark where it was cut. */
export function cutText(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  if (charsMax <= CUT_MARK.length) return '';
  const cut = text.slice(0, charsMax - CUT_MARK.length);
  return (/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut) + CUT_MARK;
}

/** Any text on one line: a memory is data, and on a line of its own behind `- ` it cannot pose as a heading of ours. */
export function oneLine(text: string): string {
  return text.replace(INVISIBLE, ' ').trim();
}

/** Several lines of data, each quoted, so that none can pose as ours. */
export function quoted(text: string): string {
  if (text === '') return '';
  return text
    .split(/\r\n|[\n\r\u0085\u2028\u2029\v\f]/)
    .map((line) => `> ${oneLine(line)}`.trimEnd())
    .join('\n');
}

/** What a line says of its memory beside type and date. */
export interface LineMark {
  /** Of the session; a memory of another project names its own. */
  readonly project?: string | undefined;
  /** A newer memory, shown before it, took its place. */
  readonly superseded?: boolean;
}

/** `- text (type, 2025-03-01)`, followed within the brackets by `project shop` of another project and `superseded` of an older value. */
export function memoryLine(
  memory: Pick<Memory, 'content' | 'type' | 'created_at' | 'project'>,
  charsMax: number,
  { project, superseded = false }: LineMark = {},
): string {
  const other = project !== undefined && memory.project !== project ? memory.project : null;
  const elsewhere = other === null ? '' : `, project ${cutText(oneLine(lastPart(other)), PROJECT_CHARS_MAX)}`;
  const tail = ` (${oneLine(memory.type)}, ${memory.created_at.slice(0, 10)}${elsewhere}${superseded ? SUPERSEDED_MARK : ''})`;
  return `- ${cutText(oneLine(memory.content), Math.max(0, charsMax - tail.length - 2))}${tail}`;
}

/** The last folder of a path, which people call their project. */
function lastPart(path: string): string {
  return path.split(/[\\/]/).findLast((part) => part !== '') ?? path;
}

/**
 * As many memories as fit, in order; one that does not fit is passed over for the next, and a superseded one is shown behind its
 * successor alone.
 *
 * @param project  of the session: a memory of another project is labelled with it
 * @returns the lines, and the memories they show
 */
export function packMemories<M extends Memory>(
  memories: readonly M[],
  charsMax: number,
  lineCharsMax: number,
  project?: string,
): { text: string; shown: M[] } {
  const lines: string[] = [];
  const shown: M[] = [];
  let left = charsMax;
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  for (const memory of memories) {
    const newest = newestOf(memory, byId);
    if (newest !== memory && !shown.includes(newest)) continue;
    const line = memoryLine(memory, lineCharsMax, { project, superseded: newest !== memory });
    if (line.length + 1 > left) continue;
    left -= line.length + 1;
    lines.push(line);
    shown.push(memory);
  }
  return { text: lines.join('\n'), shown };
}

/**
 * Sections in order, each within its own budget; characters that one leaves over go to the ones before and after it that were cut, first come
 * first served. The whole never passes `charsMax` as long as the budgets and headings do not.
 */
export function packSections(sections: readonly InjectSection[], charsMax: number): string {
  const filled = sections.filter((section) => section.text !== '');
  const own = filled.map((section) => Math.min(section.text.length, section.charsMax));
  let left = charsMax - filled.reduce((sum, section, index) => sum + own[index]! + frameChars(section), 0);
  const parts = filled.map((section, index) => {
    const more = Math.max(0, Math.min(section.text.length - own[index]!, left));
    left -= more;
    const text = cutText(section.text, own[index]! + more);
    return section.heading === undefined ? text : `## ${section.heading}\n\n${text}`;
  });
  return parts.join('\n\n');
}

/** What sections take of an inject when each keeps to its own budget, headings and blank lines included; in characters. */
export function sectionsChars(sections: readonly InjectSection[]): number {
  return sections
    .filter((section) => section.text !== '')
    .reduce((sum, section) => sum + frameChars(section) + Math.min(section.text.length, section.charsMax), 0);
}

function frameChars({ heading }: InjectSection): number {
  return heading === undefined ? 2 : heading.length + 7;
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** `Monday 2025-03-03 14:05 +01:00`, in the time zone of this machine: that is the one people mean by "today". */
export function localTime(ms: number): string {
  const offset = -new Date(ms).getTimezoneOffset();
  const local = new Date(ms + offset * 60_000);
  const two = (value: number): string => String(value).padStart(2, '0');
  const zone = `${offset < 0 ? '-' : '+'}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${DAYS[local.getUTCDay()]} ${local.toISOString().slice(0, 16).replace('T', ' ')} ${zone}`;
}
