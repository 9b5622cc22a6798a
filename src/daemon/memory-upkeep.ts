import type { Clock } from '../core/clock.ts';
import type { MessageStore, PresenceStore } from '../core/cross-agent.ts';
import type { Logger } from '../core/logger.ts';
import type { ClaimStore, MemoryStore, SessionStore } from '../core/memory-store.ts';
import type { Lineage } from './transcript-lineage.ts';

/** How often forgotten memories that are past recovery are looked for. */
const RETENTION_EVERY_MS = 6 * 3_600_000;
/** How often sessions nobody heard of are looked for. */
const SILENCE_EVERY_MS = 60_000;
/** One write transaction of upkeep erases or ends at most so many; other work goes on in between. */
const STEP_MAX = 500;

export interface UpkeepDeps {
  readonly memories: Pick<MemoryStore, 'purge'>;
  readonly claims: Pick<ClaimStore, 'expire'>;
  readonly sessions: Pick<SessionStore, 'end'>;
  readonly lineage: Pick<Lineage, 'settled' | 'queue'>;
  readonly presence: Pick<PresenceStore, 'purge'>;
  readonly messages: Pick<MessageStore, 'purge'>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Upkeep {
  /** Do all of it now, and again from time to time. */
  start(): void;
  /** Resolves when nothing runs any more. */
  stop(): Promise<void>;
}

/** What has to be done without anybody asking: erase what was forgotten long ago, end sessions that fell silent. */
export function createUpkeep(deps: UpkeepDeps): Upkeep {
  const timers: NodeJS.Timeout[] = [];
  const running = new Set<Promise<void>>();
  let stopped = false;
  const every = (ms: number, what: string, step: () => Promise<number>): void => {
    const round = async (): Promise<void> => {
      try {
        while (!stopped && (await step()) === STEP_MAX) await new Promise((resolve) => setImmediate(resolve));
      } catch (error) {
        deps.log.error({ category: 'memory', err: error }, what);
      }
    };
    const run = (): void => {
      const promise = round().finally(() => running.delete(promise));
      running.add(promise);
    };
    run();
    timers.push(setInterval(run, ms).unref());
  };
  return {
    start() {
      every(RETENTION_EVERY_MS, 'forgotten memories could not be erased', () => purge(deps));
      every(RETENTION_EVERY_MS, 'old messages between agents could not be erased', () => deps.messages.purge(STEP_MAX));
      every(RETENTION_EVERY_MS, 'sessions that are gone could not be forgotten', () => deps.presence.purge(STEP_MAX));
      every(SILENCE_EVERY_MS, 'silent sessions could not be ended', () => endSilent(deps));
    },
    async stop() {
      stopped = true;
      for (const timer of timers) clearInterval(timer);
      await Promise.all(running);
    },
  };
}

async function purge({ memories, log }: UpkeepDeps): Promise<number> {
  const erased = await memories.purge(STEP_MAX);
  if (erased > 0) log.info({ category: 'memory', memories: erased }, 'memories forgotten long ago were erased');
  return erased;
}

/** The claim of a session that never said it ended, and its line, as if it had. */
async function endSilent({ claims, sessions, lineage, log }: UpkeepDeps): Promise<number> {
  const expired = await claims.expire(STEP_MAX);
  for (const claim of expired) {
    const line = { agentId: claim.agentId, sessionKey: claim.key };
    await sessions.end(line, { harness: claim.harness, project: claim.project ?? undefined, reason: 'idle' });
    await lineage.settled(line);
    await lineage.queue(line);
    log.info({ category: 'session', sessionKey: claim.key, lastSeenAt: claim.lastSeenAt }, 'a session fell silent and was ended');
  }
  return expired.length;
}
