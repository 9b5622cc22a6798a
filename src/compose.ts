import { join } from 'node:path';
import { createInProcessTransport } from './client/in-process.ts';
import type { Settings } from './config.ts';
import type { RuntimeConfig } from './contract/config.ts';
import { daemonOperations } from './contract/daemon.ts';
import { VERSION } from './contract/version.ts';
import { isoTime, systemClock } from './core/clock.ts';
import { AppError } from './core/errors.ts';
import type { Logger } from './core/logger.ts';
import type { DaemonClient } from './core/operation-call.ts';
import { openDaemon } from './daemon/daemon.ts';
import { openapiDocument } from './http/openapi.ts';
import { createHttpServer, type HttpAddress } from './http/server.ts';
import { connectMcpServer } from './mcp/mcp-client.ts';
import { createConfiguredProviders } from './providers/from-config.ts';
import type { ProviderRegistry } from './providers/registry.ts';
import { landingPage } from './runtime/landing-page.ts';
import { openRuntime } from './runtime/runtime.ts';
import { openSignalLog } from './store/signal-log.ts';
import { createJsonToolStore } from './store/tool-store.ts';
import { lockWorkspace, writeDaemonInfo } from './store/workspace-lock.ts';
import { createMemoryTools } from './tools/memory-tools.ts';
import { createToolRegistry } from './tools/tool-registry.ts';
import { createToolService } from './tools/tool-service.ts';

export interface Running {
  readonly daemon: HttpAddress;
  readonly runtime: HttpAddress;
  readonly folder: string;
  readonly provider: { readonly id: string; readonly model: string; readonly offlineDemo: boolean; readonly origin: string };
  /** Sessions that went on where the last process left them. */
  readonly resumed: Promise<number>;
  /** Drains, then closes everything in reverse order. May be called again; never rejects. */
  close(): Promise<{ readonly interrupted: number }>;
}

/**
 * Daemon and runtime in this process, on one workspace.
 *
 * @throws AppError `workspace_locked`, `workspace_unwritable`, `storage_corrupt`, `port_taken`, `config_invalid`; nothing is left open then
 */
