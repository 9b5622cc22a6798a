import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { parseDocument } from 'yaml';
import type { agentFileOperations } from '../contract/agent-files.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { effectiveSkills } from '../core/agent-skills.ts';
import type { Handlers } from '../core/operation-call.ts';
import { skillPool } from './agent-skills.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { agentOf } from './hook-session.ts';
import { IDENTITY_FILES, loadIdentity } from './identity.ts';

/** Of a SKILL.md no more is read: its head has the description; unit: bytes. */
const SKILL_BYTES_READ = 8_192;
const DESCRIPTION_CHARS_MAX = 500;
const FRONT_MATTER = /^\ufeff?---\r?\n([\s\S]*?)\r?\n---/;

export interface AgentFileDeps {
  readonly folder: string;
  readonly loaded: LoadedAgentYaml;
}

export function createAgentFileHandlers({ folder, loaded }: AgentFileDeps): Handlers<typeof agentFileOperations> {
  return {
    identityFiles: (input, context) => {
      const agentId = agentOf(input.agentId, context) ?? DEFAULT_AGENT;
      const { name, files, origins } = loadIdentity({ folder, config: loaded.config }, agentId);
      const listed = IDENTITY_FILES.flatMap((file) => {
        const content = files[file];
        const origin = origins[file];
        if (content === undefined || origin === undefined) return [];
        const hash = createHash('sha256').update(content).digest('hex');
        return [{ name: file, origin, hash, ...(input.content ? { content } : {}) }];
      });
      return { agentId, name: name ?? null, files: listed };
    },
    listSkills: (input, context) => {
      const agentId = agentOf(input.agentId, context) ?? DEFAULT_AGENT;
      const allowed = loaded.config.agents?.roster.find((agent) => agent.name === agentId)?.skills;
      const skills = effectiveSkills(skillPool(folder) ?? [], allowed).map((name) => {
        const path = `skills/${name}/SKILL.md`;
        return { name, description: descriptionOf(join(folder, path)), path };
      });
      return { skills, count: skills.length };
    },
  };
}

/** From the front matter; empty when it has none or cannot be read. */
function descriptionOf(file: string): string {
  const head = FRONT_MATTER.exec(readStart(file))?.[1];
  if (head === undefined) return '';
  const described = parseDocument(head, { prettyErrors: false }).get('description');
  return typeof described === 'string' ? described.replace(/\s+/g, ' ').trim().slice(0, DESCRIPTION_CHARS_MAX) : '';
}

function readStart(file: string): string {
  try {
    const handle = openSync(file, 'r');
    try {
      const buffer = Buffer.alloc(SKILL_BYTES_READ);
      return buffer.toString('utf8', 0, readSync(handle, buffer, 0, buffer.length, 0));
    } finally {
      closeSync(handle);
    }
  } catch {
    return ''; // Gone since it was listed: a skill without a description.
  }
}
