import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 'skills';
const FILE = 'SKILL.md';
/** Skills of a workspace that are looked at. */
const SKILLS_MAX = 1_000;

/** Names of the skills all agents draw on, sorted: folders `skills/<name>` with a SKILL.md. Undefined without the folder `skills`. */
export function skillPool(folder: string): string[] | undefined {
  try {
    const names = readdirSync(join(folder, FOLDER)).filter((name) => !name.startsWith('.'));
    return names
      .sort()
      .slice(0, SKILLS_MAX)
      .filter((name) => isSkill(folder, name));
  } catch {
    return undefined; // No folder, no pool.
  }
}

/** Skills may be links to folders elsewhere. */
function isSkill(folder: string, name: string): boolean {
  try {
    return statSync(join(folder, FOLDER, name, FILE)).isFile();
  } catch {
    return false; // A file, a folder without SKILL.md, or a link to nowhere.
  }
}
