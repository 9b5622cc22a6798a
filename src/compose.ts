import { join } from 'node:path';
import { createDaemonClient } from './client/daemon-client.ts';
import { createInProcessTransport } from './client/in-process.ts';
import { Closers } from './closers.ts';
import type { Settings } from './config.ts';
import { type AgentYaml, embeddingOf, type RuntimeConfig } from './contract/config.ts';
import { daemonOperations } from './contract/daemon.ts';
import { VERSION } from './contract/version.ts';
import type { OwnersOf } from './core/caller-scope.ts';
import { createSteadyClock, isoTime, systemClock } from './core/clock.ts';
import { AppError, isAppError } from './core/errors.ts';
import { createLogBook, type RecordingLogger, recordingLogger } from './core/log-book.ts';
import type { LeveledLogger, Logger } from './core/logger.ts';
import type { DaemonClient } from './core/operation-call.ts';
import type { Provider } from './core/provider.ts';
import { readableStack } from './core/readable-stack.ts';
import type { SignalLog } from './core/signal-log.ts';
import { createStartPhases } from './core/start-phases.ts';
import type { Tool } from './core/tool.ts';
import type { UsageLedger } from './core/usage.ts';
import type { WorkflowRuns } from './core/workflow.ts';
import { type Daemon, openDaemon } from './daemon/daemon.ts';
import { followConfig } from './follow-config.ts';
import { openapiDocument } from './http/openapi.ts';
import type { SecurityOptions } from './http/security.ts';
import { createHttpServer, createSharedLimits, type HttpAddress, type SharedLimits } from './http/server.ts';
import { socketPath } from './http/unix-socket.ts';
import { createMcpConnector } from './mcp/mcp-client.ts';
import { createMcpRoute } from './mcp/server-route.ts';
import { createModelRoutes } from './model-routes.ts';
import { type OpenedAuth, openAuth } from './open-auth.ts';
import { openRecorder, type RecordingOptions } from './open-recorder.ts';
import { serverOptions, warnOfOpen } from './open-servers.ts';
import { createConfiguredProviders } from './providers/from-config.ts';
import { createCountedEmbedder, meterProvider } from './providers/metered.ts';
import type { ProviderRegistry } from './providers/registry.ts';
import { landingPage } from './runtime/landing-page.ts';
import { chooseModel } from './runtime/model-choice.ts';
import type { EffectRecorder } from './runtime/recording/effect-recorder.ts';
import { openRuntime } from './runtime/runtime.ts';
import { telemetryOptions } from './runtime/telemetry.ts';
import { openChildGroups } from './store/child-groups.ts';
import { type OpenedSignalLog, openSignalLog } from './store/signal-log.ts';
import { createJsonToolStore } from './store/tool-store.ts';
import { openUsage } from './store/usage-store.ts';
import { lockWorkspace } from './store/workspace-lock.ts';
import { createMemoryTools } from './tools/memory-tools.ts';
import { createSecretTools } from './tools/secret-tools.ts';
import { createSkillTools } from './tools/skill-tools.ts';
import { createToolRegistry } from './tools/tool-registry.ts';
import { createToolService } from './tools/tool-service.ts';

export interface Running {
  readonly daemon: HttpAddress;
  readonly runtime: HttpAddress;
  readonly folder: string;
  readonly provider: { readonly id: string; readonly model: string; readonly offlineDemo: boolean; readonly origin: string };
  /** Null when nothing is recorded or replayed. */
  readonly recording: Pick<EffectRecorder, 'id' | 'fault'> | null;
  /** Starts workflows, also those whose agents hold functions. */
  readonly workflows: WorkflowRuns;
  /** Sessions that went on where the last process left them. */
  readonly resumed: Promise<number>;
  /** Resolves with the reason when another daemon has taken the workspace: end the process then, without `close`, which would write to it. */
  readonly fenced: Promise<AppError>;
  /** Drains, then closes everything in reverse order. May be called again; never rejects. */
  close(): Promise<{ readonly interrupted: number }>;
}

