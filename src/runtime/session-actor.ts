import type { ActorLogic, ActorRefFromLogic } from 'xstate';
import { sessionMachine } from '../../machines/session.machine.ts';
import type { InputEvent, SessionInput } from '../../machines/session-context.ts';
import type { SessionSnapshot } from './session-state.ts';

/** An input that is in the log, with the state the machine goes to by it, computed when it was decided. */
export type CommittedInput = InputEvent & { readonly next: SessionSnapshot };

type SessionLogic = ActorLogic<SessionSnapshot, CommittedInput, SessionInput>;

/**
 * The actor of one session. It is the session machine, moved only by what is committed; the step itself was made to know which signals to
 * commit, and is not made a second time.
 */
export const sessionActorLogic: SessionLogic = {
  // XState has events of its own: to stop an actor is one.
  transition: (snapshot, event, scope) => event.next ?? sessionMachine.transition(snapshot as never, event as never, scope as never),
  getInitialSnapshot: (scope, input) => sessionMachine.getInitialSnapshot(scope as never, input) as SessionSnapshot,
  restoreSnapshot: (persisted, scope) => sessionMachine.restoreSnapshot(persisted as never, scope as never) as SessionSnapshot,
  getPersistedSnapshot: (snapshot) => sessionMachine.getPersistedSnapshot(snapshot as never),
};

export type SessionActor = ActorRefFromLogic<SessionLogic>;
