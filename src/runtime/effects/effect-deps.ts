import type { RuntimeConfig } from '../../contract/config.ts';
import type { Clock } from '../../core/clock.ts';
import type { DaemonClient } from '../../core/operation-call.ts';
import type { ProviderRegistry } from '../../providers/registry.ts';
import type { ToolRegistry } from '../../tools/tool-registry.ts';
import type { LiveHub } from '../live/live-hub.ts';
import type { Slots } from '../slots.ts';

/** What effects reach the outside with. */
export interface EffectDeps {
  readonly daemon: DaemonClient;
  readonly providers: ProviderRegistry;
  readonly tools: ToolRegistry;
  readonly config: RuntimeConfig;
  readonly hub: LiveHub;
  readonly clock: Clock;
  /** Model calls at once, over all sessions. */
  readonly providerSlots: Slots;
  /** Tool calls at once in one session. */
  readonly toolSlots: (session: string) => Slots;
  /** Between 0 and 1; spreads retries. */
  readonly random: () => number;
}

/** Code of an outcome that was stopped by the session itself; never reaches a client as an error. */
export const ABORTED = 'aborted';
