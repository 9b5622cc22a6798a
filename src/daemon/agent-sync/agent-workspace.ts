import { constants } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { AppError } from '../../core/errors.ts';
import type { Identity, IdentityFile } from '../identity.ts';
import { makeFolderInside, openInside } from '../workspace-file.ts';

const FILE = 'AGENTS.md';
const FILE_MODE = 0o600;
const { O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

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
  const home = relative(folder, agentWorkspace(folder, agent));
  const file = join(folder, home, FILE);
  let partial: string | undefined;
  try {
    const real = await makeFolderInside(folder, home);
    const written = await openInside(folder, join(home, FILE), O_RDONLY).catch(() => undefined);
    const before = await written?.readFile('utf8').finally(() => written.close());
    if (before === text) return false;
    partial = join(real, `${FILE}.part`);
    // What stands there is of a write that broke off, or planted.
    await rm(partial, { force: true });
    const handle = await openInside(folder, join(home, `${FILE}.part`), O_WRONLY | O_CREAT | O_TRUNC, FILE_MODE);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(partial, join(real, FILE));
    return true;
  } catch (error) {
    if (partial !== undefined) await rm(partial, { force: true }).catch(() => undefined); // What is told is why the file could not be written.
    if (error instanceof AppError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new AppError('workspace_unwritable', { detail: `${file}: ${reason}; the old one stands`, cause: error });
  }
}

/** A path is the user's own text: it must not end the comment it stands in. */
function commentText(text: string): string {
  return text.replace(/-{2,}|[\r\n]/g, '-');
}
