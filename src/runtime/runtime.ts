import { createInProcessTransport } from '../client/in-process.ts';
import type { RetentionConfig, RuntimeConfig } from '../contract/config.ts';
import { daemonOperations } from '../contract/daemon.ts';
import { type RuntimeOperations, runtimeOperations } from '../contract/runtime.ts';
import type { Owner } from '../core/caller-scope.ts';
import type { Clock } from '../core/clock.ts';
import type { SentMessage } from '../core/cross-agent.ts';
import { isAppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { BypassChange } from '../core/memory-store.ts';
import type { Call, DaemonClient } from '../core/operation-call.ts';
import type { SignalLog } from '../core/signal-log.ts';
import type { UsageLedger } from '../core/usage.ts';
import type { WorkflowRuns } from '../core/workflow.ts';
import type { HttpServerOptions } from '../http/server.ts';
import type { ProviderRegistry } from '../providers/registry.ts';
import { createSpawnTool } from '../tools/spawn-tool.ts';
import type { ToolRegistry } from '../tools/tool-registry.ts';
import type { ToolService } from '../tools/tool-service.ts';
import type { AgentLimits } from './agent-limits.ts';
import { createBypassArrivals } from './bypass-arrivals.ts';
import { createDaemonNotes, type DaemonNotes } from './daemon-notes.ts';
import { createEffectFaults } from './effects/effect-faults.ts';
import { createRunEffect } from './effects/run-effect.ts';
import { watchEventLoop } from './event-loop-delay.ts';
import { createLazyMetrics } from './lazy-metrics.ts';
import { LiveHub } from './live/live-hub.ts';
import { machineRefs } from './machine-service.ts';
import { createMessageArrivals } from './message-arrivals.ts';
import { createPromptService } from './prompt-service.ts';
import type { EffectRecorder } from './recording/effect-recorder.ts';
import { startRetention } from './retention.ts';
import { createRuntimeHandlers, type RuntimeHandlers } from './routes.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { createSessionService } from './session-service.ts';
import { createFairSlots } from './slots.ts';
import { serveSocket } from './socket.ts';
import { createSpawnSession } from './spawn-service.ts';
import { createStatusService, DAEMON_HEALTH_TIMEOUT_MS } from './status-service.ts';
import { streamAll, streamSession } from './streams.ts';
import { openSupervision } from './supervision.ts';
import type { Supervisor } from './supervisor.ts';
import { startTelemetry } from './telemetry.ts';
import type { TelemetryOptions } from './telemetry-exporter.ts';
import { WorkflowService } from './workflow/workflow-service.ts';
import { streamWorkflow } from './workflow/workflow-stream.ts';

export interface RuntimeOptions {
  readonly log: SignalLog;
  readonly daemon: DaemonClient;
  readonly providers: ProviderRegistry;
  readonly tools: ToolRegistry;
  readonly toolService: ToolService;
  readonly config: RuntimeConfig;
  /** Where spans go; nowhere when left out. */
  readonly telemetry?: TelemetryOptions | null;
  /** The book of provider calls, for the metrics. */
  readonly usage?: Pick<UsageLedger, 'sinceStart'>;
  /** Answers effects from a recording, or makes one. */
  readonly recorder?: EffectRecorder;
  /** How long logs are kept; for ever when left out. */
  readonly retention?: RetentionConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly info: RuntimeDeps['info'];
  /** Spreads retries; Math.random unless a test decides. */
  readonly random?: () => number;
}

export interface Runtime {
  readonly handlers: RuntimeHandlers;
  readonly streams: NonNullable<HttpServerOptions<RuntimeOperations>['streams']>;
  readonly sockets: NonNullable<HttpServerOptions<RuntimeOperations>['sockets']>;
  readonly operations: RuntimeOperations;
  readonly notes: DaemonNotes;
  readonly workflows: WorkflowRuns;
  /** Who owns a session or a workflow run; empty for one that is unknown. */
  ownersOf(kind: 'session' | 'workflow', id: string): Promise<readonly Owner[]>;
  /** A message between agents was stored: sessions in memory that it is for take it into their logs. */
  hear(sent: SentMessage): void;
  /** Takes in a bypass that the daemon was told of; settled once the sessions in memory show it. Never rejects. */
  noteBypass(change: BypassChange): Promise<void>;
  /** Brings back sessions and workflows whose last process left work undone; resolves with their number. */
  resume(): Promise<number>;
  /** No new turns; running ones get the drain time. Then all sessions leave memory. */
  drain(): Promise<{ interrupted: number }>;
}

/** The execution loop: sessions under a supervisor, and the handlers that reach them. The caller serves the handlers and owns all parts. */
export async function openRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { log, clock, logger, config, info, random = Math.random } = options;
  const hub = new LiveHub();
  hub.headGseq = await log.headGseq();
  const eventLoop = watchEventLoop();
  const supervision = openSupervision({ log, config, clock, logger, hub, random, eventLoop });
  const { supervisor, agentLimits, stuck } = supervision;
  const metrics = measure(hub, log, supervision, options.usage);
  const deps: RuntimeDeps = { ...options, faults: createEffectFaults(), hub, supervisor, metrics, agentLimits, stuck };
  supervisor.useEffects(createRunEffect({ ...options, faults: deps.faults, ...effectSlots(config, agentLimits), hub, random }));
  const telemetry = await startTelemetry(hub, options.telemetry ?? null, logger);
  const notes = createDaemonNotes(deps);
  const status = createStatusService(deps, eventLoop, () => workflows.damaged.size);
  const sessions = createSessionService(deps);
  const prompts = createPromptService(deps);
  const workflows = new WorkflowService({ deps, sessions, prompts });
  const retention = startRetention({ ...deps, readUntil: () => workflows.readUntil }, options.retention ?? {});
  const arrivals = createMessageArrivals(deps);
  const handlers = createRuntimeHandlers(deps, { sessions, prompts, workflows, status });
  options.tools.register(createSpawnTool(createSpawnSession({ supervisor, config, call: ownCall(handlers, logger), logger })));
  await checkDaemon(options, agentLimits);
  await notes.add('daemon:start', { version: info.version, node: process.versions.node, pid: process.pid, machines: machineRefs() });
  return {
    handlers,
    operations: runtimeOperations,
    notes,
    streams: {
      streamSession: (input, context, sse) => streamSession(deps, input, context, sse),
      streamWorkflow: (input, context, sse) => streamWorkflow(deps, workflows, input, context, sse),
      streamAll: (input, context, sse) => streamAll(deps, input, context, sse),
    },
    sockets: { socket: (_input, context, socket) => serveSocket(deps, handlers, context, socket) },
    workflows,
    ownersOf: createOwnersOf(supervisor, workflows),
    hear: arrivals.hear,
    noteBypass: createBypassArrivals(deps),
    resume: async () => {
      const [resumed] = await Promise.all([supervisor.sweep(), workflows.sweep()]);
      return resumed;
    },
    drain: async () => {
      await retention.close();
      workflows.close();
      arrivals.close();
      const outcome = await supervisor.drain(config.limits.drainTimeoutMs);
      supervision.close();
      eventLoop.close();
      metrics.close();
      await telemetry.close();
      await notes.add('daemon:stop', { reason: 'signal', uptimeMs: clock.now() - info.startedAt });
      return outcome;
    },
  };
}