export async function start(settings: Settings, logger: Logger): Promise<Running> {
  const opened = new Closers(logger);
  try {
    return await compose(settings, logger, opened);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function compose(settings: Settings, logger: Logger, opened: Closers): Promise<Running> {
  const { folder, host, loaded } = settings;
  const startedAt = systemClock.now();
  const identity = { pid: process.pid, version: VERSION, host, startedAt: isoTime(startedAt) };
  const lock = lockWorkspace(folder, { ...identity, port: null, runtimePort: null });
  opened.add(() => lock.release());
  // The log's thread starts while the daemon opens its own files.
  const opening = openSignalLog({ path: join(folder, 'data', 'signals.db'), synchronous: loaded.config.signals.sync });
  opened.add(async () => (await opening.catch(() => null))?.close());
  const composing = composeDaemon(settings, logger, opened, startedAt);
  // Both are waited for, so that what one of them has opened is closed when the other fails.
  await Promise.allSettled([opening, composing]);
  const [log, daemon] = [await opening, await composing];
  const { runtime, providers, toolService } = await composeRuntime(settings, logger, { log, client: daemon.client, startedAt });
  opened.add(() => toolService.close());
  const runtimeServer = createHttpServer({
    ...serverOptions(settings, logger, 'Signet runtime'),
    operations: runtime.operations,
    handlers: runtime.handlers,
    streams: runtime.streams,
    sockets: runtime.sockets,
    rawRoutes: [landingPage(VERSION)],
    portSetting: '--runtime-port or SIGNET_RUNTIME_PORT',
  });
  const address = await runtimeServer.listen(host, settings.runtimePort);
  opened.add(() => runtimeServer.close());
  const outcome = { interrupted: 0 };
  opened.add(async () => {
    daemon.noteShutdown();
    outcome.interrupted = (await runtime.drain()).interrupted;
  });
  writeDaemonInfo(folder, { ...identity, port: daemon.address.port, runtimePort: address.port });
  const resumed = runtime.resume();
  resumed.catch((error: unknown) => logger.error({ err: error }, 'sessions of the last run could not be brought back'));
  return {
    daemon: daemon.address,
    runtime: address,
    folder,
    provider: describeProvider(providers),
    resumed,
    close: async () => {
      await opened.close();
      return outcome;
    },
  };
}

function describeProvider(providers: ProviderRegistry): Running['provider'] {
  const { provider, model } = providers.resolve();
  const origin = providers.list().find((entry) => entry.id === provider.id)?.origin ?? 'code';
  return { id: provider.id, model, offlineDemo: provider.kind === 'demo', origin };
}

function serverOptions({ loaded }: Settings, log: Logger, title: string) {
  const { allowedHosts: hosts, allowedOrigins: origins } = loaded.config.daemon;
  return { security: { hosts, origins }, title, version: VERSION, log };
}

async function composeDaemon(settings: Settings, logger: Logger, opened: Closers, startedAtMs: number) {
  const { folder, host, loaded } = settings;
  // Read at each call: the port is known after binding, and the shutdown comes later still.
  const info = { version: VERSION, host, startedAtMs, port: settings.port, shuttingDown: false };
  const daemon = openDaemon({
    folder,
    config: loaded,
    clock: systemClock,
    log: logger,
    info,
    openapi: () => openapiDocument(daemonOperations, { title: 'Signet daemon', version: VERSION }),
  });
  opened.add(() => daemon.close());
  const server = createHttpServer({
    ...serverOptions(settings, logger, 'Signet daemon'),
    operations: daemonOperations,
    handlers: daemon.handlers,
    portSetting: '--port or SIGNET_PORT',
  });
  const address = await server.listen(host, settings.port);
  opened.add(() => server.close());
  info.port = address.port;
  const client: DaemonClient = { baseUrl: address.url, call: createInProcessTransport(daemonOperations, daemon.handlers, { log: logger }) };
  return {
    address,
    client,
    noteShutdown: () => {
      info.shuttingDown = true;
    },
  };
}

async function composeRuntime(
  settings: Settings,
  logger: Logger,
  { log, client, startedAt }: { log: Awaited<ReturnType<typeof openSignalLog>>; client: DaemonClient; startedAt: number },
) {
  const { folder, env, loaded } = settings;
  const config = await client.call(daemonOperations.runtimeConfig, {});
  // The daemon's answer holds no keys, so that it can be shown; what needs them is built from the file in this process.
  const { providers: keyed, mcpServers } = loaded.config.runtime;
  const providers = createConfiguredProviders({ ...config, providers: keyed }, env);
  requireProviders(providers, config);
  const tools = createToolRegistry({ limits: config.limits, log: logger });
  for (const tool of createMemoryTools(client)) tools.register(tool);
  const toolService = createToolService({
    registry: tools,
    store: createJsonToolStore(folder),
    connectMcp: connectMcpServer,
    allowedHosts: loaded.config.daemon.allowedHosts,
    log: logger,
  });
  const runtime = await openRuntime({
    log,
    daemon: client,
    providers,
    tools,
    toolService,
    config,
    clock: systemClock,
    logger,
    info: { version: VERSION, workspace: folder, startedAt },
  });
  await toolService.restore(Object.entries(mcpServers).map(([mcpServer, server]) => ({ mcpServer, ...server })));
  return { runtime, providers, toolService };
}

/** A name that leads nowhere should be told now, not when a provider fails at night. @throws AppError `config_invalid` */
function requireProviders(providers: ProviderRegistry, { fallback, routing }: RuntimeConfig): void {
  const named = [
    ...fallback.map((choice, index) => ({ place: `runtime.fallback[${index}].provider`, choice })),
    ...(routing.compaction ? [{ place: 'runtime.routing.compaction.provider', choice: routing.compaction }] : []),
  ];
  const known = providers.list().map((entry) => entry.id);
  for (const { place, choice } of named) {
    if (choice.provider === undefined || known.includes(choice.provider)) continue;
    throw new AppError('config_invalid', {
      detail: `agent.yaml: ${place} names "${choice.provider}"; known providers: ${known.join(', ')}`,
    });
  }
}

/** What was opened, closed in reverse order; one that fails does not keep the others open. */
class Closers {
  readonly #logger: Logger;
  readonly #closers: (() => void | Promise<void>)[] = [];

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(close: () => void | Promise<void>): void {
    this.#closers.push(close);
  }

  async close(): Promise<void> {
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        this.#logger.error({ err: error }, 'something did not close cleanly');
      }
    }
  }
}
