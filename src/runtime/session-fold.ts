import type { PayloadOf } from '../contract/catalog.ts';
import { AppError } from '../core/errors.ts';
import { createView, foldView, type SessionView } from '../core/session-view.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { foldCore } from './session-core.ts';
import { restoreSnapshot } from './session-snapshot.ts';
import type { FoldedSession, SessionCore } from './session-state.ts';

/** Stored signals folded at once. */
const PAGE_SIGNALS = 1_000;

/**
 * A session rebuilt from its log, the same as the one that wrote it.
 *
 * @param until  last signal to take; all of them when left out
 * @throws AppError `session_not_found`
 */
export async function foldSession(log: SignalLog, id: string, until = Number.MAX_SAFE_INTEGER): Promise<FoldedSession> {
  const cached = restoreSnapshot(await log.loadSnapshot(`session:${id}`));
  const usable = cached && cached.core.seq <= until ? cached : null;
  let core: SessionCore | null = usable?.core ?? null;
  let view: SessionView | null = usable?.view ?? null;
  for (;;) {
    const seq = core?.seq ?? 0;
    const limit = Math.min(PAGE_SIGNALS, until - seq);
    const page = limit > 0 ? await log.read(`session:${id}`, seq, limit) : [];
    for (const signal of page) {
      core = foldCore(core, signal);
      view ??= createView(signal.payload as unknown as PayloadOf<'session:created'>, signal.timestamp);
      foldView(view, signal);
    }
    if (page.length < PAGE_SIGNALS) break;
  }
  if (!core || !view) throw sessionNotFound(id);
  return { core, view };
}

export function sessionNotFound(id: string): AppError {
  return new AppError('session_not_found', { detail: `no session ${id}` });
}