/** What a program that embeds them brings along. */
export interface Embedding {
  readonly providers?: readonly Provider[];
  /** Id of the one that answers when a session names none. */
  readonly defaultProvider?: string;
  readonly tools?: readonly Tool[];
  /** In place of what the settings say. */
  readonly recording?: RecordingOptions;
}

/**
 * Daemon and runtime in this process, on one workspace; with the role `runtime`, the runtime alone, beside a daemon elsewhere.
 *
 * @throws AppError `workspace_locked`, `workspace_unwritable`, `storage_corrupt`, `port_taken`, `config_invalid`, `daemon_unreachable`; nothing is left open then
 */
export async function start(settings: Settings, output: Logger | LeveledLogger, embedding: Embedding = {}): Promise<Running> {
  const logger = recordingLogger(output, createLogBook(systemClock, settings.logLevel, readableStack));
  const opened = new Closers(logger);
  try {
    return await compose(settings, logger, opened, embedding);
  } catch (error) {
    await opened.close();
    throw error;
  }
}

async function compose(settings: Settings, logger: RecordingLogger, opened: Closers, embedding: Embedding): Promise<Running> {
  const { folder, runtimeHost, loaded } = settings;
  const startedAt = systemClock.now();
  const identity = identityOf(settings, startedAt);
  const lock = lockWorkspace(folder, { ...identity, port: null, runtimePort: null });
  opened.add(() => lock.release());
  const usage = openUsage({ path: join(folder, 'data', 'usage.db'), clock: systemClock, log: logger });
  opened.add(() => usage.close());
  const phases = createStartPhases(logger);
  // The log's thread starts while the daemon opens its own files.
  const opening = openSignalLog({ path: join(folder, 'data', 'signals.db'), synchronous: loaded.config.signals.sync });
  opened.add(async () => (await opening.catch(() => null))?.close());
  // Of both servers together: descriptors and memory are the process's.
  const shared = createSharedLimits();
  const composing =
    settings.role === 'runtime'
      ? reachDaemon(settings, logger, opened)
      : composeDaemon(settings, logger, opened, { startedAt, shared, usage });
  // Both are waited for, so that what one of them has opened is closed when the other fails.
  await Promise.allSettled([phases.run('the log of signals', opening), phases.run('databases and port of the daemon', composing)]);
  const [log, daemon] = [await opening, await composing];
  const coming = composeRuntime(settings, logger, opened, { log, daemon, startedAt, embedding, usage });
  const composed = await phases.run('providers, tools and workflows of the runtime', coming);
  const { runtime, providers, recorder, toolService } = composed;
  opened.add(() => toolService.close());
  daemon.connect(composed);
  const runtimeServer = serveRuntime(settings, logger, { daemon, runtime, shared });
  const address = await phases.run('the port of the runtime', runtimeServer.listen(runtimeHost, settings.runtimePort));
  opened.add(() => runtimeServer.close());
  const outcome = { interrupted: 0 };
  opened.add(async () => {
    daemon.noteShutdown();
    outcome.interrupted = (await runtime.drain()).interrupted;
  });
  // A replay makes no calls, those of background work included.
  daemon.startBackground(recorder?.mode === 'replay' ? undefined : providers);
  const port = settings.role === 'runtime' ? null : daemon.address.port;
  const fenced = lock.announce({ ...identity, port, runtimePort: address.port });
  warnOfOpen(settings, { daemon: daemon.address, runtime: address }, logger);
  const resumed = runtime.resume();
  resumed.catch((error: unknown) => logger.error({ err: error }, 'sessions of the last run could not be brought back'));
  return {
    daemon: daemon.address,
    runtime: address,
    folder,
    provider: describeProvider(providers),
    resumed,
    fenced,
    recording: recorder ?? null,
    workflows: runtime.workflows,
    close: async () => {
      await opened.close();
      return outcome;
    },
  };
}

/** Not bound yet. */
function serveRuntime(settings: Settings, log: RecordingLogger, { daemon, runtime, shared }: RuntimeParts) {
  return createHttpServer({
    ...withOwners(serverOptions(settings, { host: settings.runtimeHost, auth: daemon.auth, log, title: 'Signet runtime' }), (kind, name) =>
      kind === 'key' ? daemon.ownersOf(kind, name) : runtime.ownersOf(kind, name),
    ),
    operations: runtime.operations,
    handlers: runtime.handlers,
    streams: runtime.streams,
    sockets: runtime.sockets,
    rawRoutes: [landingPage(VERSION)],
    portSetting: '--runtime-port or SIGNET_RUNTIME_PORT',
    ...(settings.socket ? { socketPath: socketPath(settings.folder, 'runtime') } : {}),
    shared,
  });
}