function measure(hub: LiveHub, log: SignalLog, { supervisor, stuck }: ReturnType<typeof openSupervision>, usage: RuntimeOptions['usage']) {
  return createLazyMetrics(hub, {
    countCards: () => log.countCards(),
    alive: () => supervisor.alive,
    quarantined: () => supervisor.quarantined,
    stuck: () => stuck.count,
    calls: usage?.sinceStart,
    queued: () => [...supervisor.hosts()].reduce((sum, host) => sum + host.view.session.queue.length, 0),
  });
}

/** A workflow run has agents of its own choice, and so belongs to none. */
function createOwnersOf(supervisor: Supervisor, workflows: WorkflowService): Runtime['ownersOf'] {
  return async (kind, id) => {
    try {
      if (kind === 'workflow') return [{ agent: null, project: (await workflows.coreOf(id)).started.project ?? null, isLive: true }];
      const { agent, project } = (await supervisor.view(id)).session;
      return [{ agent, project, isLive: true }];
    } catch (error) {
      if (isAppError(error, 'session_not_found') || isAppError(error, 'workflow_not_found')) return [];
      throw error;
    }
  };
}

/** Of the runtime's own operations, within the process. */
function ownCall(handlers: RuntimeHandlers, log: Logger): Call {
  return createInProcessTransport(runtimeOperations, handlers, { log });
}

function effectSlots({ limits }: RuntimeConfig, agentLimits: AgentLimits) {
  return {
    providerSlots: createFairSlots(limits.providerCallsMax, agentLimits.providerCalls),
    toolSlots: createFairSlots(Number.POSITIVE_INFINITY, () => limits.toolCallsMax),
  };
}

/** A daemon that is away is no reason not to start: sessions begin degraded and hooks find it when it is back. @source spec/native-runtime */
async function checkDaemon({ daemon, logger }: RuntimeOptions, agentLimits: AgentLimits): Promise<void> {
  try {
    await daemon.call(daemonOperations.daemonHealth, {}, { timeoutMs: DAEMON_HEALTH_TIMEOUT_MS });
    const { agents } = await daemon.call(daemonOperations.listAgents, {}, { timeoutMs: DAEMON_HEALTH_TIMEOUT_MS });
    agentLimits.learn(agents);
  } catch (error) {
    logger.warn({ err: error, url: daemon.baseUrl }, 'the daemon does not answer; sessions begin without identity and memories');
  }
}
