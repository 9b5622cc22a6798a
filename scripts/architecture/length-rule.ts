import type { Sources } from './source-files.ts';
import { maskSource } from './source-mask.ts';

/** Lines of a file without a written reason. */
export const FILE_LINES_MAX = 450;
/** Lines of a function, signature and closing brace included, without a written reason. */
export const FUNCTION_LINES_MAX = 100;
/** First lines of a file where its reason may stand. */
const REASON_LINES = 5;
/** A reason of fewer characters is none. */
const LONG = /^\s*\/\/ long: .{10,}/;

const CONTROL = /^(?:\}\s*)?(?:if|else|for|while|switch|catch|with|do|try|finally|return|case)\b/;
const METHOD = /^(?:(?:async|static|get|set|override)\s+)*\*?\s*(?:#?[\w$]+|\[[^\]]*\])(?:<[^(]*>)?\(.*\)(?::.*)?\s*\{$/;
/** Suites of tests are lists, not functions. */
const SUITE = /^describe\b/;

/** Files and functions that are longer than they may be. */
export function checkLengths(sources: Sources): string[] {
  return [...sources].flatMap(([file, text]) => {
    const lines = text.split('\n');
    const count = text.endsWith('\n') ? lines.length - 1 : lines.length;
    const excused = count <= FILE_LINES_MAX || lines.slice(0, REASON_LINES).some((line) => LONG.test(line));
    const problems = excused
      ? []
      : [`${file} has ${count} lines, more than ${FILE_LINES_MAX}; split it, or say why at its top: // long: reason`];
    const long = functionsOf(text).filter(({ start, end }) => end - start + 1 > FUNCTION_LINES_MAX && !LONG.test(lines[start - 2] ?? ''));
    return [
      ...problems,
      ...long.map(({ start, end }) => `${file}:${start} is a function of ${end - start + 1} lines, more than ${FUNCTION_LINES_MAX}`),
    ];
  });
}

interface Span {
  /** 1-based line of the head. */
  readonly start: number;
  /** 1-based line of the closing brace. */
  readonly end: number;
}

/**
 * Functions, methods and arrow functions with a body of several lines, as the formatter lays them out: the opening brace is the
 * last character of its line, and a head over several lines begins at the nearest line above with the same indentation.
 */
export function functionsOf(text: string): Span[] {
  const lines = maskSource(text).split('\n');
  const ends = braceEnds(lines);
  return lines.flatMap((line, index) => {
    const end = ends.get(index);
    if (end === undefined) return [];
    const start = headOf(lines, index);
    return isFunctionHead(lines[start]!.trim(), line.trim()) ? [{ start: start + 1, end: end + 1 }] : [];
  });
}

/** From each line whose last character is `{` to the line of its closing brace, both 0-based. */
function braceEnds(lines: readonly string[]): Map<number, number> {
  const ends = new Map<number, number>();
  const open: { line: number; last: boolean }[] = [];
  lines.forEach((line, index) => {
    const lastAt = line.trimEnd().length - 1;
    for (let at = 0; at <= lastAt; at += 1) {
      if (line[at] === '{') open.push({ line: index, last: at === lastAt });
      if (line[at] !== '}') continue;
      const opened = open.pop();
      if (opened?.last && opened.line !== index) ends.set(opened.line, index);
    }
  });
  return ends;
}

function headOf(lines: readonly string[], index: number): number {
  if (!/^\s*[)}\]>]/.test(lines[index]!)) return index;
  const indent = indentOf(lines[index]!);
  for (let above = index - 1; above >= 0; above -= 1) {
    if (lines[above]!.trim() !== '' && indentOf(lines[above]!) <= indent && !/^\s*[)}\]>|&?:]/.test(lines[above]!)) return above;
  }
  return index;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function isFunctionHead(head: string, last: string): boolean {
  if (SUITE.test(head)) return false;
  if (/=>\s*\{$/.test(last) || /\bfunction\b/.test(head)) return true;
  if (CONTROL.test(head) || CONTROL.test(last) || /\b(?:class|interface|type|enum|namespace)\b/.test(head)) return false;
  if (head === last) return METHOD.test(head);
  return /^(?:(?:async|static|get|set|override)\s+)*\*?\s*#?[\w$]+(?:<[^(]*>)?\($/.test(head) && /^\).*\{$/.test(last);
}
