import { createHash } from 'node:crypto';
import type { agentFileOperations } from '../contract/agent-files.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import type { Handlers } from '../core/operation-call.ts';
import { readSkill, skillsOf } from './agent-skills.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { agentOf } from './hook-session.ts';
import { IDENTITY_FILES, loadIdentity } from './identity.ts';

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
      const skills = skillsOf(folder, loaded.config, agentId);
      return { skills, count: skills.length };
    },
    getSkill: ({ name, offset, ...asking }, context) =>
      readSkill(folder, loaded.config, agentOf(asking.agentId, context) ?? DEFAULT_AGENT, { name, offset }),
  };
}
