import type { RuntimeConfig } from '../contract/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import type { SignalLog } from '../core/signal-log.ts';
import type { ProviderRegistry } from '../providers/registry.ts';
import type { ToolRegistry } from '../tools/tool-registry.ts';
import type { ToolService } from '../tools/tool-service.ts';
import type { AgentLimits } from './agent-limits.ts';
import type { EffectFaults } from './effects/effect-faults.ts';
import type { LazyMetrics } from './lazy-metrics.ts';
import type { LiveHub } from './live/live-hub.ts';
import type { StuckDetector } from './stuck-detector.ts';
import type { Supervisor } from './supervisor.ts';

/** What the runtime's services share. Composition owns and closes all of it. */
export interface RuntimeDeps {
  readonly supervisor: Supervisor;
  readonly log: SignalLog;
  readonly hub: LiveHub;
  readonly metrics: LazyMetrics;
  readonly agentLimits: AgentLimits;
  readonly faults: EffectFaults;
  readonly stuck: Pick<StuckDetector, 'count'>;
  readonly daemon: DaemonClient;
  readonly providers: ProviderRegistry;
  readonly tools: ToolRegistry;
  readonly toolService: ToolService;
  readonly config: RuntimeConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly info: { readonly version: string; readonly workspace: string; readonly startedAt: number; readonly lost?: string | undefined };
}