interface RuntimeParts {
  readonly daemon: DaemonSide;
  readonly runtime: ComposedRuntime['runtime'];
  readonly shared: SharedLimits;
}

/** What a reader of the workspace learns of this process before its ports are bound. */
function identityOf({ host, runtimeHost, tls, socket }: Settings, startedAt: number) {
  const certificate = tls && { cert: tls.cert, ...(tls.name === undefined ? {} : { name: tls.name }) };
  const addresses = { host, runtimeHost, ...(certificate ? { tls: certificate } : {}), ...(socket ? { socket: true as const } : {}) };
  return { pid: process.pid, version: VERSION, ...addresses, startedAt: isoTime(startedAt) };
}

type ComposedRuntime = Awaited<ReturnType<typeof composeRuntime>>;

/** The daemon as the rest of a start sees it: in this process, or elsewhere. */
interface DaemonSide {
  readonly address: HttpAddress;
  readonly client: DaemonClient;
  readonly auth: OpenedAuth;
  /** The configuration of the runtime, without keys. @throws AppError `unauthorized` when the daemon wants another token */
  readRuntimeConfig(): Promise<RuntimeConfig>;
  /** Of session keys; ids are the runtime's. */
  readonly ownersOf: OwnersOf;
  /** Passes on what sessions in memory must hear at once. */
  connect(runtime: ComposedRuntime): void;
  startBackground(providers: ProviderRegistry | undefined): void;
  noteShutdown(): void;
}

/**
 * A daemon elsewhere, by HTTP. Its changes of configuration count from the next start; bypass and messages arrive with the next hook.
 * While it does not answer, turns run without memory, as when it goes away later.
 */
async function reachDaemon(settings: Settings, logger: RecordingLogger, opened: Closers): Promise<DaemonSide> {
  const { daemonUrl, env } = settings;
  const auth = await openAuth(settings);
  opened.add(() => auth.close());
  const client = createDaemonClient({ baseUrl: daemonUrl, ...(env.SIGNET_TOKEN ? { token: env.SIGNET_TOKEN } : {}) });
  const reached = await client.call(daemonOperations.daemonHealth, {}).then(
    () => true,
    (err: unknown) => {
      logger.warn(
        { err, daemonUrl },
        'the daemon does not answer; sessions run without memory and with the configuration of this workspace',
      );
      return false;
    },
  );
  const { hostname, port } = new URL(daemonUrl);
  return {
    address: { host: hostname, port: Number(port), url: daemonUrl },
    client,
    auth,
    readRuntimeConfig: async () => (reached ? client.call(daemonOperations.runtimeConfig, {}) : settings.loaded.config.runtime),
    ownersOf: (_kind, key) => ownersElsewhere(client, key),
    connect: () => undefined,
    startBackground: () => undefined,
    noteShutdown: () => undefined,
  };
}

/** Live sessions of a key. What ended ones left there the daemon looks up itself, when a session of the key calls it under its limit. */
async function ownersElsewhere({ call }: DaemonClient, key: string): ReturnType<OwnersOf> {
  try {
    const { agentId, project } = await call(daemonOperations.getClaim, { key });
    return [{ agent: agentId, project, isLive: true }];
  } catch (error) {
    if (isAppError(error, 'session_not_found')) return [];
    throw error;
  }
}

/** What the daemon learns that sessions in memory are to know: changed configuration, messages, bypass. */
function connect(
  daemon: Pick<Daemon, 'live' | 'onMessage' | 'onBypass'>,
  { runtime, recorder, config }: ComposedRuntime,
  { env }: Settings,
  logger: RecordingLogger,
): void {
  followConfig(daemon.live, { runtime: config, log: logger, env });
  daemon.live.onChange((keys) => {
    const note = runtime.notes.add('config:changed', { keys: [...keys] });
    note.catch((err: unknown) => logger.warn({ err }, 'a change of the configuration could not be noted in the log'));
  });
  // What arrived when it was recorded is part of the hooks' answers there.
  if (recorder?.mode !== 'replay') daemon.onMessage(runtime.hear);
  daemon.onBypass(runtime.noteBypass);
}

