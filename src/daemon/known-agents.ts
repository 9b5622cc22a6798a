import type { AgentYaml } from '../contract/config.ts';
import { DEFAULT_AGENT } from '../contract/ids.ts';
import { agentFolders } from './identity.ts';

/** Agents named in an error or a warning. */
const NAMED_MAX = 20;

interface Workspace {
  readonly folder: string;
  readonly config: AgentYaml;
}

/** `default`, those of the roster and those that have a folder; each once. */
export function knownAgents({ folder, config }: Workspace): string[] {
  const roster = (config.agents?.roster ?? []).map(({ name }) => name);
  return [...new Set([DEFAULT_AGENT, ...roster, ...agentFolders(folder)])];
}

/** The first of them, for people. */
export function listAgents(known: readonly string[]): string {
  return known.slice(0, NAMED_MAX).join(', ');
}

/** What to say of an agent nobody has set up: it may be a typing error. Undefined for one that is known. */
export function unknownAgentWarning(workspace: Workspace, agentId: string): string | undefined {
  const known = knownAgents(workspace);
  if (known.includes(agentId)) return undefined;
  return `agentId: no agent "${agentId}" is set up; the memory is kept for it. Known agents: ${listAgents(known)}; signet agent add sets one up`;
}
