import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import type { Skill, SkillBody } from '../contract/agent-files.ts';
import type { AgentYaml } from '../contract/config.ts';
import { effectiveSkills } from '../core/agent-skills.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { cutText, oneLine } from './inject-text.ts';
import { bytesOf, pathWithin, readInside, useInside } from './workspace-file.ts';

const FOLDER = 'skills';
const FILE = 'SKILL.md';
/** Skills of a workspace that are looked at. */
const SKILLS_MAX = 1_000;
/** Of a SKILL.md no more is read for its description; unit: bytes. */
const HEAD_BYTES_READ = 8_192;
/** A longer SKILL.md is refused; unit: bytes. */
const BODY_BYTES_MAX = 1_048_576;
/** Characters of a body in one answer: with its escapes it stays below what a tool may answer. */
export const SKILL_PAGE_CHARS = 48_000;
const DESCRIPTION_CHARS_MAX = 500;
/** Shorter ones say nothing: a list that is too long then has names alone. */
const DESCRIPTION_CHARS_MIN = 24;
/** Descriptions that are kept in memory. */
const CACHED_MAX = 2_048;
const FRONT_MATTER = /^\ufeff?---\r?\n([\s\S]*?)\r?\n---/;
const SKILLS_NOTE = 'Before you work on something a skill is about, read it with the tool skill_read and follow it.';

const descriptions = new Map<string, { readonly stamp: string; readonly description: string }>();

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

/** The skills an agent may use, with what each is for; sorted by name. */
export function skillsOf(folder: string, config: AgentYaml, agentId: string): Skill[] {
  return allowedSkills(folder, config, agentId).map((name) => {
    const path = `${FOLDER}/${name}/${FILE}`;
    return { name, description: descriptionOf(folder, path), path };
  });
}

/**
 * One page of a skill's text.
 *
 * @throws AppError `skill_not_found` when there is none of this name that the agent may use; `payload_too_large` beyond BODY_BYTES_MAX
 */
export function readSkill(folder: string, config: AgentYaml, agentId: string, asked: { name: string; offset: number }): SkillBody {
  const allowed = allowedSkills(folder, config, agentId);
  const { name, offset } = asked;
  if (!allowed.includes(name)) {
    const known = cutText(allowed.join(', '), DESCRIPTION_CHARS_MAX) || 'none';
    throw new AppError('skill_not_found', { detail: `no skill ${JSON.stringify(name)} that ${agentId} may use; its skills are: ${known}` });
  }
  const path = `${FOLDER}/${name}/${FILE}`;
  const text = bodyOf(folder, path, name);
  const end = offset + SKILL_PAGE_CHARS;
  // Never half of a surrogate pair.
  const next = end < text.length ? end - (/[\ud800-\udbff]/.test(text[end - 1]!) ? 1 : 0) : null;
  const content = text.slice(offset, next ?? undefined);
  return { name, description: descriptionOf(folder, path), path, content, total: text.length, next };
}

/** Names always, descriptions as far as they fit; '' without skills. `charsMax` is passed only where the names alone are longer. */
export function skillsText(skills: readonly Skill[], charsMax: number): string {
  if (skills.length === 0) return '';
  const names = skills.reduce((sum, { name }) => sum + name.length + 5, SKILLS_NOTE.length);
  const each = Math.floor((charsMax - names) / skills.length);
  const lines = skills.map(({ name, description }) => {
    const shown = each < DESCRIPTION_CHARS_MIN ? '' : cutText(oneLine(description), each);
    return shown === '' ? `- ${oneLine(name)}` : `- ${oneLine(name)}: ${shown}`;
  });
  return [SKILLS_NOTE, ...lines].join('\n');
}

function allowedSkills(folder: string, config: AgentYaml, agentId: string): string[] {
  const allowed = config.agents?.roster.find((agent) => agent.name === agentId)?.skills;
  return effectiveSkills(skillPool(folder) ?? [], allowed);
}

/** Skills that are not taken because they lie outside of the workspace, behind a link. */
export function skillsOutside(folder: string): string[] {
  try {
    const names = readdirSync(join(folder, FOLDER)).filter((name) => !name.startsWith('.'));
    return names
      .sort()
      .slice(0, SKILLS_MAX)
      .filter((name) => isFile(join(folder, FOLDER, name, FILE)) && !isSkill(folder, name));
  } catch {
    return []; // No folder, no skills.
  }
}

/** Links may lead to another place of the workspace, not out of it: what stands there is read to models. */
function isSkill(folder: string, name: string): boolean {
  const path = join(FOLDER, name, FILE);
  try {
    return isFile(join(folder, path)) && pathWithin(folder, path) !== undefined;
  } catch {
    return false; // Gone between two looks.
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false; // A file, a folder without SKILL.md, or a link to nowhere.
  }
}

function bodyOf(folder: string, path: string, name: string): string {
  try {
    return useInside(folder, realPath(folder, path), (file, { size }) => {
      if (size > BODY_BYTES_MAX)
        throw new AppError('payload_too_large', { detail: `skill ${name} has ${size} bytes; at most ${BODY_BYTES_MAX} are read` });
      return bytesOf(file, BODY_BYTES_MAX).toString('utf8').trim();
    });
  } catch (error) {
    if (isAppError(error, 'payload_too_large')) throw error;
    throw new AppError('skill_not_found', { detail: `the file of skill ${name} cannot be read`, cause: error });
  }
}

/** Links within the workspace are followed here, and never again when it is opened. @throws AppError workspace_unwritable */
function realPath(folder: string, path: string): string {
  const real = pathWithin(folder, path);
  if (real === undefined) throw new AppError('workspace_unwritable', { detail: `${path} leads out of the workspace by a link` });
  return real;
}

/** From the front matter; empty when it has none or cannot be read. Read again only when the file changes. */
function descriptionOf(folder: string, path: string): string {
  const file = join(folder, path);
  const stats = statSync(file, { throwIfNoEntry: false });
  const stamp = `${stats?.ino}:${stats?.mtimeMs}:${stats?.size}`;
  const known = descriptions.get(file);
  if (known?.stamp === stamp) return known.description;
  if (descriptions.size >= CACHED_MAX) descriptions.clear();
  const description = describedIn(readStart(folder, path));
  descriptions.set(file, { stamp, description });
  return description;
}

function describedIn(text: string): string {
  const head = FRONT_MATTER.exec(text)?.[1];
  if (head === undefined) return '';
  const described = parseDocument(head, { prettyErrors: false }).get('description');
  return typeof described === 'string' ? described.replace(/\s+/g, ' ').trim().slice(0, DESCRIPTION_CHARS_MAX) : '';
}

function readStart(folder: string, path: string): string {
  try {
    return readInside(folder, realPath(folder, path), HEAD_BYTES_READ);
  } catch {
    return ''; // Gone since it was listed: a skill without a description.
  }
}
