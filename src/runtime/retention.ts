import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { RetentionConfig } from '../contract/config.ts';
import { isoTime } from '../core/clock.ts';
import { isAppError } from '../core/errors.ts';
import type { SessionCard } from '../core/signal-log.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { SETTLED_STATES } from './session-card.ts';
import { type TrimDeps, trimSession } from './trim-service.ts';

/** From one round to the next, and from the start of the process to the first; unit: milliseconds. */
export const RETENTION_EVERY_MS = 15 * 60_000;
/** Cards looked at before other work gets its turn. */
const PAGE_CARDS = 50;
/** Fewer signals are not worth the proof: they stay until the next round. */
const DROPPED_MIN = 200;
/** What a round gets to finish the session it is at; one that is cut off has dropped nothing; unit: milliseconds. */
const CLOSE_MS_MAX = 2_000;
const MS_PER_DAY = 86_400_000;

type RetentionDeps = TrimDeps & Pick<RuntimeDeps, 'logger'>;

export interface Retention {
  /** One round, now: trims and forgets what the configuration says. A session that cannot be trimmed is logged and passed over. */
  run(): Promise<{ trimmed: number; forgotten: number }>;
  /** No further rounds; the one that runs stops at its next session. Resolves when it has, within a deadline. */
  close(): Promise<void>;
}

/** Keeps logs as long as agent.yaml says, one session at a time, in the background. Without a wish it does nothing and has no timer. */
export function startRetention(deps: RetentionDeps, config: RetentionConfig, everyMs = RETENTION_EVERY_MS): Retention {
  let closed = false;
  let running: Promise<{ trimmed: number; forgotten: number }> | null = null;
  /** Older cards were seen in an earlier round, and have not changed since. */
  let seenTo = '';
  const round = async () => {
    const now = isoTime(deps.clock.now());
    // What a workflow that is behind holds back now is looked at again.
    const isHeldBack = deps.readUntil() < deps.hub.headGseq;
    const forgotten = config.sessionDays === undefined ? 0 : await forgetEnded(deps, config.sessionDays, () => closed);
    const trimmed = config.keepTurns === undefined ? 0 : await trimSettled(deps, config.keepTurns, seenTo, () => closed);
    if (!closed && !isHeldBack) seenTo = now;
    return { trimmed, forgotten };
  };
  const run = () => {
    running ??= round().finally(() => {
      running = null;
    });
    return running;
  };
  const isWished = config.sessionDays !== undefined || config.keepTurns !== undefined;
  const timer = isWished
    ? setInterval(() => void run().catch((err: unknown) => deps.logger.error({ err }, 'old logs could not be trimmed')), everyMs)
    : undefined;
  timer?.unref();
  return {
    run,
    close: async () => {
      closed = true;
      clearInterval(timer);
      // What fails was logged.
      await Promise.race([running?.catch(() => undefined), delay(CLOSE_MS_MAX, undefined, { ref: false })]);
    },
  };
}

async function forgetEnded(deps: RetentionDeps, days: number, stopped: () => boolean): Promise<number> {
  const before = isoTime(deps.clock.now() - days * MS_PER_DAY);
  let forgotten = 0;
  for await (const card of cardsFrom(deps, { state: 'ended' }, { updatedAt: before, id: '' })) {
    if (stopped()) break;
    const [last] = await deps.log.readBefore(`session:${card.id}`, Number.MAX_SAFE_INTEGER, 1);
    // A workflow that is behind has still to see how it ended: a later round forgets it.
    if (last && last.gseq > deps.readUntil()) continue;
    await deps.supervisor.purge(card.id);
    forgotten += 1;
  }
  return forgotten;
}

async function trimSettled(deps: RetentionDeps, keepTurns: number, seenTo: string, stopped: () => boolean): Promise<number> {
  let trimmed = 0;
  for await (const card of cardsFrom(deps, {})) {
    if (stopped() || card.updatedAt < seenTo) break;
    if (card.turns <= keepTurns || !SETTLED_STATES.has(card.state)) continue;
    try {
      if ((await trimSession(deps, card.id, { keepTurns }, DROPPED_MIN)).dropped > 0) trimmed += 1;
    } catch (err) {
      // Busy again, or gone, since the card was read: a later round finds it.
      if (isAppError(err, 'draining')) break;
      if (!isAppError(err, 'turn_open') && !isAppError(err, 'session_not_found'))
        deps.logger.warn({ err, session: card.id }, 'the log of a session could not be trimmed');
    }
  }
  return trimmed;
}

/** Newest change first. */
async function* cardsFrom(
  { log }: RetentionDeps,
  query: { state?: string },
  from?: { updatedAt: string; id: string },
): AsyncGenerator<SessionCard> {
  for (let after = from; ; ) {
    const page = await log.cards({ ...query, limit: PAGE_CARDS, ...(after ? { after } : {}) });
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < PAGE_CARDS) return;
    after = { updatedAt: last.updatedAt, id: last.id };
    await nextTurn();
  }
}
