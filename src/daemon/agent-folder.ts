import { lstatSync, readdirSync } from 'node:fs';
import { rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { AgentName } from '../contract/ids.ts';
import { AppError } from '../core/errors.ts';
import { fileFault } from './file-fault.ts';
import { makeFolderInside } from './workspace-file.ts';

const FOLDER = 'agents';
const FILE_MODE = 0o600;
/** Folders that are no agents and told of. */
const STRANGE_MAX = 50;

export function hasAgentFolder(folder: string, name: string): boolean {
  return lstatSync(join(folder, FOLDER, name), { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Folders below agents/ that no agent can have, each with the reason. */
export function strangeFolders(folder: string): string[] {
  return entriesOf(folder)
    .filter((name) => !name.startsWith('.') && !AgentName.safeParse(name).success)
    .slice(0, STRANGE_MAX)
    .map((name) => {
      const lower = name.toLowerCase();
      const hint = AgentName.safeParse(lower).success ? `; rename it to ${lower}` : '';
      return `agents/${JSON.stringify(name).slice(1, -1)} is no agent: a name is 1 to 64 characters of a-z, 0-9, _ and -${hint}`;
    });
}

/** @throws AppError agent_exists when a folder differs from the name by case alone: on some file systems the two are one */
export function refuseCaseTwin(folder: string, name: string): void {
  const twin = entriesOf(folder).find((entry) => entry !== name && entry.toLowerCase() === name);
  if (twin === undefined) return;
  throw new AppError('agent_exists', {
    detail: `there is a folder agents/${twin}, which differs from "${name}" by case alone; rename it first`,
  });
}

/**
 * The folder of an agent with SOUL.md and IDENTITY.md. Files that are there stay as they are; a failure leaves nothing of what it began.
 *
 * @param soul  text of SOUL.md; a template when left out
 * @returns     paths within the workspace of what was written
 * @throws AppError workspace_unwritable, storage_failed, agent_exists
 * @source spec/multi-agent, "scaffoldAgent"
 */
export async function scaffoldAgent(folder: string, name: string, soul?: string): Promise<string[]> {
  refuseCaseTwin(folder, name);
  const home = join(folder, FOLDER, name);
  const created: string[] = [];
  const isNew = !lstatSync(home, { throwIfNoEntry: false });
  try {
    await makeFolderInside(folder, join(FOLDER, name));
    for (const [file, text] of Object.entries({ 'SOUL.md': soulText(name, soul), 'IDENTITY.md': identityText(name) })) {
      if (await writeNew(join(home, file), text)) created.push(join(FOLDER, name, file));
    }
  } catch (error) {
    await takeBack(folder, created, isNew ? home : undefined);
    if (error instanceof AppError) throw error;
    throw fileFault(home, error);
  }
  return created;
}

/** What is told is why the agent could not be set up, so a failure in here is not. */
async function takeBack(folder: string, files: readonly string[], home: string | undefined): Promise<void> {
  for (const file of files) await rm(join(folder, file), { force: true }).catch(() => undefined);
  if (home !== undefined) await rmdir(home).catch(() => undefined);
}

/** Delete the folder of an agent with all that is in it; a link is taken away, what it leads to stays. Answers whether there was one. */
export async function deleteAgentFolder(folder: string, name: string): Promise<boolean> {
  const home = join(folder, FOLDER, name);
  if (!lstatSync(home, { throwIfNoEntry: false })) return false;
  try {
    await rm(home, { recursive: true, force: true, maxRetries: 3 });
    return true;
  } catch (error) {
    throw fileFault(home, error);
  }
}

function entriesOf(folder: string): string[] {
  try {
    const entries = readdirSync(join(folder, FOLDER), { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name)
      .sort();
  } catch {
    return []; // Without the folder there are no further agents.
  }
}

/** Whole or not at all: the text is on the disk before it gets the name. Answers false when the name is taken. */
async function writeNew(path: string, text: string): Promise<boolean> {
  if (lstatSync(path, { throwIfNoEntry: false })) return false;
  const partial = `${path}.part`;
  try {
    await rm(partial, { force: true });
    await writeFile(partial, text, { flag: 'wx', mode: FILE_MODE, flush: true });
    await rename(partial, path);
    return true;
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined); // What is told is why the file could not be written.
    throw error;
  }
}

function soulText(name: string, soul: string | undefined): string {
  // Who brings a heading along has written the whole file.
  if (soul?.startsWith('#')) return `${soul.trim()}\n`;
  const text = soul?.trim() || `How ${name} speaks, what it cares about, and what it never does. Write it here, in a few sentences.`;
  return `# Soul of ${name}\n\n${text}\n`;
}

function identityText(name: string): string {
  const shown = name.charAt(0).toUpperCase() + name.slice(1);
  return `# Identity\n\n- **Name:** ${shown}\n- **Role:** one of several agents of this workspace\n`;
}
