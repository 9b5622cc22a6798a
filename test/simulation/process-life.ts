import { RuntimeConfig } from '../../src/contract/config.ts';
import type { Logger } from '../../src/core/logger.ts';
import type { RequestContext } from '../../src/core/operation-call.ts';
import { createProviderRegistry } from '../../src/providers/registry.ts';
import { createAgentLimits } from '../../src/runtime/agent-limits.ts';
import { createApprovalService } from '../../src/runtime/approval-service.ts';
import { ALL_TOOLS_HERE } from '../../src/runtime/effects/effect-deps.ts';
import { createEffectFaults } from '../../src/runtime/effects/effect-faults.ts';
import { createRunEffect } from '../../src/runtime/effects/run-effect.ts';
import { LiveHub } from '../../src/runtime/live/live-hub.ts';
import { createMessageArrivals } from '../../src/runtime/message-arrivals.ts';
import { createPromptService } from '../../src/runtime/prompt-service.ts';
import type { RuntimeDeps } from '../../src/runtime/runtime-deps.ts';
import type { RunEffect } from '../../src/runtime/session-host.ts';
import { createSessionService } from '../../src/runtime/session-service.ts';
import { createFairSlots } from '../../src/runtime/slots.ts';
import { Supervisor } from '../../src/runtime/supervisor.ts';
import { createToolRegistry } from '../../src/tools/tool-registry.ts';
import { gateLog, type LogGate } from './gated-log.ts';
import type { MemoryLog } from './memory-log.ts';
import type { Outside } from './outside.ts';
import type { Random } from './random.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Small numbers, so that limits are met. */
export const CONFIG = RuntimeConfig.parse({
  limits: {
    mailboxTurnsMax: 4,
    roundsMax: 6,
    turnTimeoutMs: 600_000,
    abortGraceMs: 5_000,
    approvalTimeoutMs: 120_000,
    idleTtlMs: 60_000,
    contextTokensMax: 1_500,
    toolCallsMax: 3,
    providerCallsMax: 4,
    toolTimeoutMs: 300_000,
  },
  approvals: [{ tool: 'forbidden', decision: 'deny' }],
  fallback: [{ model: 'sim-2' }],
});

/** One life of the process: what is in memory between a start and a crash. */
export interface ProcessLife {
  readonly supervisor: Supervisor;
  readonly gate: LogGate;
  readonly sessions: ReturnType<typeof createSessionService>;
  readonly prompts: ReturnType<typeof createPromptService>;
  readonly approvals: ReturnType<typeof createApprovalService>;
  /** Another agent sends the session a message. */
  readonly message: (session: string) => void;
}

export interface LifeParts {
  readonly log: MemoryLog;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly outside: Outside;
  readonly report: (invariant: string, detail: string) => void;
  /** Stands between a session and its effects, to prove that a broken rule is seen. */
  readonly bend?: (run: RunEffect) => RunEffect;
}

/** The runtime as composition builds it, on a log, a clock and an outside that the simulation holds. */
export function startLife({ log: stored, time, random, outside, report, bend }: LifeParts): ProcessLife {
  const { log, gate } = gateLog(stored);
  const logger = watchLogger(report);
  const hub = new LiveHub();
  const providers = createProviderRegistry();
  providers.register(outside.provider(), { origin: 'simulation', default: true });
  const tools = createToolRegistry({ limits: CONFIG.limits, log: logger });
  for (const tool of outside.tools()) tools.register(tool);
  const daemon = outside.daemon();
  const supervisor = new Supervisor({ log, clock: time, logger, hub, random: () => random.next(), sessionsMax: CONFIG.limits.sessionsMax });
  const faults = createEffectFaults();
  const runEffect = createRunEffect({
    daemon,
    providers,
    tools,
    toolService: ALL_TOOLS_HERE,
    config: CONFIG,
    hub,
    clock: time,
    logger,
    faults,
    providerSlots: createFairSlots(CONFIG.limits.providerCallsMax, () => CONFIG.limits.providerCallsMax),
    toolSlots: createFairSlots(Number.POSITIVE_INFINITY, () => CONFIG.limits.toolCallsMax),
    random: () => random.next(),
  });
  supervisor.useEffects(bend ? bend(runEffect) : runEffect);
  const info = { version: '0', workspace: '/', startedAt: 0 };
  // What these services do not use is not there: metrics, and registering tools.
  const agentLimits = createAgentLimits(CONFIG);
  const deps = {
    supervisor,
    log,
    hub,
    daemon,
    providers,
    tools,
    agentLimits,
    faults,
    config: CONFIG,
    clock: time,
    logger,
    info,
  } as unknown as RuntimeDeps;
  const arrivals = createMessageArrivals(deps);
  return {
    supervisor,
    gate,
    sessions: createSessionService(deps),
    prompts: createPromptService(deps),
    approvals: createApprovalService(deps),
    message: (session) => {
      const message = outside.post(session);
      // A daemon may also die between keeping a message and telling of it.
      if (random.chance(0.9)) arrivals.hear({ message, isFor: ({ sessionKey }) => sessionKey === session });
    },
  };
}

/** Sentences of the runtime that say that something was lost. */
const LOSSES = ['an outcome could not be recorded', 'a timer could not be recorded', 'the session registry failed'];

function watchLogger(report: LifeParts['report']): Logger {
  const quiet = () => {};
  return {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (fields, message) => {
      if (LOSSES.includes(message)) report('nothing is lost', `${message}: ${String((fields as { err?: unknown }).err)}`);
    },
  };
}

/** A request of a client that goes when `signal` aborts. */
export function requestContext(client: string, signal: AbortSignal): RequestContext {
  return { requestId: 'req', client, signal, header: () => undefined, reply: { status() {}, header() {} } };
}
