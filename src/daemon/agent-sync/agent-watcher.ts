import { isAbsolute, join, relative, sep } from 'node:path';
import type { AgentYaml } from '../../contract/config.ts';
import { AgentName } from '../../contract/ids.ts';
import type { Logger } from '../../core/logger.ts';
import { ASSEMBLED_FILES } from './agent-workspace.ts';

/** Folder of the agents within the workspace. */
export const AGENTS = 'agents';

export interface WatchOptions {
  readonly folder: string;
  readonly config: AgentYaml;
  readonly log: Logger;
  /** Every agent there is. */
  readonly names: () => readonly string[];
  readonly touched: (names: readonly string[]) => void;
}

export interface AgentWatcher {
  /** Resolves when every change from now on is noticed. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
}

/** Look at the identity files of the workspace and of each agent. The files that are written here are not among them. */
export async function watchAgents(options: WatchOptions): Promise<AgentWatcher> {
  const { watch } = await import('chokidar');
  const { folder, log, touched } = options;
  const watcher = watch(folder, {
    ignoreInitial: true,
    persistent: false,
    ignorePermissionErrors: true,
    ignored: (path) => !isOfInterest(options, path),
  });
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  watcher.once('ready', () => resolve());
  // Files alone: folders are made here as well, and an empty one says nothing of its agent.
  for (const event of ['add', 'change', 'unlink'] as const) watcher.on(event, (path) => touched(agentsBehind(options, path)));
  watcher.on('error', (err) => log.warn({ category: 'agents', folder, err }, 'changes of identity files may not be noticed'));
  return {
    ready,
    close: async () => {
      resolve();
      await watcher.close();
    },
  };
}

/** The workspace, agents/, agents/<name>, and the identity files in them; and the way to a personality that lies elsewhere. */
function isOfInterest({ folder, config }: WatchOptions, path: string): boolean {
  const parts = partsOf(folder, path);
  if (parts === undefined) return false;
  const [first, name, file] = parts;
  if (parts.length === 0 || leadsToPersonality(config, parts)) return true;
  if (parts.length === 1) return first === AGENTS || ASSEMBLED_FILES.includes(first!);
  if (first !== AGENTS || !AgentName.safeParse(name).success) return false;
  return parts.length === 2 || (parts.length === 3 && ASSEMBLED_FILES.includes(file!));
}

function agentsBehind({ folder, config, names }: WatchOptions, path: string): readonly string[] {
  const parts = partsOf(folder, path) ?? [];
  const [first, name] = parts;
  const speaking = rosterOf(config).filter(({ personality }) => personality !== undefined && join(personality) === join(...parts, ''));
  const own = speaking.map((entry) => entry.name);
  if (first === AGENTS) return name !== undefined && AgentName.safeParse(name).success ? [...own, name] : own;
  return parts.length === 1 && ASSEMBLED_FILES.includes(first!) ? names() : own;
}

function leadsToPersonality(config: AgentYaml, parts: readonly string[]): boolean {
  const path = join(...parts);
  return rosterOf(config).some(({ personality }) => personality !== undefined && `${join(personality)}${sep}`.startsWith(`${path}${sep}`));
}

function rosterOf(config: AgentYaml) {
  return config.agents?.roster ?? [];
}

/** Undefined outside of the folder. */
function partsOf(folder: string, path: string): string[] | undefined {
  const within = relative(folder, path);
  if (within === '..' || within.startsWith(`..${sep}`) || isAbsolute(within)) return undefined;
  return within === '' ? [] : within.split(sep);
}
