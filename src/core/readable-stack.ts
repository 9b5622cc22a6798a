import { readFileSync } from 'node:fs';
import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Causes of an error that are shown. */
const CAUSES_MAX = 5;
/** Frames of one stack that are looked up. */
const FRAMES_MAX = 30;
/** Frames whose place is kept once it is found: the same fault comes again, and to read a map takes a tenth of a second of CPU. */
const PLACES_KEPT_MAX = 1_000;
/** A frame of a built file: where it stands, line and column from 1. */
const BUILT_FRAME = /((?:file:\/\/)?\/[^\s()]*\.js):(\d+):(\d+)/g;
const BASE64 = new Map(
  [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'].map((char, value) => [char.charCodeAt(0), value]),
);
const COMMA = 44;
const SEMICOLON = 59;

const HERE = dirname(fileURLToPath(import.meta.url));
/** The folder of the program: above dist/ when it is built, above src/core/ when it is not. */
const ROOT = resolve(HERE, basename(HERE) === 'core' ? '../..' : '..');

/**
 * The stack of an error with those of its causes, by file and line of the source. The maps beside the built files are read now and let go,
 * the places found are kept: a daemon without errors pays nothing for them. Never throws; without maps the stack is what it is.
 */
export function readableStack(error: Error): string {
  const stacks: string[] = [];
  for (let [at, depth] = [error as unknown, 0]; at instanceof Error && depth < CAUSES_MAX; at = at.cause, depth += 1) {
    stacks.push(mapped(at.stack ?? `${at.name}: ${at.message}`));
  }
  return stacks.join('\ncaused by: ');
}

/** Of built frames: their place in the source. */
const places = new Map<string, string>();

function mapped(stack: string): string {
  const maps = new Map<string, SourceMap | null>();
  let frames = 0;
  return stack.replace(BUILT_FRAME, (frame, place: string, line: string, column: string) => {
    frames += 1;
    if (frames > FRAMES_MAX) return frame;
    const kept = places.get(frame);
    if (kept !== undefined) return kept;
    const file = place.startsWith('file:') ? fileURLToPath(place) : place;
    if (!maps.has(file)) maps.set(file, readMap(file));
    const position = (maps.get(file) && findPosition(maps.get(file)!, Number(line) - 1, Number(column) - 1)) ?? frame;
    if (places.size >= PLACES_KEPT_MAX) places.clear();
    places.set(frame, position);
    return position;
  });
}

interface SourceMap {
  readonly folder: string;
  readonly sources: readonly string[];
  readonly mappings: string;
}

/** Null for a file that is none of this program's, or has no map. */
function readMap(file: string): SourceMap | null {
  if (relative(ROOT, file).startsWith('..')) return null;
  try {
    const { sources, mappings } = JSON.parse(readFileSync(`${file}.map`, 'utf8')) as Pick<SourceMap, 'sources' | 'mappings'>;
    return { folder: dirname(file), sources, mappings };
  } catch {
    return null; // A source file, or a build without maps: the frame stays as it is.
  }
}

/**
 * Goes through the mappings once, up to the frame, without keeping them: decoded they would take many times their size.
 *
 * @source ECMA-426, "Mappings structure"
 */
function findPosition({ folder, sources, mappings }: SourceMap, line: number, column: number): string | undefined {
  const fields = [0, 0, 0, 0]; // Column in the built file, source, line and column in it; each a difference to the one before.
  let found: readonly number[] | undefined;
  let place = 0;
  for (let at = 0; at < line; at += 1) place = skipLine(mappings, place, fields);
  fields[0] = 0;
  while (place < mappings.length && mappings.charCodeAt(place) !== SEMICOLON) {
    const end = readSegment(mappings, place, fields);
    if (fields[0]! > column) break;
    if (end.count >= 4) found = [...fields];
    place = end.place + (mappings.charCodeAt(end.place) === COMMA ? 1 : 0);
  }
  if (!found) return undefined;
  const [, source, sourceLine, sourceColumn] = found;
  return `${relative(ROOT, resolve(folder, sources[source!] ?? ''))}:${sourceLine! + 1}:${sourceColumn! + 1}`;
}

function skipLine(mappings: string, from: number, fields: number[]): number {
  let place = from;
  fields[0] = 0;
  while (place < mappings.length && mappings.charCodeAt(place) !== SEMICOLON) {
    const end = readSegment(mappings, place, fields);
    place = end.place + (mappings.charCodeAt(end.place) === COMMA ? 1 : 0);
  }
  return place + 1;
}

/** Adds one segment to the fields; one of four or five numbers has a source. */
function readSegment(mappings: string, from: number, fields: number[]): { place: number; count: number } {
  let [place, count] = [from, 0];
  for (; place < mappings.length; count += 1) {
    const code = mappings.charCodeAt(place);
    if (code === COMMA || code === SEMICOLON) break;
    let [value, shift, digit] = [0, 0, 0];
    do {
      digit = BASE64.get(mappings.charCodeAt(place)) ?? 0;
      place += 1;
      value += (digit & 31) << shift;
      shift += 5;
    } while (digit & 32);
    if (count < fields.length) fields[count]! += value & 1 ? -(value >>> 1) : value >>> 1;
  }
  return { place, count };
}
