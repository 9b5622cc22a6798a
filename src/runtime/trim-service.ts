import { hash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { PayloadOf } from '../contract/catalog.ts';
import type { logOperations } from '../contract/log-operations.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import { createView, foldView } from '../core/session-view.ts';
import type { Checkpoint, SignalLog } from '../core/signal-log.ts';
import { signalDigest } from '../core/signal-seal.ts';
import { atBoundary, boundaryAfter, boundaryFrom } from './machine-upgrade.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { checkpointDigest, restoreCheckpoint, takeCheckpoint } from './session-checkpoint.ts';
import { foldCore, note } from './session-core.ts';
import { takeSnapshot } from './session-snapshot.ts';
import type { FoldedSession } from './session-state.ts';

/** Stored signals read at once. */
const PAGE_SIGNALS = 200;
/** Longest that folding goes on before other work gets its turn; unit: milliseconds. */
const STEP_MS = 8;

export interface TrimDeps extends Pick<RuntimeDeps, 'supervisor' | 'log' | 'hub' | 'clock'> {
  /** Log-wide number up to which every running workflow has read; what is newer stays. */
  readonly readUntil: () => number;
}
type Input = Omit<ParsedInputOf<(typeof logOperations)['trimSession']>, 'id'>;

export interface TrimOutcome {
  readonly session: string;
  readonly dropped: number;
  readonly firstSeq: number;
  readonly head: number;
  readonly stateDigest: string | null;
}

/**
 * Drops the oldest signals of a session at rest, as far as all workflows have read them, and puts a checkpoint in their place. Before anything is written the whole log is checked
 * and folded, then the checkpoint with the signals that stay: when the two states are not the same text, nothing is dropped.
 *
 * @param droppedMin  fewer are left where they are
 * @throws AppError `session_not_found`, `turn_open`, `draining`, `log_divergence`, `session_fenced`, `storage_failed`
 */
export function trimSession(deps: TrimDeps, id: string, wish: Input, droppedMin = 1): Promise<TrimOutcome> {
  return deps.supervisor.aside(id, async () => {
    const stream = `session:${id}`;
    const { head } = await deps.log.head(stream);
    const firstSeq = (await deps.log.read(stream, 0, 1))[0]?.seq ?? head;
    const cut = await findCut(deps.log, stream, wish, head, deps.readUntil());
    if (cut === null || cut - firstSeq < droppedMin) return { session: id, dropped: 0, firstSeq, head, stateDigest: null };
    const old = await deps.log.loadCheckpoint(stream);
    const whole = await prove(deps.log, stream, old, cut - 1);
    if (old && whole.attested !== checkpointDigest(old)) throw damaged(stream, old.seq);
    const kept = whole.checkpoint && (await prove(deps.log, stream, whole.checkpoint, 0));
    if (!whole.checkpoint || kept?.digest !== whole.digest) {
      throw new AppError('log_divergence', {
        detail: `the state of session ${id} would not be the same after trimming; nothing was dropped`,
      });
    }
    const fact: PayloadOf<'log:pruned'> = {
      fromSeq: firstSeq,
      toSeq: cut - 1,
      names: [...whole.names].sort(),
      digest: checkpointDigest(whole.checkpoint),
    };
    const { signals } = note(kept.folded.core, { name: 'log:pruned', payload: fact }, deps.clock.now());
    const { epoch } = await deps.log.own(stream);
    const appended = await deps.log.trim({ stream, epoch, expected: head, signals, checkpoint: whole.checkpoint });
    deps.hub.dropBefore(id, cut);
    deps.hub.publish(id, [{ ...signals[0]!, gseq: appended.firstGseq }]);
    deps.hub.forget(id);
    return { session: id, dropped: cut - firstSeq, firstSeq: cut, head: appended.head, stateDigest: kept.digest };
  });
}

/** First signal that stays: an input, because what follows from one is checked by it. Null when all of them do. */
async function findCut(
  log: SignalLog,
  stream: string,
  { before, keepTurns }: Input,
  head: number,
  readUntil: number,
): Promise<number | null> {
  const isInput = ({ source, gseq }: Signal) => source.kind === 'input' && gseq <= readUntil + 1;
  if (keepTurns === undefined) return findBack(log, stream, Math.min(before!, head) + 1, isInput);
  let turns = 0;
  const start = await findBack(log, stream, head + 1, ({ name }) => {
    if (name === 'turn:start') turns += 1;
    return turns === keepTurns;
  });
  return start === null ? null : findBack(log, stream, start + 1, isInput);
}

/** Newest signal before `seq` that fits. */
async function findBack(log: SignalLog, stream: string, seq: number, fits: (signal: Signal) => boolean): Promise<number | null> {
  for (let before = seq; ; ) {
    const page = await log.readBefore(stream, before, PAGE_SIGNALS);
    const found = page.findLast(fits);
    if (found) return found.seq;
    if (page.length < PAGE_SIGNALS) return null;
    before = page[0]!.seq;
    await nextTurn();
  }
}

interface Whole {
  readonly folded: FoldedSession;
  /** Of the state at the end. */
  readonly digest: string;
  /** Of the state at the signal that was asked for. */
  readonly checkpoint: Checkpoint | null;
  /** Digest of the checkpoint it began with, as the log has it. */
  readonly attested: unknown;
  /** Names of the signals up to the one that was asked for. */
  readonly names: ReadonlySet<string>;
}

/** Folds a log from its beginning, without any cache, and checks its chain of digests. @throws AppError `log_divergence` */
async function prove(log: SignalLog, stream: string, start: Checkpoint | null, checkpointAt: number): Promise<Whole> {
  let { core, view, boundary } = start ? restoreCheckpoint(start) : { core: null, view: null, boundary: null };
  let checkpoint: Checkpoint | null = null;
  let attested: unknown = null;
  const names = new Set<string>();
  let since = performance.now();
  for (let seq = start?.seq ?? 0; ; ) {
    const page = await log.read(stream, seq, PAGE_SIGNALS);
    for (const signal of page) {
      seq += 1;
      if (signal.seq !== seq || signal.digest !== signalDigest(signal, core?.digest ?? '')) throw damaged(stream, seq);
      core = foldCore(core, signal);
      const created = signal.payload as unknown as PayloadOf<'session:created'>;
      view ??= createView(created, signal.timestamp);
      boundary = boundary ? boundaryAfter(boundary, signal) : boundaryFrom(created);
      foldView(view, signal);
      if (signal.name === 'log:pruned' && signal.payload.toSeq === start?.seq) attested = signal.payload.digest;
      if (seq <= checkpointAt) names.add(signal.name);
      if (seq === checkpointAt) checkpoint = takeCheckpoint({ core, view }, boundary);
      if (performance.now() - since < STEP_MS) continue;
      await nextTurn();
      since = performance.now();
    }
    if (page.length < PAGE_SIGNALS) break;
  }
  if (!core || !view) throw damaged(stream, 1);
  const folded = atBoundary({ core, view });
  return { folded, digest: hash('sha256', takeSnapshot(folded).body, 'base64url'), checkpoint, attested, names };
}

function damaged(stream: string, seq: number): AppError {
  return new AppError('log_divergence', { detail: `signal ${seq} of ${stream} is missing or changed; nothing was dropped` });
}
