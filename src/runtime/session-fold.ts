import type { PayloadOf } from '../contract/catalog.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { createView, foldView } from '../core/session-view.ts';
import type { SignalLog, Snapshot } from '../core/signal-log.ts';
import { signalDigest } from '../core/signal-seal.ts';
import { atBoundary } from './machine-upgrade.ts';
import { restoreCheckpoint } from './session-checkpoint.ts';
import { foldCore } from './session-core.ts';
import { restoreSnapshot } from './session-snapshot.ts';
import type { FoldedSession } from './session-state.ts';

/** Stored signals folded at once. */
const PAGE_SIGNALS = 1_000;
/** A log that is trimmed between two reads is begun again; one that has a gap then is damaged. */
const TRIES_MAX = 3;

export interface FoldOptions {
  /** Compare each digest with the signals before it: 5 µs a signal. On unless said otherwise. */
  readonly check?: boolean;
}

/**
 * A session rebuilt from its log, the same as the one that wrote it.
 *
 * @param until  last signal to take; all of them when left out
 * @throws AppError `session_not_found`, `log_trimmed` when `until` lies before what the log still has, `log_divergence`
 */
export async function foldSession(
  log: SignalLog,
  id: string,
  until = Number.MAX_SAFE_INTEGER,
  { check = true }: FoldOptions = {},
): Promise<FoldedSession> {
  const cached = cachedFold(await log.loadSnapshot(`session:${id}`, until));
  if (cached && cached.core.seq <= until) {
    const folded = await foldFrom(cached, log, id, until, check).catch(orDamage);
    // A snapshot is only a cache: whether it is the log that is damaged shows without it.
    if ('core' in folded) return folded;
  }
  for (let attempt = 1; ; attempt += 1) {
    const folded = await foldFrom(await checkpointOf(log, id, until), log, id, until, check).catch(orDamage);
    if ('core' in folded) return folded;
    if (folded.what !== MISSING || attempt === TRIES_MAX) throw logDamaged(id, folded);
  }
}

/** Null for a snapshot that cannot be read: it is only a cache. */
function cachedFold(snapshot: Snapshot | null): FoldedSession | null {
  try {
    return restoreSnapshot(snapshot);
  } catch {
    return null;
  }
}

/** The session with all signals there are by the head of its stream. @throws as `foldSession` does */
export async function foldWhole(log: SignalLog, id: string, head: number): Promise<FoldedSession> {
  const folded = await foldSession(log, id);
  if (folded.core.seq < head) throw logDamaged(id, { seq: folded.core.seq + 1, what: MISSING });
  return folded;
}

/** A session as far as its log can be read. */
export interface ReadableSession extends FoldedSession {
  /** What is damaged behind it; null when that was all. */
  readonly damage: AppError | null;
}

/** Of a damaged session what stands before the damage. @throws as `foldSession` does */
export async function foldReadable(log: SignalLog, id: string): Promise<ReadableSession> {
  try {
    return { ...(await foldSession(log, id)), damage: null };
  } catch (error) {
    if (!isAppError(error, 'log_divergence') || !(Number(error.extra?.seq) > 1)) throw error;
    return { ...(await foldSession(log, id, Number(error.extra?.seq) - 1)), damage: error };
  }
}

interface Damage {
  readonly seq: number;
  readonly what: string;
}

const MISSING = 'it is missing';

async function foldFrom(
  start: FoldedSession | null,
  log: SignalLog,
  id: string,
  until: number,
  check: boolean,
): Promise<FoldedSession | Damage> {
  let core = start?.core ?? null;
  let view = start?.view ?? null;
  for (;;) {
    const seq = core?.seq ?? 0;
    const limit = Math.min(PAGE_SIGNALS, until - seq);
    const page = limit > 0 ? await log.read(`session:${id}`, seq, limit) : [];
    for (const signal of page) {
      const expected = (core?.seq ?? 0) + 1;
      if (signal.seq !== expected) return { seq: expected, what: MISSING };
      if (check && signalDigest(signal, core?.digest ?? '') !== signal.digest) return { seq: expected, what: 'its digest does not fit' };
      core = foldCore(core, signal);
      view ??= createView(signal.payload as unknown as PayloadOf<'session:created'>, signal.timestamp);
      foldView(view, signal);
    }
    if (page.length < PAGE_SIGNALS) break;
  }
  if (!core || !view) throw sessionNotFound(id);
  return atBoundary({ core, view });
}

/** Where folding begins without a snapshot; null is the first signal. */
async function checkpointOf(log: SignalLog, id: string, until: number): Promise<FoldedSession | null> {
  const checkpoint = await log.loadCheckpoint(`session:${id}`);
  if (!checkpoint) return null;
  if (checkpoint.seq > until) throw logTrimmed(id, checkpoint.seq);
  return restoreCheckpoint(checkpoint);
}

/** A row the store could not read is told by it. */
function orDamage(error: unknown): Damage {
  if (isAppError(error, 'log_divergence') && typeof error.extra?.seq === 'number') return { seq: error.extra.seq, what: faultOf(error) };
  throw error;
}

/** What the store found wrong with a row. */
export function faultOf(error: unknown): string {
  return isAppError(error) && typeof error.extra?.fault === 'string' ? error.extra.fault : 'it cannot be read';
}

function logDamaged(id: string, { seq, what }: Damage): AppError {
  return new AppError('log_divergence', {
    detail: `signal ${seq} of session ${id} is damaged: ${what}. The session is put aside; what stands before can be read and forked`,
    extra: { session: id, seq },
  });
}

export function sessionNotFound(id: string): AppError {
  return new AppError('session_not_found', { detail: `no session ${id}` });
}

/** @param to  last signal that is gone */
export function logTrimmed(id: string, to: number): AppError {
  return new AppError('log_trimmed', { detail: `signals 1 to ${to} of session ${id} were trimmed; ask for ${to} or a later one` });
}