function describeProvider(providers: ProviderRegistry): Running['provider'] {
  const { provider, model } = providers.resolve();
  const origin = providers.list().find((entry) => entry.id === provider.id)?.origin ?? 'code';
  return { id: provider.id, model, offlineDemo: provider.kind === 'demo', origin };
}

function withOwners<T extends { readonly security: SecurityOptions }>(options: T, ownersOf: OwnersOf): T {
  return { ...options, security: { ...options.security, ownersOf } };
}

async function composeDaemon(
  settings: Settings,
  logger: RecordingLogger,
  opened: Closers,
  { startedAt: startedAtMs, shared, usage }: { readonly startedAt: number; readonly shared: SharedLimits; readonly usage: UsageLedger },
): Promise<DaemonSide> {
  const { folder, host, loaded } = settings;
  const auth = await openAuth(settings);
  opened.add(() => auth.close());
  // Read at each call: the port is known after binding, and the shutdown comes later still.
  const info = { version: VERSION, host, startedAtMs, port: settings.port, shuttingDown: false };
  let providers: ProviderRegistry | undefined;
  const daemon = openDaemon({
    embedder: createCountedEmbedder(embeddingOf(loaded.config), settings.env, usage),
    usage,
    env: settings.env,
    auth: { mode: settings.authMode, tokens: auth.tokens },
    modelFor: createModelRoutes(loaded.config.runtime, () => providers),
    contextTokensOf: (agent) => providers && contextTokensOf(loaded.config, providers, agent),
    folder,
    config: loaded,
    clock: systemClock,
    log: logger,
    logs: logger.book,
    info,
    openapi: () => openapiDocument(daemonOperations, { title: 'Signet daemon', version: VERSION }),
  });
  opened.add(() => daemon.close());
  opened.add(() => daemon.stopBackground());
  // Ids of sessions and runs are the runtime's: no operation of the daemon names one.
  const ownersOf: OwnersOf = async (kind, name) => (kind === 'key' ? daemon.ownersOfKey(name) : []);
  const call = createInProcessTransport(daemonOperations, daemon.handlers, { log: logger, ownersOf });
  const server = createHttpServer({
    ...withOwners(serverOptions(settings, { host, auth, log: logger, title: 'Signet daemon' }), ownersOf),
    operations: daemonOperations,
    handlers: daemon.handlers,
    streams: daemon.streams,
    rawRoutes: [createMcpRoute({ call, log: logger })],
    portSetting: '--port or SIGNET_PORT',
    ...(settings.socket ? { socketPath: socketPath(folder, 'daemon') } : {}),
    shared,
  });
  const address = await server.listen(host, settings.port);
  opened.add(() => server.close());
  info.port = address.port;
  const client: DaemonClient = { baseUrl: address.url, call };
  return {
    address,
    client,
    auth,
    connect: (runtime) => connect(daemon, runtime, settings, logger),
    readRuntimeConfig: () => client.call(daemonOperations.runtimeConfig, {}),
    ownersOf,
    startBackground: (registry: ProviderRegistry | undefined) => {
      providers = registry;
      daemon.startBackground();
    },
    noteShutdown: () => {
      info.shuttingDown = true;
    },
  };
}

interface ComposedWith {
  readonly log: OpenedSignalLog;
  readonly daemon: DaemonSide;
  readonly startedAt: number;
  readonly embedding: Embedding;
  readonly usage: UsageLedger;
}

