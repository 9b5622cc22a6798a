import { join } from 'node:path';
import type { AuthMode } from '../contract/auth-config.ts';
import { embeddingOf } from '../contract/config.ts';
import type { DaemonOperations } from '../contract/daemon.ts';
import { followPolicies } from '../core/agent-policy.ts';
import type { Owner } from '../core/caller-scope.ts';
import type { Clock } from '../core/clock.ts';
import type { SentMessage } from '../core/cross-agent.ts';
import type { Embedder } from '../core/embedder.ts';
import type { ModelFor } from '../core/job.ts';
import { createLogBook, type LogBook, recordingLogger } from '../core/log-book.ts';
import type { Logger } from '../core/logger.ts';
import type { BypassChange } from '../core/memory-store.ts';
import type { TokenBook } from '../core/token.ts';
import { noLedger, type UsageLedger } from '../core/usage.ts';
import type { SseHandler } from '../http/server.ts';
import { type OpenedMemoryStores, openMemoryStores } from '../store/memory-store.ts';
import { type LazyAgentSync, startAgentSync } from './agent-sync-start.ts';
import type { LoadedAgentYaml } from './agent-yaml.ts';
import { createLiveConfig, type LiveConfig } from './config-live.ts';
import { createPeerNews } from './cross-agent-news.ts';
import { plainKey } from './hook-session.ts';
import { createBackground } from './job-background.ts';
import { streamLogs } from './log-handlers.ts';
import { createMeaning } from './memory-meaning.ts';
import { createUpkeep } from './memory-upkeep.ts';
import { createDaemonHandlers, type DaemonDeps, type DaemonHandlers } from './routes.ts';
import type { DaemonInfo } from './status-handlers.ts';
import { backgroundBudget } from './usage-handlers.ts';

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
  /** Mode local when left out. */
  readonly auth?: { readonly mode: AuthMode; readonly tokens: () => Promise<TokenBook> };
  /** For commands that are run with secrets; the process's own when left out. */
  readonly env?: NodeJS.ProcessEnv;
  /** Context window of the model an agent's sessions begin with; unknown when left out. */
  readonly contextTokensOf?: (agent: string) => number | undefined;
  /** The book of provider calls; nothing is counted without one. */
  readonly usage?: UsageLedger;
  /** Turns texts into vectors; without one, recall goes by words alone. */
  readonly embedder?: Embedder;
}

export interface Daemon {
  readonly handlers: DaemonHandlers;
  readonly streams: {
    readonly streamLogs: SseHandler<DaemonOperations['streamLogs']>;
    readonly streamAgentMessages: SseHandler<DaemonOperations['streamAgentMessages']>;
  };
  /** The configuration in force, which follows the file once background work has begun. */
  readonly live: LiveConfig;
  /** Who owns the sessions of a key, live ones and what ended ones left. */
  ownersOfKey(key: string): Promise<readonly Owner[]>;
  /** Tells of each message between agents when it is stored; one listener. */
  onMessage(listener: (sent: SentMessage) => void): void;
  /** Tells of each bypass that is switched by its own operation, and waits for the one listener, which must not reject. */
  onBypass(listener: (change: BypassChange) => Promise<void>): void;
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
  const { folder, config: loaded, clock } = options;
  const logs = options.logs ?? createLogBook(clock, 'info');
  const log = options.logs ? options.log : recordingLogger(options.log, logs);
  const live = createLiveConfig({ folder, loaded, log });
  const memoryDb = join(folder, 'data', 'memory.db');
  const { memories: kept, close, ...stores } = openStores({ folder, memoryDb, clock, log }, loaded);
  for (const problem of loaded.problems) log.warn({ file: loaded.file }, problem);
  const config = loaded.config;
  const meaning = createMeaning({
    memories: kept,
    vectors: stores.vectors,
    embedder: options.embedder,
    timeoutMs: embeddingOf(config).timeoutMs,
    clock,
    log,
  });
  const { memories } = meaning;
  const { modelFor, ...spent } = spendingOf(options);
  const background = createBackground({ ...stores, memories, folder, config, clock, log, modelFor, budget: spent.budget });
  const peers = { presence: stores.presence, messages: stores.messages(() => config.crossAgent), news: createPeerNews(plainKey) };
  let bypassTold: (change: BypassChange) => Promise<void> = async () => {};
  const handlers = createDaemonHandlers({
    ...stores,
    tellBypass: (change) => bypassTold(change),
    ...peers,
    background,
    ...spent,
    live,
    logs,
    meaning,
    lineage: background.lineage,
    folder,
    memoryDb,
    loaded,
    config,
    memories,
    clock,
    log,
    info: options.info,
    ...outsideOf(options),
  });
  let agentSync: LazyAgentSync | undefined;
  const upkeep = createUpkeep({ ...stores, ...peers, memories, lineage: background.lineage, clock, log });
  return {
    handlers,
    streams: streamsOf(logs, peers),
    live,
    ownersOfKey: (key) => stores.keyOwners(plainKey(key)),
    onMessage: (listener) => peers.news.onSent(listener),
    onBypass: (listener) => {
      bypassTold = listener;
    },
    startBackground() {
      background.start();
      upkeep.start();
      meaning.start();
      live.watch();
      agentSync ??= startAgentSync({ folder, config, home: options.env?.HOME ?? options.env?.USERPROFILE, log, live });
    },
    async stopBackground() {
      live.close();
      await Promise.all([agentSync?.close(), background.stop(), upkeep.stop(), meaning.stop()]);
    },
    close,
  };
}

