import type { RuntimeConfig } from '../contract/config.ts';
import type { daemonOperations } from '../contract/daemon.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import type { JobStore } from '../core/job.ts';
import type { Logger } from '../core/logger.ts';
import type { ClaimStore, MemoryStore } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import type { Meaning } from './memory-meaning.ts';

/** What only the composition knows. Read at each call, so a getter may answer what is known later, such as the bound port. */
export interface DaemonInfo {
  readonly version: string;
  readonly host: string;
  readonly port: number;
  readonly startedAtMs: number;
  readonly shuttingDown: boolean;
}

export interface StatusDeps {
  readonly folder: string;
  readonly memoryDb: string;
  readonly loaded: LoadedAgentYaml;
  readonly memories: MemoryStore;
  /** Of an existing daemon's memories. */
  readonly adoption: { readonly progress: { readonly read: number; readonly rows: number } | undefined } | undefined;
  readonly meaning: Pick<Meaning, 'status'>;
  readonly claims: ClaimStore;
  readonly jobs: Pick<JobStore, 'counts'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly info: DaemonInfo;
}

type StatusHandlers = Pick<Handlers<typeof daemonOperations>, 'daemonHealth' | 'daemonStatus' | 'runtimeConfig'>;

export function createStatusHandlers(deps: StatusDeps): StatusHandlers {
  const { info, memories, claims, loaded } = deps;
  const uptime = (): number => Math.max(0, deps.clock.now() - info.startedAtMs) / 1_000;
  return {
    daemonHealth: async () => {
      const db = await isWell(deps);
      const { port, version, shuttingDown } = info;
      const status = db ? 'healthy' : 'degraded';
      return { status, uptime: uptime(), pid: process.pid, version, port, agentsDir: deps.folder, db, shuttingDown };
    },
    daemonStatus: async () => {
      const { active, bypassed } = await claims.counts();
      return {
        status: 'running',
        version: info.version,
        pid: process.pid,
        uptime: uptime(),
        startedAt: isoTime(info.startedAtMs),
        host: info.host,
        port: info.port,
        agentsDir: deps.folder,
        memoryDb: deps.memoryDb,
        memories: await memories.count(),
        index: memories.indexStatus(),
        ...(deps.adoption?.progress === undefined ? {} : { adoption: { ...deps.adoption.progress } }),
        embedding: await deps.meaning.status(),
        activeSessions: active,
        bypassedSessions: bypassed,
        jobs: await deps.jobs.counts(),
        config: { file: loaded.file, problems: [...loaded.problems] },
      };
    },
    runtimeConfig: () => withoutKeys(loaded.config.runtime),
  };
}

/** Keys stay in the process: header values and the environment of MCP servers are left out as well, being where others put theirs. */
export function withoutKeys(config: RuntimeConfig): RuntimeConfig {
  const without = <T extends object>(entries: Readonly<Record<string, T>>, secret: readonly string[]): Record<string, T> =>
    Object.fromEntries(
      Object.entries(entries).map(([name, entry]) => [
        name,
        Object.fromEntries(Object.entries(entry).filter(([field]) => !secret.includes(field))) as T,
      ]),
    );
  return { ...config, providers: without(config.providers, ['apiKey', 'headers']), mcpServers: without(config.mcpServers, ['env']) };
}

async function isWell({ memories, log }: StatusDeps): Promise<boolean> {
  try {
    await memories.count();
    return true;
  } catch (error) {
    log.error({ err: error }, 'the memory store does not answer');
    return false;
  }
}
