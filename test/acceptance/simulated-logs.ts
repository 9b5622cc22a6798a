import { sessionMachine } from '../../machines/session.machine.ts';
import type { Signal } from '../../src/contract/signal.ts';
import type { SignalLog } from '../../src/core/signal-log.ts';
import { createFolding } from '../../src/runtime/session-core.ts';
import type { InputDraft, SessionCore } from '../../src/runtime/session-state.ts';
import { SESSION_INPUT } from '../model/moves.ts';
import { edgePaths, sessionStepper } from '../model/paths.ts';
import { simulate } from '../simulation/simulation.ts';

/** The log of one session, and what it comes from. */
export interface StoredLog {
  readonly from: string;
  readonly id: string;
  readonly signals: readonly Signal[];
}

const { advance } = createFolding(sessionMachine);

/** Sessions over simulated faults, crashes and interleavings: `seeds` runs of `sessions` each. */
export async function simulatedLogs(seeds: number, sessions: number): Promise<StoredLog[]> {
  const logs: StoredLog[] = [];
  for (let seed = 1; seed <= seeds; seed += 1) {
    const { log, violation } = await simulate({ seed, sessions, steps: 100 });
    if (violation) throw new Error(`seed ${seed}: ${violation.invariant}, ${violation.detail}`);
    const all = await log.feed({ after: 0, limit: Number.POSITIVE_INFINITY });
    for (const [stream, signals] of Map.groupBy(all, (signal) => signal.stream)) {
      if (stream.startsWith('session:')) logs.push({ from: `seed ${seed}`, id: stream.slice('session:'.length), signals });
    }
  }
  return logs;
}

/** One log for each edge of the session machine: the shortest way there, as the runtime would record it. */
export function pathLogs(): StoredLog[] {
  return [...edgePaths(sessionStepper())].map(([edge, path]) => {
    const { at, created } = SESSION_INPUT;
    const signals: Signal[] = [];
    let core: SessionCore | null = null;
    const take = (draft: InputDraft) => {
      const step = advance(core, draft, at);
      core = step.core;
      for (const signal of step.signals) signals.push({ ...signal, gseq: signal.seq });
    };
    take({ name: 'session:created', payload: created });
    for (const { move } of path) for (const { type, payload } of move.inputs) take({ name: type, payload } as InputDraft);
    return { from: edge, id: created.session, signals };
  });
}

/** These signals as a log that can be read. */
export function readable(signals: readonly Signal[]): SignalLog {
  const read: SignalLog['read'] = async (_stream, after, limit) => signals.filter(({ seq }) => seq > after).slice(0, limit);
  return { read, loadSnapshot: async () => null, loadCheckpoint: async () => null } as unknown as SignalLog;
}
