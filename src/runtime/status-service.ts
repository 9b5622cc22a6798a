import { daemonOperations } from '../contract/daemon.ts';
import { isoTime } from '../core/clock.ts';
import { AppError } from '../core/errors.ts';
import type { EventLoopDelay } from './event-loop-delay.ts';
import { machineRefs } from './machine-service.ts';
import { residentBytes } from './resident-memory.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

/** The daemon counts as away when it takes longer than this to say that it is well; unit: milliseconds. */
export const DAEMON_HEALTH_TIMEOUT_MS = 1_000;

/** Health and description of the runtime. */
export function createStatusService(deps: RuntimeDeps, eventLoop: EventLoopDelay, damagedWorkflows: () => number) {
  const { supervisor, daemon, info } = deps;
  return {
    async health() {
      const reachable = await answers(daemon);
      const damaged = damagedWorkflows();
      const reasons = reasonsOf(reachable, deps.log.writeFault(), damaged);
      if (info.lost !== undefined) reasons.push(info.lost);
      const state = reasons.length === 0 ? ('healthy' as const) : ('degraded' as const);
      return {
        status: supervisor.draining ? ('draining' as const) : state,
        reasons,
        version: info.version,
        pid: process.pid,
        uptimeMs: deps.clock.now() - info.startedAt,
        daemon: { url: daemon.baseUrl, reachable },
        provider: deps.providers.resolve().provider.id,
        sessions: await countSessions(deps),
        workflows: { damaged },
        eventLoopDelayMs: { p50: rounded(eventLoop.percentile(50)), p99: rounded(eventLoop.percentile(99)) },
        rssBytes: residentBytes(),
      };
    },

    ready() {
      if (supervisor.draining) throw new AppError('draining', { detail: 'the runtime is shutting down' });
      return { status: 'ready' as const };
    },

    info() {
      const { provider, model } = deps.providers.resolve();
      const listed = deps.providers.list();
      return {
        name: 'signet' as const,
        version: info.version,
        node: process.versions.node,
        startedAt: isoTime(info.startedAt),
        workspace: info.workspace,
        daemonUrl: daemon.baseUrl,
        provider: {
          id: provider.id,
          model,
          origin: listed.find((entry) => entry.id === provider.id)?.origin ?? 'code',
          offlineDemo: provider.kind === 'demo',
        },
        providers: listed.map((entry) => entry.id),
        tools: deps.tools.list().map((tool) => tool.name),
        machines: machineRefs(),
        limits: { ...deps.config.limits },
      };
    },
  };
}

function answers(daemon: RuntimeDeps['daemon']): Promise<boolean> {
  return daemon.call(daemonOperations.daemonHealth, {}, { timeoutMs: DAEMON_HEALTH_TIMEOUT_MS }).then(
    () => true,
    () => false,
  );
}

/** Why the runtime does not do all of its work. */
function reasonsOf(reachable: boolean, writeFault: string | null, damaged: number): string[] {
  const reasons: string[] = [];
  if (!reachable) reasons.push('the daemon does not answer');
  if (writeFault !== null) reasons.push(`the last write of the signal log failed: ${writeFault}`);
  if (damaged > 0) reasons.push(`workflows that do not go on because their logs are damaged: ${damaged}; GET /workflows names them`);
  return reasons;
}

async function countSessions({ supervisor, stuck, log }: RuntimeDeps) {
  const { alive, quarantined } = supervisor;
  return { alive, quarantined, stuck: stuck.count, byState: await log.countCards() };
}

function rounded(milliseconds: number): number {
  return Number.isFinite(milliseconds) ? Math.round(milliseconds * 100) / 100 : 0;
}
