import type { PayloadOf } from '../contract/catalog.ts';
import { AppError } from '../core/errors.ts';
import type { SessionCard, SignalLog } from '../core/signal-log.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

/** Children that are walked at once; as many as the configuration may allow. */
const CHILDREN_READ_MAX = 10_000;
/** What a refused caller should wait: a child that ends makes room; unit: milliseconds. */
const RETRY_AFTER_MS = 5_000;

type LimitMet = Pick<PayloadOf<'supervisor:limit'>, 'kind' | 'limit' | 'current'>;

/** Children of a session that have not ended, in memory or not. */
export function openChildren(log: SignalLog, parent: string): Promise<SessionCard[]> {
  return log.cards({ parent, ended: false, limit: CHILDREN_READ_MAX });
}

/** Begins child sessions within the limits; one after the other for each parent, so that the limits are exact. */
export function createChildGate(deps: RuntimeDeps) {
  const last = new Map<string, Promise<unknown>>();
  return {
    /** @throws AppError `session_not_found`, `session_ended`, `too_deep`, `too_many_children`, and what `begin` throws */
    async begin<T>(parent: string, begin: () => Promise<T>): Promise<T> {
      const before = last.get(parent) ?? Promise.resolve();
      const begun = before.then(async () => {
        await refuseChild(deps, parent);
        return begin();
      });
      const settled = begun.then(
        () => {},
        () => {}, // The caller hears of it; the next one is asked anew.
      );
      last.set(parent, settled);
      try {
        return await begun;
      } finally {
        if (last.get(parent) === settled) last.delete(parent);
      }
    },
  };
}

async function refuseChild(deps: RuntimeDeps, parent: string): Promise<void> {
  const { childDepthMax, childrenMax } = deps.config.limits;
  const { session } = await deps.supervisor.view(parent);
  if (session.state === 'ended' || session.state === 'ending')
    throw new AppError('session_ended', { detail: `session ${parent} has ended; it can have no more children` });
  const depth = await depthOf(deps.log, session.parentId, childDepthMax);
  if (depth >= childDepthMax) {
    noteLimit(deps, parent, { kind: 'depth', limit: childDepthMax, current: depth });
    throw new AppError('too_deep', {
      detail: `session ${parent} is ${depth} generations below the first one; runtime.limits.childDepthMax allows ${childDepthMax}`,
    });
  }
  const open = (await deps.log.cards({ parent, ended: false, limit: childrenMax })).length;
  if (open >= childrenMax) {
    noteLimit(deps, parent, { kind: 'children', limit: childrenMax, current: open });
    throw new AppError('too_many_children', {
      detail: `session ${parent} has ${open} open children; end some, or raise runtime.limits.childrenMax`,
      retryAfterMs: RETRY_AFTER_MS,
    });
  }
}

/** Generations above a session, at most `max`. */
async function depthOf(log: SignalLog, parentId: string | null, max: number): Promise<number> {
  let depth = 0;
  for (let id = parentId; id !== null && depth < max; depth += 1) id = (await log.card(id))?.parent ?? null;
  return depth;
}

function noteLimit({ supervisor }: RuntimeDeps, session: string, met: LimitMet): void {
  supervisor.peek(session)?.note({ name: 'supervisor:limit', payload: { ...met, action: 'rejected' } });
}
