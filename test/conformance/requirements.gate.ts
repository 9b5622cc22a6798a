import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import type { Requirement } from './requirements.row.ts';

/** Lower-case segments joined by dots, at least two; underscores for the names of MCP tools and their parameters. */
const ID_SHAPE = /^[a-z][a-z0-9-]*(\.[a-z0-9]+([_-][a-z0-9]+)*)+$/;
const SOURCE_SHAPE = /^spec\/(hooks|mcp-server|multi-agent|native-runtime|signal-system) "[^"]+"$/;

/** `verifies('a'` or `verifies(['a', 'b'`, over several lines too. */
const CITATION = /\bverifies\(\s*(?:\[([^\]]*)\]|(['"][^'"]*['"]))/g;
const QUOTED = /(['"])([^'"]*)\1/g;
/** Comments that start their line, and blocks; a commented-out test proves nothing. */
const COMMENT = /^\s*\/\/.*$|^\s*\/\*[\s\S]*?\*\//gm;

/** One place in a test file that claims to prove a promise. */
export interface Citation {
  readonly id: string;
  /** Path of the test file, below `test/`, with forward slashes. */
  readonly file: string;
}

/**
 * Find what is wrong with the list of promises and the tests that cite it. Pure.
 *
 * @returns one sentence per problem, in the order of the rows and then of the citations; empty when all is well
 */
export function checkRequirements(rows: readonly Requirement[], citations: readonly Citation[]): string[] {
  const cited = new Map(citations.map(({ id, file }) => [id, file]));
  const known = new Set(rows.map(({ id }) => id));
  return [
    ...rows.flatMap((row, index) => checkShape(row, rows.slice(0, index))),
    ...rows.flatMap((row) => checkState(row, cited.get(row.id))),
    ...citations.filter(({ id }) => !known.has(id)).map(({ id, file }) => `${file} cites ${id}, which is not in the list`),
  ];
}

function checkShape({ id, source, behaviour }: Requirement, earlier: readonly Requirement[]): string[] {
  const problems = [];
  if (!ID_SHAPE.test(id)) problems.push(`${id} is not a dotted lower-case id`);
  if (earlier.some((row) => row.id === id)) problems.push(`${id} is listed twice`);
  if (!SOURCE_SHAPE.test(source)) problems.push(`${id} names no known document and heading: ${source}`);
  if (behaviour.trim() === '') problems.push(`${id} says no behaviour`);
  if (earlier.some((row) => row.behaviour === behaviour)) problems.push(`${id} repeats the behaviour of another row`);
  return problems;
}

function checkState({ id, state }: Requirement, file: string | undefined): string[] {
  if (state === 'tested' && file === undefined) return [`${id} is marked tested, but no test cites it`];
  if (state === 'open' && file !== undefined) return [`${id} is marked open, but ${file} cites it: mark it tested`];
  return [];
}

/** The ids that the text of one test file cites, in order, repeats included. Comments do not count. */
export function readCitations(text: string): string[] {
  const calls = text.replace(COMMENT, '').matchAll(CITATION);
  return [...calls].flatMap(([, list, single]) => [...(list ?? single ?? '').matchAll(QUOTED)].map((match) => match[2] ?? ''));
}

/**
 * The citations of every `*.test.ts` below a folder.
 *
 * @param folder   absolute path, read recursively
 * @param exclude  files to leave out, relative to the folder with forward slashes
 */
export function collectCitations(folder: string, exclude: readonly string[]): Citation[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.test.ts'))
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .filter((file) => !exclude.includes(file))
    .sort()
    .flatMap((file) => readCitations(readFileSync(join(folder, file), 'utf8')).map((id) => ({ id, file })));
}
