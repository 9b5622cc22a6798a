import { type ActorLogic, type AnyActorLogic, type AnyActorRef, assign, createActor, enqueueActions, type Snapshot, setup } from 'xstate';

export const SUPERVISOR_MACHINE_VERSION = '1';

/** Restarts one session may have within RESTART_WINDOW_MS before it is quarantined. */
export const RESTARTS_MAX = 3;
export const RESTART_WINDOW_MS = 60_000;
/** First wait before a crashed session is started again, doubled each time; unit: milliseconds. */
export const RESTART_DELAY_MS = 200;
export const RESTART_DELAY_MS_MAX = 10_000;

export type SupervisorEvent =
  | { readonly type: 'CHILD_STARTED'; readonly session: string }
  | { readonly type: 'CHILD_STOPPED'; readonly session: string }
  /** The actor of a session threw; `jitter` between 0 and 1 spreads restarts. */
  | { readonly type: 'CHILD_CRASHED'; readonly session: string; readonly at: number; readonly jitter: number }
  | { readonly type: 'CHILD_RESUMED'; readonly session: string }
  | { readonly type: 'DRAIN' }
  | { readonly type: 'DRAINED' };

export type SupervisorOutput =
  | { readonly type: 'restart'; readonly session: string; readonly attempt: number; readonly delayMs: number }
  | { readonly type: 'quarantine'; readonly session: string; readonly restarts: number };

export interface SupervisorContext {
  readonly alive: number;
  /** Times of crashes within the window, by session. */
  readonly crashes: Readonly<Record<string, readonly number[]>>;
  readonly quarantined: readonly string[];
}

const supervisorSetup = setup({
  types: { context: {} as SupervisorContext, events: {} as SupervisorEvent, emitted: {} as SupervisorOutput },
  guards: {
    tooManyCrashes: ({ context, event }) =>
      event.type === 'CHILD_CRASHED' && recentCrashes(context, event.session, event.at).length >= RESTARTS_MAX,
  },
  actions: {
    countStarted: assign({ alive: ({ context }) => context.alive + 1 }),
    countStopped: assign({ alive: ({ context }) => context.alive - 1 }),
    planRestart: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'CHILD_CRASHED') return;
      const crashes = [...recentCrashes(context, event.session, event.at), event.at];
      const delay = Math.min(RESTART_DELAY_MS * 2 ** (crashes.length - 1), RESTART_DELAY_MS_MAX);
      enqueue.assign({ alive: context.alive - 1, crashes: { ...context.crashes, [event.session]: crashes } });
      enqueue.emit({
        type: 'restart',
        session: event.session,
        attempt: crashes.length,
        delayMs: Math.round(delay * (0.5 + event.jitter / 2)),
      });
    }),
    quarantine: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'CHILD_CRASHED') return;
      enqueue.assign({ alive: context.alive - 1, quarantined: [...context.quarantined, event.session] });
      enqueue.emit({ type: 'quarantine', session: event.session, restarts: RESTARTS_MAX });
    }),
    forgive: assign(({ context, event }) => {
      if (event.type !== 'CHILD_RESUMED') return {};
      const { [event.session]: _forgiven, ...crashes } = context.crashes;
      return { crashes, quarantined: context.quarantined.filter((session) => session !== event.session) };
    }),
  },
});

/**
 * Keeps sessions alive one by one: a crash restarts that session alone, after a growing wait, and too many within a minute put it aside
 * until someone resumes it. Draining takes no new sessions.
 * @source Erlang/OTP supervisor behaviour, one_for_one with transient children
 */
export const supervisorMachine = supervisorSetup.createMachine({
  id: 'supervisor',
  version: SUPERVISOR_MACHINE_VERSION,
  context: { alive: 0, crashes: {}, quarantined: [] },
  initial: 'running',
  on: { CHILD_STOPPED: { actions: 'countStopped' } },
  states: {
    running: {
      description: 'Sessions are started, and restarted when they crash.',
      on: {
        CHILD_STARTED: { actions: 'countStarted' },
        CHILD_CRASHED: [{ guard: 'tooManyCrashes', actions: 'quarantine' }, { actions: 'planRestart' }],
        CHILD_RESUMED: { actions: 'forgive' },
        DRAIN: 'draining',
      },
    },
    draining: {
      description: 'No new turns; running ones get their time, then the process leaves and the log keeps the rest.',
      on: { CHILD_STARTED: { actions: 'countStarted' }, CHILD_CRASHED: { actions: 'countStopped' }, DRAINED: 'stopped' },
    },
    stopped: { type: 'final' },
  },
});

export type SupervisorMachine = typeof supervisorMachine;

function recentCrashes(context: SupervisorContext, session: string, at: number): readonly number[] {
  return (context.crashes[session] ?? []).filter((crash) => at - crash < RESTART_WINDOW_MS);
}

export type RegistryEvent =
  | {
      readonly type: 'START';
      readonly id: string;
      readonly logic: AnyActorLogic;
      readonly snapshot?: Snapshot<unknown>;
      readonly input?: unknown;
    }
  | { readonly type: 'STOP'; readonly id: string };

export interface RegistrySnapshot {
  readonly status: 'active';
  readonly output: undefined;
  readonly error: undefined;
  /** Owned and changed by the registry alone. */
  readonly actors: Map<string, AnyActorRef>;
}

/**
 * Holds the session actors. XState copies a machine's map of children at each spawn, which costs milliseconds at ten thousand of them;
 * this logic keeps one Map and creates each child with itself as parent, so all actors still belong to one system.
 */
export const sessionRegistryLogic: ActorLogic<RegistrySnapshot, RegistryEvent> = {
  transition: (state, event, scope) => {
    if (event.type === 'START') {
      const { id, logic, snapshot, input } = event;
      const actor = createActor(logic, { id, parent: scope.self, ...(snapshot ? { snapshot } : { input }) } as never);
      state.actors.set(id, actor);
      actor.start();
    } else if (event.type === 'STOP') {
      const actor = state.actors.get(event.id);
      state.actors.delete(event.id);
      if (actor && actor.getSnapshot().status === 'active') scope.stopChild(actor);
    }
    return state;
  },
  getInitialSnapshot: () => ({ status: 'active', output: undefined, error: undefined, actors: new Map() }),
  getPersistedSnapshot: (state) => state,
};
