import type { PayloadOf } from '../contract/catalog.ts';
import type { logOperations } from '../contract/log-operations.ts';
import type { ParsedInputOf } from '../contract/operation.ts';
import type { Signal } from '../contract/signal.ts';
import { createComparison, takesPart } from '../core/log-diff.ts';
import type { SignalLog } from '../core/signal-log.ts';
import { readPages, requireWhole } from './log-pages.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import { foldSession } from './session-fold.ts';

/** Sessions a fork may descend from before its past is taken as it begins. */
const ANCESTORS_MAX = 100;

/** Where two sessions part. A fork begins with what happened in the session it comes from, as long as the log of that is whole. */
export async function diffLogs(
  { supervisor, log }: RuntimeDeps,
  { id, with: other }: ParsedInputOf<(typeof logOperations)['diffSessions']>,
) {
  const [a, b] = [await supervisor.view(id), await supervisor.view(other)];
  const [seqA, seqB] = [a.session.seq, b.session.seq];
  await Promise.all([id, other].map((session) => requireWhole(log, session)));
  const [pastA, pastB] = [await pastOf(log, id, seqA), await pastOf(log, other, seqB)];
  const comparison = createComparison(sessionsOf(pastA), sessionsOf(pastB));
  const [left, right] = [readConduct(log, pastA), readConduct(log, pastB)];
  for (;;) {
    const [one, next] = [await left.next(), await right.next()];
    if (one.done && next.done) break;
    if (comparison.add(one.value ?? null, next.value ?? null)) break;
  }
  const forked = pastA.length + pastB.length > 2;
  const result = comparison.finish(await stateOf(log, id, seqA, forked), await stateOf(log, other, seqB, forked));
  const shown = (differences: typeof result.state) => differences.map(({ path, a: ours, b: theirs }) => ({ path, a: ours, b: theirs }));
  const first = result.first && { ...result.first, differences: shown(result.first.differences) };
  return { a: id, b: other, ...result, first, state: shown(result.state) };
}

/** A stretch of one log that is part of a session's past. */
interface Stretch {
  readonly session: string;
  readonly until: number;
}

const sessionsOf = (past: readonly Stretch[]): string[] => past.map(({ session }) => session);

/** The logs a session's past stands in, the oldest first; its own alone when one of the others is not whole any more. */
async function pastOf(log: SignalLog, id: string, until: number): Promise<Stretch[]> {
  const past: Stretch[] = [{ session: id, until }];
  while (past.length <= ANCESTORS_MAX) {
    const [created] = await log.read(`session:${past[0]!.session}`, 0, 1);
    if (created?.seq !== 1) return past.slice(-1);
    const { forkedFrom } = created.payload as Partial<PayloadOf<'session:created'>>;
    if (!forkedFrom) return past;
    past.unshift({ session: forkedFrom.session, until: forkedFrom.seq });
  }
  return past.slice(-1);
}

/** What the session did, its parents included. What a fork says of the state it begins in was said there before. */
async function* readConduct(log: SignalLog, past: readonly Stretch[]): AsyncGenerator<Signal, undefined> {
  /** Newest signal of each name and effect, and by which the signals of a fork's beginning are known. */
  const newest = new Map<string, string>();
  const known = new Map<string, string>();
  for (const [index, { session, until }] of past.entries()) {
    let begins = index > 0;
    for await (const page of readPages(log, session, until)) {
      for (const signal of page) {
        const key = `${signal.name} ${signal.payload.key ?? ''}`;
        if (begins && signal.seq > 1 && signal.source.kind === 'input') begins = false;
        if (begins) known.set(signal.id, newest.get(key) ?? signal.id);
        else if (past.length > 1) newest.set(key, known.get(signal.id) ?? signal.id);
        if (!begins && takesPart(signal)) yield withParent(signal, known);
      }
    }
  }
}

function withParent(signal: Signal, known: ReadonlyMap<string, string>): Signal {
  const parent = signal.source.parent === undefined ? undefined : known.get(signal.source.parent);
  return parent === undefined ? signal : { ...signal, source: { ...signal.source, parent } };
}

/** Where one side is a fork, what it counts anew and where it comes from do not belong to its state. */
async function stateOf(log: SignalLog, id: string, until: number, forked: boolean): Promise<unknown> {
  const { core, view } = await foldSession(log, id, until);
  const state = { session: view.session, context: core.snapshot.context };
  if (!forked) return state;
  const { forkedFrom: _origin, usage: _own, costUsd: _ownCost, ...session } = state.session;
  const { usage: _machines, costUsd: _machinesCost, arrived: _named, ...context } = state.context;
  return { session, context };
}
