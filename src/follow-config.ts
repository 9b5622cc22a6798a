import { type Environment, LOG_LEVEL } from './config.ts';
import type { RuntimeConfig } from './contract/config.ts';
import { GENERATION_NAMES } from './core/generation.ts';
import type { LeveledLogger } from './core/logger.ts';
import type { LiveConfig } from './daemon/config-live.ts';

/** Keys of `runtime:` that are read anew at each use, and so may change while it runs. */
const RUNTIME_KEYS = ['approvals', 'approvalExpiry', 'spawn', 'secretTools', 'toolClasses', ...GENERATION_NAMES] as const;

/** Of a provider, the same; a map of models that was not there at the start is held by nobody. */
const PROVIDER_KEYS = [...GENERATION_NAMES, 'models'] as const;

export interface Followers {
  /** The runtime's own copy of its section. */
  readonly runtime: RuntimeConfig;
  readonly log: LeveledLogger;
  readonly env: Environment;
}

/** Carries what changed in agent.yaml to those who hold it outside the daemon. The environment still wins over the file. */
export function followConfig(live: LiveConfig, { runtime, log, env }: Followers): void {
  live.onChange(() => {
    const { config } = live.loaded;
    Object.assign(runtime, Object.fromEntries(RUNTIME_KEYS.map((key) => [key, config.runtime[key]])));
    followProviders(runtime.providers, config.runtime.providers);
    if (env.SIGNET_LOG_LEVEL?.trim()) return;
    log.level = config.daemon.logLevel ?? LOG_LEVEL;
  });
}

/** The runtime's own entries follow those of the file; providers that came or went wait for a restart. */
function followProviders(own: RuntimeConfig['providers'], now: RuntimeConfig['providers']): void {
  for (const [name, provider] of Object.entries(own)) {
    const changed = now[name];
    if (changed) Object.assign(provider, Object.fromEntries(PROVIDER_KEYS.map((key) => [key, changed[key]])));
  }
}
