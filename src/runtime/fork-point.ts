import type { Signal } from '../contract/signal.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { type FoldOptions, faultOf, foldSession } from './session-fold.ts';
import type { FoldedSession } from './session-state.ts';

/** Signals read at once when looking for the ends of a step; most steps have fewer than ten. */
const PAGE_SIGNALS = 64;

/** Of the kind `system`, and yet part of a step: that which begins the session and that which ends it. */
const SYSTEM_OUTPUTS: ReadonlySet<string> = new Set(['supervisor:child:started', 'supervisor:child:stopped']);

/**
 * The session after the step that signal `at` belongs to, or as it is.
 *
 * @throws AppError `invalid_cursor` when there is no such signal; else as `foldSession` does
 */
export async function foldAt(log: SignalLog, id: string, at: number | undefined, options?: FoldOptions): Promise<FoldedSession> {
  if (at === undefined) return foldSession(log, id);
  const { head } = await log.head(`session:${id}`);
  // A session that is not there is told of by the fold.
  if (head > 0 && head < at) throw new AppError('invalid_cursor', { detail: `session ${id} has ${head} signals, not ${at}` });
  return foldStep(log, id, at, options);
}

/**
 * The session after the step that signal `at` belongs to. In the middle of a step the machine has moved already while conversation and
 * view have not heard of it yet, so nothing can go on from there. When the end of the step is damaged it is the step before.
 *
 * @throws as `foldSession` does
 */
async function foldStep(log: SignalLog, id: string, at: number, options?: FoldOptions): Promise<FoldedSession> {
  const { end, whole } = await endOfStep(log, `session:${id}`, at);
  if (whole) {
    try {
      return await foldSession(log, id, end, options);
    } catch (error) {
      if (damagedAt(error) <= at) throw error;
    }
  }
  const before = await beforeStep(log, `session:${id}`, at);
  // Nothing stands before the first step: the fold says what is damaged.
  return foldSession(log, id, before > 0 ? before : undefined, options);
}

/** Not `whole` when the log cannot be read as far as the step goes. */
async function endOfStep(log: SignalLog, stream: string, at: number): Promise<{ end: number; whole: boolean }> {
  const { head } = await log.head(stream);
  for (let end = at; ; ) {
    const { signals, torn } = await readAhead(log, stream, end, PAGE_SIGNALS);
    for (const signal of signals) {
      if (signal.seq !== end + 1) return { end, whole: false };
      if (!followsInput(signal)) return { end, whole: true };
      end = signal.seq;
    }
    if (torn !== null || signals.length < PAGE_SIGNALS) return { end, whole: torn === null && end >= head };
  }
}

/** A row that cannot be read does not hide the ones before it; `torn` says why it cannot, null when all can. */
export async function readAhead(
  log: Pick<SignalLog, 'read'>,
  stream: string,
  after: number,
  limit: number,
): Promise<{ signals: Signal[]; torn: string | null }> {
  try {
    return { signals: await log.read(stream, after, limit), torn: null };
  } catch (error) {
    const readable = damagedAt(error) - 1 - after;
    if (readable < 0) throw error;
    return { signals: readable > 0 ? await log.read(stream, after, readable) : [], torn: faultOf(error) };
  }
}

async function beforeStep(log: SignalLog, stream: string, at: number): Promise<number> {
  for (let before = at + 1; ; ) {
    const signals = await log.readBefore(stream, before, PAGE_SIGNALS);
    const input = signals.findLast((signal) => !followsInput(signal));
    if (input) return input.seq - (input.source.kind === 'input' ? 1 : 0);
    if (signals.length === 0) return at;
    before = signals[0]!.seq;
  }
}

/** Said by the machine to the input before it; facts of the supervisor and the log stand alone. */
function followsInput({ name, source }: Signal): boolean {
  return source.kind === 'machine' || source.kind === 'effect' || SYSTEM_OUTPUTS.has(name);
}

/** 0 when the error is none of a damaged log. */
function damagedAt(error: unknown): number {
  return isAppError(error, 'log_divergence') && typeof error.extra?.seq === 'number' ? error.extra.seq : 0;
}
