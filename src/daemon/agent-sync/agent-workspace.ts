import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '../../core/errors.ts';
import { requireWithin } from '../agent-folder.ts';
import type { Identity, IdentityFile } from '../identity.ts';

const FILE = 'AGENTS.md';
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** In the order in which they stand. MEMORY.md is not among them: it changes often, and sessions are given it as they begin. */
const SECTIONS: readonly { readonly file: IdentityFile; readonly heading: string }[] = [
  { file: 'AGENTS.md', heading: 'Agent Instructions' },
  { file: 'SOUL.md', heading: 'Soul' },
  { file: 'IDENTITY.md', heading: 'Identity' },
  { file: 'USER.md', heading: 'About The User' },
  { file: 'TOOLS.md', heading: 'Tools' },
];

/** Files whose change makes an agent's AGENTS.md another one. */
export const ASSEMBLED_FILES: readonly string[] = SECTIONS.map(({ file }) => file);

/** The folder a harness works in for an agent. */
export function agentWorkspace(folder: string, agent: string): string {
  return join(folder, 'agents', agent, 'workspace');
}

/** The identity of an agent as one text: the same files give the same text. @source spec/multi-agent, phase 6 */
export function assembleIdentity(agent: string, { files, paths }: Pick<Identity, 'files' | 'paths'>): string {
  const note = `<!-- Written by Signet from the identity files of agent ${agent}. Changes belong into those: this file is written anew. -->`;
  const sections = SECTIONS.flatMap(({ file, heading }) => {
    const text = files[file];
    return text === undefined ? [] : [`<!-- ${commentText(paths[file] ?? file)} -->\n\n## ${heading}\n\n${text}`];
  });
  return `${[note, `# ${agent}`, ...sections].join('\n\n')}\n`;
}

/**
 * Write an agent's AGENTS.md, in one step and only when it is another than before.
 *
 * @returns whether it was written
 * @throws AppError workspace_unwritable
 */
export async function writeAgentWorkspace(folder: string, agent: string, text: string): Promise<boolean> {
  const home = agentWorkspace(folder, agent);
  const file = join(home, FILE);
  const partial = `${file}.part`;
  try {
    await mkdir(home, { recursive: true, mode: FOLDER_MODE });
    requireWithin(folder, home);
    if ((await readFile(file, 'utf8').catch(() => undefined)) === text) return false;
    await writeFile(partial, text, { mode: FILE_MODE, flush: true });
    await rename(partial, file);
    return true;
  } catch (error) {
    if (error instanceof AppError) throw error;
    await rm(partial, { force: true }).catch(() => undefined); // What is told is why the file could not be written.
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('workspace_unwritable', { detail: `${file}: ${reason}; the old one stands`, cause: error });
  }
}

/** A path is the user's own text: it must not end the comment it stands in. */
function commentText(text: string): string {
  return text.replace(/-{2,}|[\r\n]/g, '-');
}
