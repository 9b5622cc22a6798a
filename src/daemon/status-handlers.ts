import type { RuntimeConfig } from '../contract/config.ts';
import type { daemonOperations } from '../contract/daemon.ts';
import type { OutputOf } from '../contract/operation.ts';
import type { BackgroundBudget } from '../contract/usage.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { withoutSecrets } from '../core/config-redaction.ts';
import type { JobStore } from '../core/job.ts';
import type { Logger } from '../core/logger.ts';
import type { ClaimStore, MemoryStore } from '../core/memory-store.ts';
import { scopeOf } from '../core/memory-store.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { type LiveConfig, problemsOf } from './config-live.ts';
import { agentOf } from './hook-session.ts';
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
  readonly live: LiveConfig;
  readonly memories: MemoryStore;
  /** Of an existing daemon's memories. */
  readonly adoption: { readonly progress: { readonly read: number; readonly rows: number } | undefined } | undefined;
  readonly meaning: Pick<Meaning, 'status'>;
  /** Why the last write of the memories was refused by the disk; null when it was not. */
  readonly writeFault: () => string | null;
  /** What the start found when it compared memory.db with its mark. */
  readonly finding: { readonly kind: 'whole' } | { readonly kind: 'replaced' | 'lost'; readonly detail: string };
  /** Why the last write of the book of provider calls failed; null when it did not. */
  readonly usageFault: () => string | null;
  /** What background work has spent today. */
  readonly budget: () => BackgroundBudget;
  readonly claims: ClaimStore;
  readonly jobs: Pick<JobStore, 'counts'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly info: DaemonInfo;
}

type StatusHandlers = Pick<Handlers<typeof daemonOperations>, 'daemonHealth' | 'daemonStatus' | 'runtimeConfig'>;

export function createStatusHandlers(deps: StatusDeps): StatusHandlers {
  const { info, loaded, live } = deps;
  const uptime = (): number => Math.max(0, deps.clock.now() - info.startedAtMs) / 1_000;
  return {
    daemonHealth: async () => {
      const faults = await faultsOf(deps);
      const db = faults.length === 0;
      const reasons = deps.finding.kind === 'lost' ? [...faults, deps.finding.detail] : [...faults];
      const { port, version, shuttingDown } = info;
      const usageFault = deps.usageFault();
      if (usageFault !== null) reasons.push(`provider calls cannot be counted: ${usageFault}`);
      const status = reasons.length === 0 ? 'healthy' : 'degraded';
      const { met, resumesAt } = deps.budget();
      const background = { state: met ? ('budget-spent' as const) : ('running' as const), resumesAt };
      return { status, reasons, uptime: uptime(), pid: process.pid, version, port, agentsDir: deps.folder, db, background, shuttingDown };
    },
    daemonStatus: async ({ agentId: named, project }, context) => {
      live.look();
      const agentId = agentOf(named, context);
      const counts = agentId === undefined && project === undefined ? await countAll(deps) : await countFor(deps, { agentId, project });
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
        ...counts,
        ...(agentId === undefined && project === undefined ? { background: deps.budget() } : {}),
        config: { file: live.read.file, problems: problemsOf(live) },
      };
    },
    runtimeConfig: () => withoutKeys(loaded.config.runtime),
  };
}

type Counts = Pick<
  OutputOf<typeof daemonOperations.daemonStatus>,
  'memories' | 'index' | 'adoption' | 'embedding' | 'activeSessions' | 'bypassedSessions' | 'jobs'
>;

async function countAll({ memories, claims, jobs, adoption, meaning }: StatusDeps): Promise<Counts> {
  const { active, bypassed } = await claims.counts();
  return {
    memories: await memories.count(),
    index: memories.indexStatus(),
    ...(adoption?.progress === undefined ? {} : { adoption: { ...adoption.progress } }),
    embedding: await meaning.status(),
    activeSessions: active,
    bypassedSessions: bypassed,
    jobs: await jobs.counts(),
  };
}

interface Part {
  readonly agentId: string | undefined;
  readonly project: string | undefined;
}

/** What one agent may see, in one project when it is named: a number that moves with what others do tells of them. */
async function countFor({ memories, claims, jobs, meaning }: StatusDeps, { agentId, project }: Part): Promise<Counts> {
  const filter = project === undefined ? {} : { project };
  const { total } = await memories.list(scopeOf(agentId), { filter, limit: 1, offset: 0 });
  const sessions = (await claims.list(agentId)).filter((claim) => project === undefined || claim.project === project);
  const { vectors: _, ...embedding } = await meaning.status();
  return {
    memories: total,
    index: { state: memories.indexStatus().state },
    embedding,
    activeSessions: sessions.length,
    bypassedSessions: sessions.filter(({ bypassed }) => bypassed).length,
    ...(project === undefined ? { jobs: await jobs.counts({ agentId }) } : {}),
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
  return {
    ...config,
    providers: withoutSecrets(without(config.providers, ['apiKey', 'headers'])) as RuntimeConfig['providers'],
    mcpServers: withoutSecrets(without(config.mcpServers, ['env'])) as RuntimeConfig['mcpServers'],
  };
}

/** What is wrong with the memory store. */
async function faultsOf({ memories, writeFault, log }: StatusDeps): Promise<string[]> {
  try {
    await memories.count();
  } catch (error) {
    log.error({ err: error }, 'the memory store does not answer');
    return ['the memory store does not answer; the log says why'];
  }
  const fault = writeFault();
  return fault === null ? [] : [`the last write of the memory store failed: ${fault}`];
}
