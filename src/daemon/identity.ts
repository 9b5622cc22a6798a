import { readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { isAbsolute, join, relative, resolve } from 'node:path';
import type { AgentYaml } from '../contract/config.ts';
import { AgentName, DEFAULT_AGENT } from '../contract/ids.ts';
import { AppError } from '../core/errors.ts';
import { bytesOf, pathWithin, useInside } from './workspace-file.ts';

/** Files an identity is made of. */
export const IDENTITY_FILES = ['AGENTS.md', 'SOUL.md', 'IDENTITY.md', 'USER.md', 'TOOLS.md', 'MEMORY.md'] as const;
export type IdentityFile = (typeof IDENTITY_FILES)[number];
/** More of a file is never read; unit: bytes. */
export const IDENTITY_BYTES_MAX = 1_048_576;
/** Cached file contents; agents times files. */
const CACHED_FILES_MAX = 512;
/** Characters of all cached contents together. */
const CACHED_CHARS_MAX = 8_388_608;
/** Keys, tokens and databases stand there: nothing of it is shown to a model. */
const PRIVATE_FOLDERS = ['.daemon', '.secrets', 'data'] as const;
const NAME_CHARS_MAX = 80;
const DESCRIPTION_CHARS_MAX = 200;

export interface Identity {
  /** Undefined when neither agent.yaml nor IDENTITY.md says one. */
  readonly name: string | undefined;
  readonly description: string | undefined;
  /** Trimmed text by file; absent and empty files are left out. */
  readonly files: Readonly<Partial<Record<IdentityFile, string>>>;
  /** Where each came from: the agent's own folder or the workspace's. */
  readonly origins: Readonly<Partial<Record<IdentityFile, 'agent' | 'workspace'>>>;
  /** Path of each within the workspace. */
  readonly paths: Readonly<Partial<Record<IdentityFile, string>>>;
  /** Files that are damaged or too long, lead where they may not, or are named and not there; and what was made of them. */
  readonly warnings: readonly string[];
}

export interface IdentityOptions {
  readonly folder: string;
  readonly config: AgentYaml;
}

interface ReadText {
  readonly text: string | undefined;
  /** What is wrong with it, to be said behind its path. */
  readonly problem: string | undefined;
}

interface CachedFile extends ReadText {
  readonly stamp: string;
}

const cache = new Map<string, CachedFile>();
let cachedChars = 0;

/**
 * The identity of an agent: each file from `agents/<name>/`, else from the workspace itself. A file that leads out of the workspace by a
 * symbolic link, or to where keys and databases are, is taken as absent with a warning; so is a folder or a pipe, without one. A personality that
 * cannot be taken has a warning as well. Invalid UTF-8 is replaced, with a warning. Files are read again only when they change.
 *
 * Synchronous: asking the file system about a local file costs less than handing the question to another thread.
 *
 * @throws AppError invalid_request when the name is not one an agent can have
 * @source spec/multi-agent, "Identity inheritance"
 */
export function loadIdentity({ folder, config }: IdentityOptions, agent: string = DEFAULT_AGENT): Identity {
  if (!AgentName.safeParse(agent).success) throw new AppError('invalid_request', { detail: `${JSON.stringify(agent)} is no agent name` });
  const files: Partial<Record<IdentityFile, string>> = {};
  const origins: Partial<Record<IdentityFile, 'agent' | 'workspace'>> = {};
  const paths: Partial<Record<IdentityFile, string>> = {};
  const warnings: string[] = [];
  const entry = config.agents?.roster.find((candidate) => candidate.name === agent);
  // MEMORY.md of the workspace is made of what all agents remember: an agent that may not read that does not inherit it.
  const inheritsMemory = agent === DEFAULT_AGENT || (entry?.read_policy ?? 'shared') === 'shared';
  for (const name of IDENTITY_FILES) {
    const own = [...(name === 'SOUL.md' && entry?.personality ? [entry.personality] : []), join('agents', agent, name)];
    const shared = name === 'MEMORY.md' && !inheritsMemory ? [] : [name];
    for (const path of [...own, ...shared]) {
      const { text, problem } = readWorkspaceText(folder, path);
      const isNamed = path === entry?.personality && text === undefined;
      if (problem !== undefined || isNamed) warnings.push(`${isNamed ? 'personality ' : ''}${path} ${problem ?? 'is no file with text'}`);
      if (text === undefined) continue;
      files[name] = text;
      origins[name] = own.includes(path) ? 'agent' : 'workspace';
      paths[name] = path;
      break;
    }
  }
  return { ...nameOf(agent, config, files['IDENTITY.md'], origins['IDENTITY.md']), files, origins, paths, warnings };
}

/** Names of agents that have a folder, sorted. */
export function agentFolders(folder: string): string[] {
  try {
    const entries = readdirSync(join(folder, 'agents'), { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() && AgentName.safeParse(entry.name).success)
      .map((entry) => entry.name)
      .sort();
  } catch {
    return []; // Without the folder there are no further agents.
  }
}

/** An agent of its own name does not answer to the workspace's. */
function nameOf(agent: string, config: AgentYaml, text: string | undefined, origin: 'agent' | 'workspace' | undefined) {
  const isDefault = agent === DEFAULT_AGENT;
  const own = isDefault || origin === 'agent' ? text : undefined;
  const said = (field: string): string | undefined => {
    const match = new RegExp(`^[^\\p{L}\\p{N}\\n]*${field}[^\\p{L}\\p{N}\\n:]*:[*_\\s]*([^\\n]+)$`, 'imu').exec(own ?? '');
    return match?.[1]?.replace(/[*_`\s]+$/, '').trim() || undefined;
  };
  const name = (isDefault ? config.agent?.name : undefined) ?? said('name') ?? (isDefault ? undefined : agent);
  const description = (isDefault ? config.agent?.description : undefined) ?? said('description') ?? said('role');
  return { name: line(name, NAME_CHARS_MAX), description: line(description, DESCRIPTION_CHARS_MAX) };
}

function line(text: string | undefined, charsMax: number): string | undefined {
  return text?.replace(/\s+/g, ' ').trim().slice(0, charsMax) || undefined;
}

const ABSENT: ReadText = { text: undefined, problem: undefined };
const OUTSIDE: ReadText = { text: undefined, problem: 'leads out of the workspace: it is not read' };
const PRIVATE: ReadText = { text: undefined, problem: `leads into one of ${PRIVATE_FOLDERS.join(', ')}: it is not read` };

/** A text of the workspace, at most IDENTITY_BYTES_MAX of it; never from outside or from where keys and databases are. */
export function readWorkspaceText(folder: string, path: string): ReadText {
  const file = resolve(folder, path);
  if (!isWithin(resolve(folder), file)) return OUTSIDE;
  try {
    return readCached(folder, file);
  } catch {
    return ABSENT; // Unreadable, or gone between two looks: a poorer identity, not a session that cannot start.
  }
}

function readCached(folder: string, file: string): ReadText {
  const stats = statSync(file, { throwIfNoEntry: false });
  if (!stats?.isFile()) return ABSENT;
  const stamp = `${stats.dev}:${stats.ino}:${stats.mtimeMs}:${stats.size}`;
  const known = cache.get(file);
  if (known?.stamp === stamp) return known;
  const root = realpathSync(folder);
  // Links within the workspace are followed here, and never again when it is opened.
  const path = pathWithin(folder, relative(resolve(folder), file));
  const read = path === undefined ? OUTSIDE : isPrivate(root, join(root, path)) ? PRIVATE : readStart(root, path);
  const chars = read.text?.length ?? 0;
  if (cache.size >= CACHED_FILES_MAX || cachedChars + chars > CACHED_CHARS_MAX) {
    cache.clear();
    cachedChars = 0;
  }
  cachedChars += chars - (cache.get(file)?.text?.length ?? 0);
  cache.set(file, { stamp, ...read });
  return read;
}

/** Both without links. */
function isPrivate(folder: string, file: string): boolean {
  return PRIVATE_FOLDERS.some((name) => isInPrivate(join(folder, name), file));
}

/** By name, in whatever case a file system takes for the same; and where a link of that name leads. */
function isInPrivate(folder: string, file: string): boolean {
  if (isWithin(folder.toLowerCase(), file.toLowerCase())) return true;
  try {
    return isWithin(realpathSync(folder), file);
  } catch {
    return false; // There is none.
  }
}

function isWithin(folder: string, file: string): boolean {
  const path = relative(folder, file);
  return path !== '' && !path.startsWith('..') && !isAbsolute(path);
}

function readStart(root: string, path: string): ReadText {
  return useInside(root, path, (file, { size }: Stats) => {
    const bytes = bytesOf(file, IDENTITY_BYTES_MAX);
    // `stream` keeps back a character cut in half at the limit instead of showing it as damaged.
    const isCut = size > bytes.length;
    const { text, isDamaged } = decode(bytes, isCut);
    const damage = isDamaged ? 'is not valid UTF-8: what cannot be read stands as \uFFFD' : undefined;
    const cut = isCut ? `has ${size} bytes: the first ${IDENTITY_BYTES_MAX} count` : undefined;
    return { text: text.trim() || undefined, problem: damage ?? cut };
  });
}

function decode(bytes: Uint8Array, isCut: boolean): { text: string; isDamaged: boolean } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: isCut }), isDamaged: false };
  } catch {
    return { text: new TextDecoder().decode(bytes, { stream: isCut }), isDamaged: true };
  }
}
