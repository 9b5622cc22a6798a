import type { ParsedInputOf } from '../contract/operation.ts';
import type { sessionOperations } from '../contract/session-operations.ts';
import { AppError, isAppError } from '../core/errors.ts';
import type { RequestContext } from '../core/operation-call.ts';
import { openChildren } from './child-sessions.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import type { SessionHost } from './session-host.ts';

type Ops = typeof sessionOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

/** Longest wait for a session to settle when a client ends or aborts it, beyond the session's own budgets; unit: milliseconds. */
const SETTLE_MARGIN_MS = 5_000;
/** Why a session ends whose parent is ended. */
const PARENT_ENDED = 'parent';

/** DELETE /session/:id, also for sessions whose parent is ended. Purging forgets the one log that was named. */
export async function endSession(deps: RuntimeDeps, { id, purge, reason }: Input<'endSession'>, context: RequestContext) {
  await endTree(deps, id, reason ?? 'client', context.client, purge ?? false);
  if (purge) await deps.supervisor.purge(id);
  return { id, state: 'ended' as const, purged: purge ?? false };
}

/** The parent is told first, so that it has no more children than those that are ended with it. */
async function endTree(deps: RuntimeDeps, id: string, reason: string, by: string, purges = false): Promise<void> {
  const host = await hostToEnd(deps, id, purges);
  await host?.handle(({ snapshot }) =>
    snapshot.context.endReason === null ? [{ name: 'session:end', payload: { by, reason }, client: by }] : [],
  );
  await Promise.all([
    host && untilEnded(deps, host),
    ...(await openChildren(deps.log, id)).map((child) =>
      endTree(deps, child.id, PARENT_ENDED, by).catch((error: unknown) =>
        deps.logger.warn({ err: error, session: child.id, parent: id }, 'a child session did not end with its parent'),
      ),
    ),
  ]);
}

/** Null when there is nothing to end; a log that is to be forgotten need not be readable. */
async function hostToEnd(deps: RuntimeDeps, id: string, purges: boolean): Promise<SessionHost | null> {
  try {
    return await deps.supervisor.get(id);
  } catch (error) {
    if (isAppError(error, 'session_ended')) return null;
    // One that has ended is ended also while the process shuts down.
    if (isAppError(error, 'draining') && (await deps.supervisor.view(id)).session.state === 'ended') return null;
    if (purges && (isAppError(error, 'log_divergence') || isAppError(error, 'session_quarantined'))) return null;
    throw error;
  }
}

async function untilEnded({ config }: RuntimeDeps, host: SessionHost): Promise<void> {
  const { startTimeoutMs, endTimeoutMs, abortGraceMs } = config.limits;
  const timeoutMs = startTimeoutMs + endTimeoutMs + abortGraceMs + SETTLE_MARGIN_MS;
  await host.until(({ session }) => (session.state === 'ended' ? true : undefined), { timeoutMs });
}

/** POST /session/:id/abort: the turn that runs, and those of child sessions. Resolves when all have settled. */
export async function abortTurn(deps: RuntimeDeps, input: Input<'abortTurn'>, context: RequestContext) {
  const host = await deps.supervisor.get(input.id);
  const stopped = await cancelTurn(deps, host, input, context.client);
  await Promise.all([stopped.settled(), abortChildren(deps, input, context.client)]);
  const { aborted, cancelled } = stopped;
  return { aborted, cancelled, state: host.view.session.state, seq: host.core.seq };
}

/** A child at rest is left there; its own children may be at work. */
async function abortChildren(deps: RuntimeDeps, { id, ...wish }: Input<'abortTurn'>, by: string): Promise<void> {
  await Promise.all(
    (await openChildren(deps.log, id)).map(async (child) => {
      try {
        const stopped = child.open ? await cancelTurn(deps, await deps.supervisor.get(child.id), { ...wish, id: child.id }, by) : null;
        await Promise.all([stopped?.settled(), abortChildren(deps, { ...wish, id: child.id }, by)]);
      } catch (error) {
        if (isAppError(error, 'session_ended')) return;
        deps.logger.warn({ err: error, session: child.id, parent: id }, 'the turn of a child session was not aborted with its parent');
      }
    }),
  );
}

async function cancelTurn({ config }: RuntimeDeps, host: SessionHost, { id, clearQueue, reason }: Input<'abortTurn'>, by: string) {
  const why = reason ? { reason } : {};
  const cancelled: string[] = [];
  let aborted = false;
  await host.handle(({ snapshot }) => {
    refuseEnded(snapshot.context.endReason !== null, id);
    if (clearQueue) cancelled.push(...snapshot.context.mailbox.map(({ promptId }) => promptId));
    aborted = typeof snapshot.value === 'object' && 'turn' in snapshot.value;
    return [
      ...cancelled.map((promptId) => ({ name: 'prompt:cancelled' as const, payload: { promptId, by, ...why }, client: by })),
      ...(aborted ? [{ name: 'turn:cancel' as const, payload: { by, ...why }, client: by }] : []),
    ];
  });
  const timeoutMs = config.limits.abortGraceMs + SETTLE_MARGIN_MS;
  return {
    aborted,
    cancelled,
    settled: async () => {
      if (aborted) await host.until(({ session }) => (session.state === 'aborting' ? undefined : true), { timeoutMs });
    },
  };
}

/** @throws AppError `session_ended` */
export function refuseEnded(ended: boolean, id: string): void {
  if (ended) throw new AppError('session_ended', { detail: `session ${id} has ended; create a new one` });
}
