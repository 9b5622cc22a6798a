import { setImmediate as nextTurn } from 'node:timers/promises';
import { LOG_FILE_BYTES_MAX, type LogHeader, type logOperations } from '../contract/log-operations.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { SealedSignal } from '../contract/signal.ts';
import { AppError, isAppError } from '../core/errors.ts';
import { createLogCheck, headerOf, logLine, refused } from '../core/log-file.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { createView, foldView, type SessionView } from '../core/session-view.ts';
import { readPages, requireWhole } from './log-pages.ts';
import { atBoundary } from './machine-upgrade.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { cardAfter, SETTLED_STATES } from './session-card.ts';
import { foldCore } from './session-core.ts';
import { diffLogs } from './session-diff.ts';
import { sessionNotFound } from './session-fold.ts';
import { SNAPSHOT_SIGNALS, takeSnapshot } from './session-snapshot.ts';
import type { FoldedSession, SessionCore } from './session-state.ts';
import { type TrimDeps, trimSession } from './trim-service.ts';

type Ops = typeof logOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

/** Signals checked and folded before other work gets its turn, about 10 ms. */
const IMPORT_STEP_SIGNALS = 100;
/** A larger one is left out: with the signals it would fill the queue of the log's writer. It is only a cache. */
const SNAPSHOT_CHARS_MAX = 8 * 1_048_576;
const IMPORT_RETRY_MS = 1_000;

/** Whole logs: compared, written out, taken in. */
export function createLogService(deps: RuntimeDeps, readUntil: TrimDeps['readUntil']) {
  let importing = false;
  return {
    diff: (input: Input<'diffSessions'>) => diffLogs(deps, input),
    trim: ({ id, ...wish }: Input<'trimSession'>) => trimSession({ ...deps, readUntil }, id, wish),
    exportLog: (input: Input<'exportSession'>, context: RequestContext) => exportLog(deps, input.id, context),
    async importLog(input: Input<'importSession'>) {
      deps.supervisor.refuseWhenDraining();
      // One at a time: each holds its whole log in memory.
      if (importing) throw new AppError('overloaded', { detail: 'another import runs; try again', retryAfterMs: IMPORT_RETRY_MS });
      importing = true;
      try {
        return await importLog(deps, input);
      } finally {
        importing = false;
      }
    },
  };
}

async function exportLog({ supervisor, log }: RuntimeDeps, id: string, { signal }: RequestContext): Promise<string> {
  const { session } = await supervisor.view(id);
  const until = session.seq;
  await requireWhole(log, id);
  const [created] = await log.read(`session:${id}`, 0, 1);
  const [last] = await log.read(`session:${id}`, until - 1, 1);
  if (!created || !last) throw sessionNotFound(id);
  const parts = [logLine(headerOf(created, last))];
  let bytes = Buffer.byteLength(parts[0]!);
  for await (const page of readPages(log, id, until)) {
    signal.throwIfAborted();
    const part = page.map(logLine).join('');
    bytes += Buffer.byteLength(part);
    if (bytes > LOG_FILE_BYTES_MAX) {
      throw new AppError('payload_too_large', {
        detail: `the log of ${id} is larger than ${LOG_FILE_BYTES_MAX} bytes; read it in pages from /session/${id}/events, as signet export does`,
      });
    }
    parts.push(part);
  }
  return parts.join('');
}

/** All or nothing: the log is checked and folded first and appended in one commit, so a refusal or a crash leaves no trace. */
async function importLog(deps: RuntimeDeps, { header, signals: values }: Input<'importSession'>) {
  const id = header.session;
  const stream = `session:${id}`;
  await refuseKnown(deps, id);
  const { signals, core, view } = await checkAndFold(header, values);
  refuseOpen(view, core);
  const card = cardAfter(view, core, []);
  const snapshot = takeSnapshot({ core, view });
  const cached = signals.length >= SNAPSHOT_SIGNALS && snapshot.body.length <= SNAPSHOT_CHARS_MAX ? { snapshot } : {};
  const { firstGseq } = await deps.log.append({ stream, epoch: 0, expected: 0, signals, card, ...cached }).catch((error: unknown) => {
    throw isAppError(error, 'session_fenced') ? conflict(id, 'exists') : error;
  });
  // Not published, only announced: readers of the whole log find it there, but nobody counts its turns and tokens as new.
  deps.hub.headGseq = Math.max(deps.hub.headGseq, firstGseq + signals.length - 1);
  deps.hub.publish(id, []);
  deps.hub.forget(id);
  return { session: view.session, signals: signals.length, digest: header.digest };
}

async function refuseKnown({ log }: RuntimeDeps, id: string): Promise<void> {
  const { head, epoch } = await log.head(`session:${id}`);
  if (head === 0 && epoch === 0) return;
  const reason = (await log.card(id))
    ? 'exists'
    : 'was purged here, and its numbers are never used again; import it into another workspace';
  throw conflict(id, reason);
}

function conflict(id: string, reason: string): AppError {
  return new AppError('id_conflict', { detail: `session ${id} ${reason}` });
}

async function checkAndFold(header: LogHeader, values: readonly unknown[]): Promise<FoldedSession & { signals: SealedSignal[] }> {
  const check = createLogCheck(header);
  const signals: SealedSignal[] = [];
  let core: SessionCore | null = null;
  let view: SessionView | null = null;
  for (const value of values) {
    const sealed = check.take(value);
    signals.push(sealed);
    try {
      // Folding looks at nothing that depends on the log-wide number.
      core = foldCore(core, { ...sealed, gseq: sealed.seq });
      view ??= createView(sealed.payload as unknown as Parameters<typeof createView>[0], sealed.timestamp);
      foldView(view, sealed);
    } catch (error) {
      throw refused(signals.length + 1, `the session cannot take ${sealed.name} here (${(error as Error).message})`, error);
    }
    if (signals.length % IMPORT_STEP_SIGNALS === 0) await nextTurn();
  }
  check.finish();
  if (!core || !view || view.session.id !== header.session)
    throw refused(2, `the first signal creates session ${view?.session.id}, not ${header.session}`);
  return { ...atBoundary({ core, view }), signals };
}

/** Work that was under way elsewhere must not go on here by itself, perhaps a second time. */
function refuseOpen({ session }: SessionView, { snapshot }: SessionCore): void {
  const { pending } = snapshot.context;
  if (SETTLED_STATES.has(session.state) && session.turn === null && session.queue.length === 0 && pending.length === 0) return;
  const owed = pending.length > 0 ? `, with ${pending.map(({ key }) => key).join(', ')} under way` : '';
  throw new AppError('turn_open', {
    detail: `the exported session is ${session.state}${owed}, ${session.queue.length} prompts wait; export it when it is idle or ended`,
  });
}
