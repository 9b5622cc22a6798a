import type { RuntimeConfig } from '../contract/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { startAdmission } from './admission.ts';
import { type AgentLimits, createAgentLimits } from './agent-limits.ts';
import type { EventLoopDelay } from './event-loop-delay.ts';
import type { LiveHub } from './live/live-hub.ts';
import { type StuckDetector, startStuckDetector } from './stuck-detector.ts';
import { Supervisor } from './supervisor.ts';

export interface SupervisionOptions {
  readonly log: SignalLog;
  readonly config: RuntimeConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly hub: LiveHub;
  readonly random: () => number;
  readonly eventLoop: EventLoopDelay;
}

export interface Supervision {
  readonly supervisor: Supervisor;
  readonly agentLimits: AgentLimits;
  readonly stuck: StuckDetector;
  /** After the supervisor has drained. */
  close(): void;
}

/** The supervisor with those who tell it what is too much, and what goes on for too long. */
export function openSupervision({ config, ...options }: SupervisionOptions): Supervision {
  const { limits } = config;
  const { log, logger, eventLoop } = options;
  const agentLimits = createAgentLimits(config);
  const admission = startAdmission({ eventLoop, delayMsMax: limits.eventLoopDelayMsMax, logPressure: () => log.pressure() });
  const supervisor = new Supervisor({
    ...options,
    sessionsMax: limits.sessionsMax,
    agentSessionsMax: agentLimits.sessions,
    overload: admission.refusal,
  });
  const stuck = startStuckDetector({
    hosts: () => supervisor.hosts(),
    limits,
    logger,
    restart: (host, error) => supervisor.restart(host, error),
  });
  return {
    supervisor,
    agentLimits,
    stuck,
    close: () => {
      stuck.close();
      admission.close();
    },
  };
}
