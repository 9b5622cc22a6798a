import { type NamesOfKind, type PayloadOf, SIGNALS } from '../contract/catalog.ts';
import type { RuntimeConfig } from '../contract/config.ts';
import { daemonOperations } from '../contract/daemon.ts';
import { type RuntimeOperations, runtimeOperations } from '../contract/runtime.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { sealSignal, signalId } from '../core/signal-seal.ts';
import type { HttpServerOptions } from '../http/server.ts';
import type { ProviderRegistry } from '../providers/registry.ts';
import type { ToolRegistry } from '../tools/tool-registry.ts';
import type { ToolService } from '../tools/tool-service.ts';
import { createRunEffect } from './effects/run-effect.ts';
import { createLazyMetrics } from './lazy-metrics.ts';
import { LiveHub } from './live/live-hub.ts';
import { machineRefs } from './machine-service.ts';
import { createRuntimeHandlers, type RuntimeHandlers } from './routes.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { createSlots, slotsBySession } from './slots.ts';
import { serveSocket } from './socket.ts';
import { createStatusService, DAEMON_HEALTH_TIMEOUT_MS } from './status-service.ts';
import { streamAll, streamSession } from './streams.ts';
import { Supervisor } from './supervisor.ts';

export interface RuntimeOptions {
  readonly log: SignalLog;
  readonly daemon: DaemonClient;
  readonly providers: ProviderRegistry;
  readonly tools: ToolRegistry;
  readonly toolService: ToolService;
  readonly config: RuntimeConfig;
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
  /** Brings back sessions whose last process left work undone; resolves with their number. */
  resume(): Promise<number>;
  /** No new turns; running ones get the drain time. Then all sessions leave memory. */
  drain(): Promise<{ interrupted: number }>;
}

/** The execution loop: sessions under a supervisor, and the handlers that reach them. The caller serves the handlers and owns all parts. */
export async function openRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { log, clock, logger, config, info } = options;
  const hub = new LiveHub();
  hub.headGseq = await log.headGseq();
  const random = options.random ?? Math.random;
  const supervisor = new Supervisor({ log, clock, logger, hub, random, sessionsMax: config.limits.sessionsMax });
  const metrics = createLazyMetrics(hub, {
    countCards: () => log.countCards(),
    alive: () => supervisor.alive,
    queued: () => [...supervisor.hosts()].reduce((sum, host) => sum + host.view.session.queue.length, 0),
  });
  const deps: RuntimeDeps = { ...options, hub, supervisor, metrics };
  supervisor.useEffects(
    createRunEffect({
      ...options,
      hub,
      random,
      providerSlots: createSlots(config.limits.providerCallsMax),
      toolSlots: slotsBySession(config.limits.toolCallsMax),
    }),
  );
  const status = createStatusService(deps);
  const handlers = createRuntimeHandlers(deps, status);
  await checkDaemon(options);
  await noteDaemon(deps, 'daemon:start', { version: info.version, node: process.versions.node, pid: process.pid, machines: machineRefs() });
  return {
    handlers,
    operations: runtimeOperations,
    streams: {
      streamSession: (input, context, sse) => streamSession(deps, input, context, sse),
      streamAll: (input, context, sse) => streamAll(deps, input, context, sse),
    },
    sockets: { socket: (_input, context, socket) => serveSocket(deps, handlers, context, socket) },
    resume: () => supervisor.sweep(),
    drain: async () => {
      const outcome = await supervisor.drain(config.limits.drainTimeoutMs);
      status.close();
      metrics.close();
      await noteDaemon(deps, 'daemon:stop', { reason: 'signal', uptimeMs: clock.now() - info.startedAt });
      return outcome;
    },
  };
}

/** A daemon that is away is no reason not to start: sessions begin degraded and hooks find it when it is back. @source spec/native-runtime */
async function checkDaemon({ daemon, logger }: RuntimeOptions): Promise<void> {
  try {
    await daemon.call(daemonOperations.daemonHealth, {}, { timeoutMs: DAEMON_HEALTH_TIMEOUT_MS });
  } catch (error) {
    logger.warn({ err: error, url: daemon.baseUrl }, 'the daemon does not answer; sessions begin without identity and memories');
  }
}

/** Facts about the process itself stand in the stream `daemon`. */
async function noteDaemon<N extends NamesOfKind<'system'> & `daemon:${string}`>(
  deps: RuntimeDeps,
  name: N,
  payload: PayloadOf<N>,
): Promise<void> {
  const stream = 'daemon';
  const { head, epoch } = await deps.log.own(stream);
  const last = head > 0 ? (await deps.log.readBefore(stream, head + 1, 1))[0] : undefined;
  const id = signalId(stream, head + 1);
  const signal = sealSignal(
    {
      v: 1,
      id,
      seq: head + 1,
      stream,
      name,
      payload: payload as Record<string, unknown>,
      timestamp: isoTime(Math.max(deps.clock.now(), last ? Date.parse(last.timestamp) : 0)),
      source: { kind: SIGNALS[name].kind, root: id, depth: 0 },
    },
    last?.digest ?? '',
  );
  const { firstGseq } = await deps.log.append({ stream, epoch, expected: head, signals: [signal] });
  deps.hub.publish(stream, [{ ...signal, gseq: firstGseq }]);
}
