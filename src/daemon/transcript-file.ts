import { constants } from 'node:fs';
import { type FileHandle, lstat, open, realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, extname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import type { TranscriptTurn } from '../core/memory-store.ts';
import { turnOfLine, turnsOfText } from '../core/transcript-parse.ts';
import { IDENTITY_FILES } from './identity.ts';

/** Of a larger file the end is read; unit: bytes. */
export const TRANSCRIPT_BYTES_MAX = 32 * 1_048_576;
/** Lines taken apart before others get a turn; unit: characters. */
const SLICE_CHARS = 1_048_576;
/** Where the harnesses we know keep what was said, below the home folder. Their settings and credentials stand elsewhere. */
const HARNESS_FOLDERS = ['.claude/projects', '.codex/sessions', '.pi/agent/sessions', '.openclaw/agents', '.local/share/opencode/storage'];
const SUFFIXES = ['.jsonl', '.json', '.txt', '.md'];

export interface TranscriptFile {
  readonly turns: readonly TranscriptTurn[];
  /** What kept us from reading it, or all of it; undefined when it was read whole. */
  readonly problem?: string;
}

export interface TranscriptRoots {
  /** Workspace. */
  readonly folder: string;
  /** From the configuration. */
  readonly roots: readonly string[];
  /** Only the configured roots: for callers who are not the user of this machine. */
  readonly isForeign?: boolean;
}

/**
 * Read a transcript that a harness names. A hook must not make the daemon read just any file for its caller, so only files below the folders of
 * known harnesses, the workspace and the configured roots are read, for a caller with a narrow token below the configured roots alone: by their real path, symbolic links resolved, ordinary files of a fitting
 * suffix, none that is hidden below the root. Never throws: a session ends whatever becomes of its file.
 */
export async function readTranscriptFile(path: string, { folder, roots, isForeign = false }: TranscriptRoots): Promise<TranscriptFile> {
  try {
    const real = await realpath(resolve(folder, expandHome(path)));
    const own = isForeign ? [] : [...HARNESS_FOLDERS.map((name) => join(homedir(), name)), folder];
    if (!(await isBelowAny(real, [...own, ...roots.map(expandHome)])) || (await isKeptBack(real, folder))) {
      return refused(`${path} lies outside the folders transcripts are read from; name its folder in memory.transcripts.roots`);
    }
    if (!SUFFIXES.includes(extname(real).toLowerCase()))
      return refused(`${path} is no transcript: its name must end in ${SUFFIXES.join(', ')}`);
    // Not blocking: opening a pipe would wait for its writer.
    const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      await requireStill(file, real, path);
      return await readTurns(file, path);
    } finally {
      await file.close();
    }
  } catch (error) {
    return refused(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Our own databases, who agents are and what they remember lie in the workspace too, and are no transcripts. */
async function isKeptBack(real: string, folder: string): Promise<boolean> {
  const isIdentity = IDENTITY_FILES.some((name) => name.toLowerCase() === basename(real).toLowerCase());
  if (isIdentity && (await isBelowAny(real, [folder]))) return true;
  return isBelowAny(
    real,
    ['data', 'memory', 'agents'].map((name) => join(folder, name)),
  );
}

/** What was opened is what was looked at: no part of the path became a link in between. @throws Error */
async function requireStill(file: FileHandle, real: string, path: string): Promise<void> {
  const [opened, named] = [await file.stat(), await lstat(real)];
  if (opened.ino === named.ino && opened.dev === named.dev && (await realpath(real)) === real) return;
  throw new Error(`${path} was moved while it was opened`);
}

async function readTurns(file: FileHandle, path: string): Promise<TranscriptFile> {
  const stats = await file.stat();
  if (!stats.isFile()) return refused(`${path} is no ordinary file`);
  const bytes = Math.min(stats.size, TRANSCRIPT_BYTES_MAX);
  const buffer = Buffer.alloc(bytes);
  const { bytesRead } = await file.read(buffer, 0, bytes, stats.size - bytes);
  const text = buffer.toString('utf8', 0, bytesRead);
  if (stats.size === bytes) return { turns: await turnsOf(text) };
  // The first line is cut somewhere.
  const turns = await turnsOf(text.slice(text.indexOf('\n') + 1));
  return { turns, problem: `${path} has ${stats.size} bytes; its last ${TRANSCRIPT_BYTES_MAX} were read` };
}

async function turnsOf(text: string): Promise<TranscriptTurn[]> {
  if (!/^\s*\{/.test(text)) return turnsOfText(text);
  const turns: TranscriptTurn[] = [];
  let sinceBreath = 0;
  for (let start = 0; start < text.length; ) {
    const found = text.indexOf('\n', start);
    const end = found === -1 ? text.length : found;
    const turn = turnOfLine(text.slice(start, end));
    if (turn) turns.push(turn);
    sinceBreath += end - start;
    start = end + 1;
    if (sinceBreath < SLICE_CHARS) continue;
    sinceBreath = 0;
    await new Promise((next) => setImmediate(next));
  }
  // A single object over many lines.
  return turns.length === 0 ? turnsOfText(text).filter((turn) => turn.role !== 'transcript') : turns;
}

async function isBelowAny(real: string, folders: readonly string[]): Promise<boolean> {
  for (const folder of folders) {
    const root = await realpath(folder).catch(() => undefined); // A folder that is not there holds nothing.
    if (root === undefined) continue;
    const below = relative(root, real);
    const isInside = below !== '' && !below.startsWith('..') && !isAbsolute(below);
    if (isInside && !below.split(sep).some((part) => part.startsWith('.'))) return true;
  }
  return false;
}

function expandHome(path: string): string {
  return path === '~' || path.startsWith('~/') ? join(homedir(), path.slice(2)) : path;
}

function refused(problem: string): TranscriptFile {
  return { turns: [], problem };
}
