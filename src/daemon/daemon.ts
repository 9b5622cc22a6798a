import { join } from 'node:path';
import { embeddingOf } from '../contract/config.ts';
import type { DaemonOperations } from '../contract/daemon.ts';
import type { Clock } from '../core/clock.ts';
import type { Embedder } from '../core/embedder.ts';
import type { ModelFor } from '../core/job.ts';
import { createLogBook, type LogBook, recordingLogger } from '../core/log-book.ts';
import type { Logger } from '../core/logger.ts';
import type { SseHandler } from '../http/server.ts';
import { type OpenedMemoryStores, openMemoryStores } from '../store/memory-store.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { createLiveConfig, type LiveConfig } from './config-live.ts';
import { createBackground } from './job-background.ts';
import { streamLogs } from './log-handlers.ts';
import { createMeaning } from './memory-meaning.ts';
import { createUpkeep } from './memory-upkeep.ts';
import { createDaemonHandlers, type DaemonDeps, type DaemonHandlers } from './routes.ts';
import type { DaemonInfo } from './status-handlers.ts';

export interface DaemonOptions {
  /** Workspace: agent.yaml, identity files, `data/`. */
  readonly folder: string;
  /** From `readAgentYaml(folder)`. */
  readonly config: LoadedAgentYaml;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where everything that is logged can be read again; its own, when left out, knows of the daemon alone. */
  readonly logs?: LogBook;
  readonly info: DaemonInfo;
  readonly openapi: DaemonDeps['openapi'];
  /** The model for background work; without one its jobs wait. */
  readonly modelFor?: ModelFor;
  /** Turns texts into vectors; without one, recall goes by words alone. */
  readonly embedder?: Embedder;
}

export interface Daemon {
  readonly handlers: DaemonHandlers;
  readonly streams: { readonly streamLogs: SseHandler<DaemonOperations['streamLogs']> };
  /** The configuration in force, which follows the file once background work has begun. */
  readonly live: LiveConfig;
  /** Begin with the background work: until then it is only queued. */
  startBackground(): void;
  /** Background work that runs is put back into its queue. Call before `close`. */
  stopBackground(): Promise<void>;
  /** Call when no handler runs any more; a second call does nothing. */
  close(): void;
}

/** Where the existing daemon of this API keeps its memories. */
const EXISTING_DB = join('memory', 'memories.db');

/**
 * The daemon without its server: opens `data/memory.db` under the workspace and answers every operation. The caller serves and closes it.
 *
 * @throws AppError storage_corrupt, storage_version, workspace_unwritable, storage_failed
 */
export function openDaemon(options: DaemonOptions): Daemon {
  const { folder, config: loaded, clock, info, openapi } = options;
  const logs = options.logs ?? createLogBook(clock, 'info');
  const log = options.logs ? options.log : recordingLogger(options.log, logs);
  const live = createLiveConfig({ folder, loaded, log });
  const memoryDb = join(folder, 'data', 'memory.db');
  const { memories: kept, claims, sessions, transfer, vectors, close, ...left } = openStores(folder, memoryDb, clock, log);
  for (const problem of loaded.problems) log.warn({ file: loaded.file }, problem);
  const config = loaded.config;
  const { timeoutMs } = embeddingOf(config);
  const meaning = createMeaning({ memories: kept, vectors, embedder: options.embedder, timeoutMs, clock, log });
  const { memories } = meaning;
  const background = createBackground({ ...left, memories, folder, config, clock, log, modelFor: options.modelFor ?? (() => undefined) });
  const handlers = createDaemonHandlers({
    background,
    live,
    logs,
    meaning,
    lineage: background.lineage,
    jobs: left.jobs,
    folder,
    memoryDb,
    loaded,
    config,
    memories,
    claims,
    sessions,
    transfer,
    vectors,
    clock,
    log,
    info,
    openapi,
  });
  const upkeep = createUpkeep({ memories, claims, sessions, lineage: background.lineage, clock, log });
  return {
    handlers,
    streams: { streamLogs: (input, context, sse) => streamLogs({ logs }, input, context, sse) },
    live,
    startBackground() {
      background.start();
      upkeep.start();
      meaning.start();
      live.watch();
    },
    async stopBackground() {
      live.close();
      await Promise.all([background.stop(), upkeep.stop(), meaning.stop()]);
    },
    close,
  };
}

function openStores(folder: string, memoryDb: string, clock: Clock, log: Logger): OpenedMemoryStores {
  const stores = openMemoryStores(memoryDb, clock, join(folder, EXISTING_DB));
  const { adopted } = stores;
  const about = { category: 'memory', file: EXISTING_DB };
  if (adopted && 'fault' in adopted)
    log.error({ ...about, err: adopted.fault }, 'the memories of the existing daemon could not be taken over; the next start tries again');
  else if (adopted) log.info({ ...about, ...adopted }, 'the memories of the existing daemon were taken over');
  return stores;
}
