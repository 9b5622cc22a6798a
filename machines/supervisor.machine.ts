import { type ActorLogic, type AnyActorLogic, type AnyActorRef, assign, createActor, enqueueActions, type Snapshot, setup } from 'xstate';

export const SUPERVISOR_MACHINE_VERSION = '2';

/** Restarts one session may have within RESTART_WINDOW_MS before it is quarantined. */
export const RESTARTS_MAX = 3;
/** Restarts all sessions of one agent may have within RESTART_WINDOW_MS; the sessions that crash beyond it are quarantined at once. */
export const AGENT_RESTARTS_MAX = 20;
export const RESTART_WINDOW_MS = 60_000;
/** First wait before a crashed session is started again, doubled each time; unit: milliseconds. */
export const RESTART_DELAY_MS = 200;
export const RESTART_DELAY_MS_MAX = 10_000;

export type SupervisorEvent =
  | { readonly type: 'CHILD_STARTED'; readonly session: string }
  | { readonly type: 'CHILD_STOPPED'; readonly session: string }
  /** The actor of a session threw; `jitter` between 0 and 1 spreads restarts. */
  | { readonly type: 'CHILD_CRASHED'; readonly session: string; readonly agent: string; readonly at: number; readonly jitter: number }
  /** The stored log of a session that is not in memory cannot be folded. */
  | { readonly type: 'CHILD_DAMAGED'; readonly session: string }
  | { readonly type: 'CHILD_RESUMED'; readonly session: string }
  | { readonly type: 'DRAIN' }
  | { readonly type: 'DRAINED' };

export type SupervisorOutput =
  | { readonly type: 'restart'; readonly session: string; readonly attempt: number; readonly delayMs: number }
  | { readonly type: 'quarantine'; readonly session: string; readonly restarts: number; readonly scope: 'session' | 'agent' };

type Crashes = Readonly<Record<string, readonly number[]>>;

export interface SupervisorContext {
  readonly alive: number;
  /** Times of crashes within the window, by session. */
  readonly crashes: Crashes;
  /** The same by agent. */
  readonly agentCrashes: Crashes;
  readonly quarantined: readonly string[];
}

const supervisorSetup = setup({
  types: { context: {} as SupervisorContext, events: {} as SupervisorEvent, emitted: {} as SupervisorOutput },
  guards: {
    tooManyCrashes: ({ context, event }) =>
      event.type === 'CHILD_CRASHED' && recent(context.crashes, event.session, event.at).length >= RESTARTS_MAX,
    agentCrashesTooOften: ({ context, event }) =>
      event.type === 'CHILD_CRASHED' && recent(context.agentCrashes, event.agent, event.at).length >= AGENT_RESTARTS_MAX,
  },
  actions: {
    countStarted: assign({ alive: ({ context }) => context.alive + 1 }),
    countStopped: assign({ alive: ({ context }) => context.alive - 1 }),
    planRestart: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'CHILD_CRASHED') return;
      const { session, agent, at } = event;
      const crashes = withCrash(context.crashes, session, at);
      const attempt = crashes[session]!.length;
      const delay = Math.min(RESTART_DELAY_MS * 2 ** (attempt - 1), RESTART_DELAY_MS_MAX);
      enqueue.assign({ alive: context.alive - 1, crashes, agentCrashes: withCrash(context.agentCrashes, agent, at) });
      enqueue.emit({ type: 'restart', session, attempt, delayMs: Math.round(delay * (0.5 + event.jitter / 2)) });
    }),
    quarantine: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'CHILD_CRASHED') return;
      enqueue.assign({ alive: context.alive - 1, quarantined: [...context.quarantined, event.session] });
      enqueue.emit({ type: 'quarantine', session: event.session, restarts: RESTARTS_MAX, scope: 'session' });
    }),
    quarantineForAgent: enqueueActions(({ context, event, enqueue }) => {
      if (event.type !== 'CHILD_CRASHED') return;
      const restarts = recent(context.crashes, event.session, event.at).length;
      enqueue.assign({ alive: context.alive - 1, quarantined: [...context.quarantined, event.session] });
      enqueue.emit({ type: 'quarantine', session: event.session, restarts, scope: 'agent' });
    }),
    putAside: assign(({ context, event }) =>
      event.type !== 'CHILD_DAMAGED' || context.quarantined.includes(event.session)
        ? {}
        : { quarantined: [...context.quarantined, event.session] },
    ),
    forgive: assign(({ context, event }) => {
      if (event.type !== 'CHILD_RESUMED') return {};
      const { [event.session]: _forgiven, ...crashes } = context.crashes;
      return { crashes, quarantined: context.quarantined.filter((session) => session !== event.session) };
    }),
  },
});

/**
 * Keeps sessions alive one by one: a crash restarts that session alone, after a growing wait, and too many within a minute put it aside
 * until someone resumes it. Too many crashes of one agent's sessions together mean that restarting does not help: those that crash then are
 * put aside as well, and other agents go on. Draining takes no new sessions.
 * @source Erlang/OTP supervisor behaviour, one_for_one with transient children
 */
export const supervisorMachine = supervisorSetup.createMachine({
  id: 'supervisor',
  version: SUPERVISOR_MACHINE_VERSION,
  context: { alive: 0, crashes: {}, agentCrashes: {}, quarantined: [] },
  initial: 'running',
  on: { CHILD_STOPPED: { actions: 'countStopped' } },
  states: {
    running: {
      description: 'Sessions are started, and restarted when they crash.',
      on: {
        CHILD_STARTED: { actions: 'countStarted' },
        CHILD_CRASHED: [
          { guard: 'tooManyCrashes', actions: 'quarantine' },
          { guard: 'agentCrashesTooOften', actions: 'quarantineForAgent' },
          { actions: 'planRestart' },
        ],
        CHILD_DAMAGED: { actions: 'putAside' },
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

function recent(crashes: Crashes, key: string, at: number): readonly number[] {
  return (crashes[key] ?? []).filter((crash) => at - crash < RESTART_WINDOW_MS);
}

/** Also forgets everybody whose last crash is out of the window. */
function withCrash(crashes: Crashes, key: string, at: number): Crashes {
  const kept = Object.entries(crashes).filter(([, times]) => at - times.at(-1)! < RESTART_WINDOW_MS);
  return { ...Object.fromEntries(kept), [key]: [...recent(crashes, key, at), at] };
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