async function composeRuntime(
  settings: Settings,
  logger: Logger,
  opened: Closers,
  { log, daemon, startedAt, embedding, usage }: ComposedWith,
) {
  const { client } = daemon;
  const { folder, env, loaded } = settings;
  // A copy: what is reloaded is written into it.
  const config = { ...(await daemon.readRuntimeConfig()) };
  // The daemon's answer holds no keys, so that it can be shown; they come from the file and the environment of this process.
  const { providers: keyed, mcpServers } = loaded.config.runtime;
  const meter = { ledger: usage, providers: { ...config.providers, ...keyed } };
  const providers = createConfiguredProviders(
    { ...config, providers: meter.providers },
    env,
    (fields, message) => logger.warn(fields, message),
    (provider) => meterProvider(provider, meter),
  );
  requireProviders(providers, config);
  for (const provider of embedding.providers ?? []) {
    providers.register(provider, { origin: 'code', default: provider.id === embedding.defaultProvider });
  }
  const recording = openRecorder(embedding.recording ?? settings.recording, providers, logger);
  opened.add(() => recording?.close());
  const recorder = recording?.recorder;
  const tools = createToolRegistry({ limits: config.limits, log: logger });
  const secretTools = createSecretTools(client, (agent) => config.secretTools.agents.includes(agent));
  for (const tool of [...createMemoryTools(client), ...createSkillTools(client), ...secretTools, ...(embedding.tools ?? [])])
    tools.register(tool);
  const groups = openChildGroups(folder, logger);
  const toolService = createToolService({
    registry: tools,
    store: createJsonToolStore(folder),
    connectMcp: createMcpConnector(groups),
    allowedHosts: loaded.config.daemon.allowedHosts,
    log: logger,
  });
  const runtime = await openRuntime({
    log: recorder?.watch(log) ?? log,
    daemon: recorder?.watch(client) ?? client,
    recorder,
    providers,
    tools,
    toolService,
    config,
    usage,
    retention: loaded.config.signals.retention,
    telemetry: telemetryOptions(env, loaded.config.telemetry, VERSION),
    clock: createSteadyClock(systemClock, () => performance.now(), await newestTime(log)),
    logger,
    info: { version: VERSION, workspace: folder, startedAt, lost: reportFinding(log, logger) },
  });
  // Before they are started anew: what is left may hold a port or a lock.
  await groups.endLeftovers();
  await toolService.restore(Object.entries(mcpServers).map(([mcpServer, server]) => ({ mcpServer, ...server })));
  return { runtime, providers, recorder, toolService, config };
}

/** What of the log is missing, to be said in the health; undefined when nothing is. */
function reportFinding({ finding }: OpenedSignalLog, logger: Logger): string | undefined {
  if (finding.kind === 'replaced') logger.warn({}, finding.detail);
  if (finding.kind !== 'lost') return undefined;
  logger.error({}, finding.detail);
  return finding.detail;
}

/** Of the last signal of the log; null when there is none. */
async function newestTime(log: SignalLog): Promise<number | null> {
  const [newest] = await log.feed({ after: (await log.headGseq()) - 1, limit: 1 });
  return newest ? Date.parse(newest.timestamp) : null;
}

/** Of the model that sessions of an agent begin with; the assumed one where the agent names a provider that is not there. */
function contextTokensOf({ agents, runtime }: AgentYaml, providers: ProviderRegistry, agent: string): number {
  const { provider, model } = agents?.roster.find(({ name }) => name === agent) ?? {};
  try {
    return chooseModel({ providers, config: runtime }, { provider, model }).contextLimit;
  } catch (error) {
    if (isAppError(error)) return runtime.limits.contextTokensMax;
    throw error;
  }
}

/** A name that leads nowhere should be told now, not when a provider fails at night. @throws AppError `config_invalid` */
function requireProviders(providers: ProviderRegistry, { fallback, routing, background }: RuntimeConfig): void {
  const named = [
    ...fallback.map((choice, index) => ({ place: `runtime.fallback[${index}].provider`, choice })),
    { place: 'runtime.background.provider', choice: background },
    ...Object.entries(routing).map(([name, choice]) => ({ place: `runtime.routing.${name}.provider`, choice: choice ?? {} })),
  ];
  const known = providers.list().map((entry) => entry.id);
  for (const { place, choice } of named) {
    if (choice.provider === undefined || known.includes(choice.provider)) continue;
    throw new AppError('config_invalid', {
      detail: `agent.yaml: ${place} names "${choice.provider}"; known providers: ${known.join(', ')}`,
    });
  }
}
