import type { RuntimeConfig } from '../../contract/config.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import type { DaemonClient } from '../../core/operation-call.ts';
import type { ProviderRegistry } from '../../providers/registry.ts';
import type { ToolRegistry } from '../../tools/tool-registry.ts';
import type { ToolService } from '../../tools/tool-service.ts';
import type { LiveHub } from '../live/live-hub.ts';
import type { EffectRecorder } from '../recording/effect-recorder.ts';
import type { FairSlots } from '../slots.ts';
import type { EffectFaults } from './effect-faults.ts';

/** What effects reach the outside with. */
export interface EffectDeps {
  readonly daemon: DaemonClient;
  readonly providers: ProviderRegistry;
  readonly tools: ToolRegistry;
  /** Tells which tools are still to come; a replay waits for none. */
  readonly toolService: Pick<ToolService, 'isAwaited' | 'arrival' | 'attempted'>;
  readonly config: RuntimeConfig;
  readonly hub: LiveHub;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Keeps the causes of failed turns for those who wait for them. */
  readonly faults: EffectFaults;
  /** Model calls at once, over all sessions and by agent. */
  readonly providerSlots: FairSlots;
  /** Tool calls at once, by session. */
  readonly toolSlots: FairSlots;
  /** Between 0 and 1; spreads retries. */
  readonly random: () => number;
  /** Answers from a recording, or makes one. */
  readonly recorder?: EffectRecorder;
}

/** Code of an outcome that was stopped by the session itself; never reaches a client as an error. */
export const ABORTED = 'aborted';

/** Of an outside that has no servers: what is not there does not come, and what is answered from a recording need not be there. */
export const ALL_TOOLS_HERE: EffectDeps['toolService'] = { isAwaited: () => false, arrival: async () => {}, attempted: async () => {} };
