import { getShortestPaths, getSimplePaths } from '@xstate/graph';
import type { ActorLogic, AnyStateMachine } from 'xstate';
import { statechartGraph } from '../../machines/graph.ts';
import { sessionMachine } from '../../machines/session.machine.ts';
import type { InputEvent, OutputEvent } from '../../machines/session-context.ts';
import { COMPACTION_FAILURES_MAX } from '../../machines/session-guards.ts';
import { createEdgeStepper, type EdgeStepper } from './edge-stepper.ts';
import { isShort, leafOf, type Move, movesOf, SCHEMA_MARK, SESSION_INPUT, type SessionSnapshot } from './moves.ts';

/** States looked at before the abstraction counts as unbounded. */
const TRAVERSAL_LIMIT = 200_000;

export type SessionStepper = EdgeStepper<SessionSnapshot, InputEvent, OutputEvent>;

export interface PathStep {
  readonly move: Move;
  /** Where the model is after the move. */
  readonly snapshot: SessionSnapshot;
  readonly edges: readonly string[];
}
export type Path = readonly PathStep[];

export function sessionStepper(machine: AnyStateMachine = sessionMachine): SessionStepper {
  return createEdgeStepper(machine);
}

/** Ids of all edges of the session machine. */
export function sessionEdges(machine: AnyStateMachine = sessionMachine): string[] {
  return statechartGraph(machine).edges.map(({ id }) => id);
}

export function describePath(path: Path): string {
  return path.map(({ move }) => move.type).join(' → ');
}

/** What tells two states apart as far as guards can: counters are clipped, and what no guard can look at before it is reset is left out. */
export function abstractState({ value, context }: SessionSnapshot): string {
  const { turn, pending, calls } = context;
  const at = leafOf(value);
  const work = pending.map((owed) => (owed.kind === 'hook' ? owed.hook : owed.kind === 'tool' ? `${owed.phase} tool` : owed.purpose));
  const now = [at, work.sort()];
  if (at === 'ending' || at === 'ended') return JSON.stringify(now);
  const session = [
    context.mailbox.length,
    context.endReason === null,
    Math.min(context.messages, 2),
    context.contextTokens > context.contextLimit * context.limits.compactAtShare,
    context.allowedTools.length > 0,
  ];
  if (!at.startsWith('turn')) return JSON.stringify([now, session]);
  const open = turn && [
    turn.round,
    turn.attempt,
    turn.fallbacks,
    isShort(context),
    turn.promptId.includes(SCHEMA_MARK),
    context.steers.length > 0,
    calls.map((call) => call.state).sort(),
    Math.max(-1, context.compactedRound - turn.round),
    Math.min(context.compactionFailures, COMPACTION_FAILURES_MAX),
  ];
  return JSON.stringify([now, session, open, context.compaction?.attempt ?? null]);
}

/** The machine with moves as its events: one move, all input signals it causes. */
function moveLogic(stepper: SessionStepper): ActorLogic<SessionSnapshot, Move> {
  return {
    transition: (snapshot, move) => take(stepper, snapshot, move).snapshot,
    getInitialSnapshot: () => stepper.begin(SESSION_INPUT).snapshot,
    getPersistedSnapshot: (snapshot) => snapshot,
  };
}

function take(stepper: SessionStepper, snapshot: SessionSnapshot, move: Move): { snapshot: SessionSnapshot; edges: string[] } {
  const edges: string[] = [];
  let at = snapshot;
  for (const event of move.inputs) {
    const step = stepper.next(at, event);
    edges.push(...step.edges);
    at = step.snapshot;
  }
  return { snapshot: at, edges };
}

function traversal(filter: (snapshot: SessionSnapshot) => Move[]) {
  return {
    events: filter,
    serializeState: abstractState,
    serializeEvent: (move: Move) => move.type,
    limit: TRAVERSAL_LIMIT,
  };
}

/** The moves of a path, taken anew: keys and ids are those of this path, not of another that leads to the same abstract state. */
export function walk(stepper: SessionStepper, types: readonly string[]): Path {
  let at = stepper.begin(SESSION_INPUT).snapshot;
  return types.map((type) => {
    const move = movesOf(at).find((candidate) => candidate.type === type);
    if (!move) throw new Error(`the abstraction is unsound: "${type}" is not possible in ${abstractState(at)} (${types.join(' → ')})`);
    const { snapshot, edges } = take(stepper, at, move);
    at = snapshot;
    return { move, snapshot, edges };
  });
}

const typesOf = (steps: readonly { readonly event: { readonly type: string } }[]) => steps.slice(1).map(({ event }) => event.type);

/** A shortest way to every state the model can be in, as the moves it takes, and a state of that kind. */
export function shortestPaths(stepper: SessionStepper): { types: string[]; state: SessionSnapshot }[] {
  const paths = getShortestPaths(moveLogic(stepper) as never, traversal(movesOf) as never);
  return paths.map(({ steps, state }) => ({ types: typesOf(steps), state: state as unknown as SessionSnapshot }));
}

/** For each edge the shortest path whose last move takes it. Edges that no path takes are absent. */
export function edgePaths(stepper: SessionStepper): Map<string, Path> {
  const best = new Map<string, readonly string[]>();
  for (const { types, state } of shortestPaths(stepper)) {
    for (const move of movesOf(state)) {
      for (const edge of take(stepper, state, move).edges) {
        const known = best.get(edge);
        if (!known || known.length > types.length + 1) best.set(edge, [...types, move.type]);
      }
    }
  }
  return new Map([...best].map(([edge, types]) => [edge, walk(stepper, types)]));
}

/**
 * All paths that meet no state twice, with the moves a filter leaves; their number grows fast with the moves.
 * A path that another one goes on from is left out.
 */
export function simplePaths(stepper: SessionStepper, filter: (move: Move, snapshot: SessionSnapshot) => boolean): Path[] {
  const events = (snapshot: SessionSnapshot) => movesOf(snapshot).filter((move) => filter(move, snapshot));
  const paths = getSimplePaths(moveLogic(stepper) as never, traversal(events) as never);
  const beginnings = new Set(paths.flatMap(({ steps }) => [keyOf(typesOf(steps).slice(0, -1))]));
  return paths
    .map(({ steps }) => typesOf(steps))
    .filter((types) => !beginnings.has(keyOf(types)))
    .map((types) => walk(stepper, types));
}

const keyOf = (types: readonly string[]) => types.join(' → ');