/** A daemon on its own counts nothing, and its background work waits for a provider. */
function spendingOf({ usage = noLedger, modelFor = () => undefined, clock, config }: DaemonOptions) {
  const spending = { usage, clock, background: () => config.config.runtime.background };
  return { spending, budget: () => backgroundBudget(spending), usageFault: usage.fault, modelFor };
}

function streamsOf(logs: LogBook, peers: Pick<DaemonDeps, 'presence' | 'messages' | 'news'>): Daemon['streams'] {
  return {
    streamLogs: (input, context, sse) => streamLogs({ logs }, input, context, sse),
    streamAgentMessages: async (input, context, sse) =>
      (await import('./cross-agent-stream.ts')).streamAgentMessages(peers, input, context, sse),
  };
}

type Outside = Pick<DaemonDeps, 'openapi' | 'env' | 'authMode' | 'tokens' | 'contextTokensOf'>;

function outsideOf({
  auth,
  env = process.env,
  folder: workspace,
  clock,
  contextTokensOf = () => undefined,
  openapi,
}: DaemonOptions): Outside {
  const open = async () => (await import('../store/token-store.ts')).createTokenStore({ workspace, clock });
  return { env, authMode: auth?.mode ?? 'local', tokens: auth?.tokens ?? open, contextTokensOf, openapi };
}

/** One and the same list, so that nothing has changed when it is asked for again. */
const NOBODY: readonly [] = [];

function openStores(
  { folder, memoryDb, clock, log }: { folder: string; memoryDb: string; clock: Clock; log: Logger },
  loaded: LoadedAgentYaml,
): OpenedMemoryStores {
  const policies = followPolicies(() => loaded.config.agents?.roster ?? NOBODY);
  const stores = openMemoryStores(memoryDb, clock, join(folder, EXISTING_DB), policies);
  const { adoption, finding } = stores;
  if (finding.kind === 'replaced') log.warn({ category: 'memory' }, finding.detail);
  if (finding.kind === 'lost') log.error({ category: 'memory' }, finding.detail);
  const about = { category: 'memory', file: EXISTING_DB };
  if (adoption?.progress)
    log.info({ ...about, ...adoption.progress }, 'the memories of the existing daemon are being taken over; /api/status says how far');
  adoption?.whenOver((end) => {
    if ('fault' in end)
      log.error({ ...about, err: end.fault }, 'the memories of the existing daemon could not be taken over; the next start tries again');
    else log.info({ ...about, ...end }, 'the memories of the existing daemon were taken over');
  });
  return stores;
}
