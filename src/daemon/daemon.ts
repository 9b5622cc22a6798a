import { join } from 'node:path';
import type { DaemonOperations } from '../contract/daemon.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Handlers } from '../core/operation-call.ts';
import { openMemoryStores } from '../store/memory-store.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { createDaemonHandlers, type DaemonDeps } from './routes.ts';
import type { DaemonInfo } from './status-handlers.ts';

export interface DaemonOptions {
  /** Workspace: agent.yaml, identity files, `data/`. */
  readonly folder: string;
  /** From `readAgentYaml(folder)`. */
  readonly config: LoadedAgentYaml;
  readonly clock: Clock;
  readonly log: Logger;
  readonly info: DaemonInfo;
  readonly openapi: DaemonDeps['openapi'];
}

export interface Daemon {
  readonly handlers: Handlers<DaemonOperations>;
  /** Call when no handler runs any more; a second call does nothing. */
  close(): void;
}

/**
 * The daemon without its server: opens `data/memory.db` under the workspace and answers every operation. The caller serves and closes it.
 *
 * @throws AppError storage_corrupt, storage_version, workspace_unwritable, storage_failed
 */
export function openDaemon(options: DaemonOptions): Daemon {
  const { folder, config: loaded, clock, log, info, openapi } = options;
  const memoryDb = join(folder, 'data', 'memory.db');
  const { memories, claims, sessions, close } = openMemoryStores(memoryDb, clock);
  for (const problem of loaded.problems) log.warn({ file: loaded.file }, problem);
  const config = loaded.config;
  const handlers = createDaemonHandlers({ folder, memoryDb, loaded, config, memories, claims, sessions, clock, log, info, openapi });
  return { handlers, close };
}
