import type { DocumentFormat } from '../contract/documents.ts';

/** Pieces are filled up to this, in characters: long enough to be understood, short enough to be about one thing. */
export const CHUNK_CHARS = 1_000;
/** Longest heading that is kept above a piece, in characters. */
const HEADING_CHARS_MAX = 200;
const HEADING_MARK = /^#{1,6}(?=\s)/;
const FENCE = /^\s*(```+|~~~+)/;

export interface CutDocument {
  /** The first heading; null when there is none. */
  readonly title: string | null;
  /** In the order of the document, none empty; each begins with the headings it stands under. */
  readonly chunks: readonly string[];
}

interface Section {
  readonly path: readonly string[];
  readonly text: string;
}

/**
 * Cut a document where it is cut already: at headings, then between paragraphs, then lines, then sentences, then words. Text inside a code
 * fence has no headings. Nothing is lost but the space between pieces.
 *
 * @param title  in place of the first heading
 */
export function cutDocument(content: string, format: DocumentFormat, title?: string): CutDocument {
  const text = content.replace(/\r\n?/g, '\n');
  const sections = format === 'markdown' ? sectionsOf(text) : [{ path: [], text }];
  const first = title ?? sections.find(({ path }) => path.length > 0)?.path[0] ?? null;
  const chunks = sections.flatMap(({ path, text: body }) => {
    const above = headline(first === null || path[0] === first ? path : [first, ...path]);
    return pieces(body.trim(), CHUNK_CHARS).map((piece) => (above === '' ? piece : `${above}\n${piece}`));
  });
  return { title: first, chunks };
}

/** Texts with the headings above them; a heading without text of its own stands above those below it. */
function sectionsOf(text: string): Section[] {
  const sections: Section[] = [];
  const path: (string | undefined)[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  const close = (): void => {
    const body = lines.join('\n');
    if (body.trim() !== '') sections.push({ path: path.filter((name) => name !== undefined), text: body });
    lines = [];
  };
  for (const line of text.split('\n')) {
    const mark = FENCE.exec(line)?.[1];
    if (fence === undefined) fence = mark;
    else if (mark?.startsWith(fence)) fence = undefined;
    const heading = fence === undefined ? headingOf(line) : undefined;
    if (!heading) {
      lines.push(line);
      continue;
    }
    close();
    path.length = heading.level - 1;
    path[heading.level - 1] = heading.name.slice(0, HEADING_CHARS_MAX);
  }
  close();
  return sections;
}

/** A heading may be closed by `#` as well; its ends are trimmed by hand, for a pattern would try every way to share the spaces out. */
function headingOf(line: string): { readonly level: number; readonly name: string } | undefined {
  const level = HEADING_MARK.exec(line)?.[0].length;
  if (level === undefined) return undefined;
  const written = line.slice(level).trim();
  if (written === '') return undefined;
  let end = written.length;
  while (end > 0 && written[end - 1] === '#') end -= 1;
  return { level, name: written.slice(0, end).trimEnd() || '#' };
}

function headline(path: readonly string[]): string {
  return path.join(' › ').slice(0, HEADING_CHARS_MAX);
}

/** Largest cut first; the last one cuts anywhere. */
const CUTS = [/\n{2,}/, /\n/, /(?<=[.!?…])\s+/, /\s+/];
const JOINTS = ['\n\n', '\n', ' ', ' '];

function pieces(text: string, charsMax: number, level = 0): string[] {
  if (text.length <= charsMax) return text.trim() === '' ? [] : [text];
  const cut = CUTS[level];
  if (cut === undefined) return hardCut(text, charsMax);
  const filled: string[] = [];
  let current = '';
  for (const part of text.split(cut)) {
    const joined = current === '' ? part : current + JOINTS[level] + part;
    if (joined.length <= charsMax) {
      current = joined;
      continue;
    }
    if (current.trim() !== '') filled.push(current);
    const smaller = part.length <= charsMax ? [part] : pieces(part, charsMax, level + 1);
    filled.push(...smaller.slice(0, -1));
    current = smaller.at(-1) ?? '';
  }
  if (current.trim() !== '') filled.push(current);
  return filled;
}

/** Text without any space, such as data; a pair of surrogates stays together. */
function hardCut(text: string, charsMax: number): string[] {
  const parts: string[] = [];
  for (let from = 0; from < text.length; ) {
    const to = Math.min(from + charsMax, text.length);
    const isSplit = to < text.length && /[\ud800-\udbff]/.test(text[to - 1]!);
    parts.push(text.slice(from, isSplit ? to - 1 : to));
    from = isSplit ? to - 1 : to;
  }
  return parts;
}
