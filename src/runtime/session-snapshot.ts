import { SESSION_MACHINE_VERSION, sessionMachine } from '../../machines/session.machine.ts';
import { plainView, restoreView } from '../core/session-view.ts';
import type { Snapshot } from '../core/signal-log.ts';
import type { FoldedSession, SessionCore, SessionSnapshot } from './session-state.ts';

/** Raised with every change of what a fold keeps; a snapshot of another version is not used. */
const FOLD_VERSION = '4';
/** Of machine and fold. */
export const SNAPSHOT_VERSION = `${SESSION_MACHINE_VERSION}.${FOLD_VERSION}`;
/** A snapshot is written when the last one is this far back; bounds what is folded when a session comes into memory. */
export const SNAPSHOT_SIGNALS = 200;

/** Members whose Maps stand as lists of entries in JSON. */
interface Stored {
  readonly core: Omit<SessionCore, 'snapshot' | 'causes' | 'conversation'>;
  readonly machine: unknown;
  readonly causes: [string, never][];
  readonly conversation: Omit<SessionCore['conversation'], 'waiting'>;
  readonly waiting: [string, never][];
  readonly view: Record<string, unknown>;
}

/** The fold at this point, as the log keeps it: a cache, and only that. */
export function takeSnapshot({ core, view }: FoldedSession): Snapshot {
  const { snapshot, causes, conversation, ...rest } = core;
  const { waiting, ...spoken } = conversation;
  const stored: Stored = {
    core: rest,
    machine: sessionMachine.getPersistedSnapshot(snapshot as never),
    causes: [...causes] as never,
    conversation: spoken,
    waiting: [...waiting] as never,
    view: plainView(view),
  };
  return { seq: core.seq, version: SNAPSHOT_VERSION, body: JSON.stringify(stored) };
}

/** Null for a snapshot of another version: the log is folded from its beginning then. */
export function restoreSnapshot(snapshot: Snapshot | null): FoldedSession | null {
  if (snapshot?.version !== SNAPSHOT_VERSION) return null;
  const stored = JSON.parse(snapshot.body) as Stored;
  const core = {
    ...stored.core,
    snapshot: restoreMachine(stored.machine),
    causes: new Map(stored.causes),
    conversation: { ...stored.conversation, waiting: new Map(stored.waiting) },
  } as SessionCore;
  return { core, view: restoreView(stored.view) };
}

function restoreMachine(persisted: unknown): SessionSnapshot {
  return sessionMachine.restoreSnapshot(persisted as never, RESTORING) as SessionSnapshot;
}

/** The machine has no children, so nothing of a scope is used to restore it. */
const RESTORING = {} as never;
