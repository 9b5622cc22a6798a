import { relative } from 'node:path';
import type { AgentYaml } from '../../contract/config.ts';
import { DEFAULT_AGENT } from '../../contract/ids.ts';
import { isAppError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { agentFolders, loadIdentity } from '../identity.ts';
import { createWatch } from './agent-watch.ts';
import { agentWorkspace, assembleIdentity, writeAgentWorkspace } from './agent-workspace.ts';
import type { OpenclawAgent } from './openclaw-config.ts';
import { type SyncTimer, systemTimer, TouchedAgents } from './touched-agents.ts';

/** Editors and scripts change several files at once; unit: milliseconds. @source spec/multi-agent, "Race in harness sync" */
const QUIET_MS = 2_000;
/** Who never stops changing files is synced this often; unit: milliseconds. */
const WAIT_MS_MAX = 20_000;

export interface AgentSyncOptions {
  readonly folder: string;
  /** One object as long as the process runs: what is reloaded is written into it. */
  readonly config: AgentYaml;
  /** Home folder, whose harnesses are told; without one only configured paths are. */
  readonly home?: string | undefined;
  readonly log: Logger;
  readonly timer?: SyncTimer;
}

export interface AgentSync {
  /** Look at the files from now on, and bring everything up to date once. */
  start(): Promise<void>;
  /** The roster has changed. */
  rosterChanged(): void;
  /** Resolves when nothing runs any more. */
  close(): Promise<void>;
}

/** Keeps what harnesses read even with the identity files: AGENTS.md of each agent's workspace, and openclaw.json. */
export function createAgentSync(options: AgentSyncOptions): AgentSync {
  const { folder, config, log } = options;
  let isWhole = false;
  let isClosed = false;
  let last: Promise<void> = Promise.resolve();
  const names = (): string[] => allAgents(folder, config);
  /** One after another: two at a time would write the same files. */
  const sync = (task: SyncTask): Promise<void> => {
    last = last
      .then(() => syncAgents(options, task))
      .catch((err: unknown) => log.error({ category: 'agents', err }, 'a sync of agents failed'));
    return last;
  };
  const touched = new TouchedAgents({
    quietMs: QUIET_MS,
    waitMsMax: WAIT_MS_MAX,
    timer: options.timer ?? systemTimer,
    run: (changed) => {
      const task = { names: changed.filter((name) => names().includes(name)), isWhole, isFirst: false };
      isWhole = false;
      return sync(task);
    },
  });
  const everything = (): void => {
    isWhole = true;
    // Where the last agent is gone, a harness has to be told as well: `default` is no agent that is synced.
    touched.touch([...names(), DEFAULT_AGENT]);
  };
  const watch = createWatch({
    folder,
    config,
    log,
    names,
    touched: (changed) => touched.touch(changed),
    came: () => void begin(everything),
  });
  /** Watch, then go on; what fails is logged, and noticed again at the next start. */
  const begin = async (then: () => unknown): Promise<void> => {
    try {
      await watch.begin();
      if (!isClosed) await then();
    } catch (err) {
      log.warn({ category: 'agents', folder, err }, 'changes of identity files will not be noticed');
    }
  };
  return {
    start: () => begin(() => sync({ names: names(), isWhole: true, isFirst: true })),
    rosterChanged: () => {
      // Which files are of interest depends on the roster.
      watch.drop();
      void begin(everything);
    },
    close: async () => {
      isClosed = true;
      await Promise.all([watch.close(), touched.close(), last]);
    },
  };
}

interface SyncTask {
  readonly names: readonly string[];
  /** Also agents that are gone, and bindings. */
  readonly isWhole: boolean;
  /** At a start, what has not changed is not worth a line each. */
  readonly isFirst: boolean;
}

/** Those of the roster and those with a folder; `default` lives in the workspace itself and has nothing to be synced. */
function allAgents(folder: string, config: AgentYaml): string[] {
  const roster = (config.agents?.roster ?? []).map(({ name }) => name);
  return [...new Set([...roster, ...agentFolders(folder)])].filter((name) => name !== DEFAULT_AGENT);
}

/** What is at fault with one agent is logged, with its name, and keeps no other from being synced. */
async function syncAgents(options: AgentSyncOptions, task: SyncTask): Promise<void> {
  const { folder, config, log } = options;
  for (const agent of task.names) {
    try {
      const identity = loadIdentity({ folder, config }, agent);
      for (const warning of identity.warnings) log.warn({ category: 'agents', agent, warning }, 'an identity file is damaged');
      const changed = await writeAgentWorkspace(folder, agent, assembleIdentity(agent, identity));
      log[changed || !task.isFirst ? 'info' : 'debug']({ category: 'agents', agent, changed }, 'agent synced');
    } catch (error) {
      if (!isAppError(error)) throw error;
      log.warn({ category: 'agents', agent, detail: error.detail }, 'the workspace of an agent could not be written');
    }
  }
  await tellOpenclaw(options, task);
}

async function tellOpenclaw({ folder, config, home, log }: AgentSyncOptions, { names, isWhole }: SyncTask): Promise<void> {
  const openclaw = config.agents?.openclaw;
  if (openclaw?.sync === false) return;
  const { findOpenclaw, syncOpenclaw } = await import('./openclaw-file.ts');
  const files = findOpenclaw(folder, home, openclaw);
  if (openclaw?.config !== undefined && files.length === 0)
    log.warn({ category: 'agents', file: openclaw.config }, 'agents.openclaw.config names a file that is not there');
  const agents = openclawAgents(folder, config).filter(({ id }) => isWhole || names.includes(id));
  if (!isWhole && agents.length === 0) return;
  const isOurs = (workspace: string): boolean => /^agents[/\\][^/\\]+[/\\]workspace[/\\]?$/.test(relative(folder, workspace));
  for (const file of files) {
    const synced = await syncOpenclaw(file, { folder, agents, isWhole, isOurs, bindings: isWhole ? openclaw?.bindings : undefined });
    const about = { category: 'agents', file, agents: agents.map(({ id }) => id) };
    if (synced === 'changed') log.info(about, 'OpenClaw was told of the agents');
    else if (synced !== 'same') log.warn({ ...about, problem: synced.problem }, 'a configuration of OpenClaw is left alone');
  }
}

function openclawAgents(folder: string, config: AgentYaml): OpenclawAgent[] {
  const roster = (config.agents?.roster ?? []).filter(({ name }) => name !== DEFAULT_AGENT);
  return roster.map(({ name, skills }) => {
    const identity = loadIdentity({ folder, config }, name);
    const soul = identity.files['SOUL.md'];
    return { id: name, workspace: agentWorkspace(folder, name), skills, displayName: identity.name ?? name, soul };
  });
}
