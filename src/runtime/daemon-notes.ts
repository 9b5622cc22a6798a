import { type NamesOfKind, type PayloadOf, SIGNALS } from '../contract/catalog.ts';
import { isoTime } from '../core/clock.ts';
import { sealSignal, signalId } from '../core/signal-seal.ts';
import type { RuntimeDeps } from './runtime-deps.ts';

const STREAM = 'daemon';

type DaemonFact = NamesOfKind<'system'> & (`daemon:${string}` | `config:${string}`);

/** Facts about the process itself stand in the stream `daemon`, one after the other. */
export interface DaemonNotes {
  /** Resolves when it is durable. @throws AppError `storage_failed`, `overloaded` */
  add<N extends DaemonFact>(name: N, payload: PayloadOf<N>): Promise<void>;
}

export function createDaemonNotes(deps: Pick<RuntimeDeps, 'log' | 'hub' | 'clock'>): DaemonNotes {
  let last: Promise<void> = Promise.resolve();
  return {
    add(name, payload) {
      const next = last.then(() => append(deps, name, payload));
      last = next.catch(() => undefined); // Whoever added it was told.
      return next;
    },
  };
}

async function append<N extends DaemonFact>(
  { log, hub, clock }: Pick<RuntimeDeps, 'log' | 'hub' | 'clock'>,
  name: N,
  payload: PayloadOf<N>,
): Promise<void> {
  const { head, epoch } = await log.own(STREAM);
  const last = head > 0 ? (await log.readBefore(STREAM, head + 1, 1))[0] : undefined;
  const id = signalId(STREAM, head + 1);
  const signal = sealSignal(
    {
      v: 1,
      id,
      seq: head + 1,
      stream: STREAM,
      name,
      payload: payload as Record<string, unknown>,
      timestamp: isoTime(Math.max(clock.now(), last ? Date.parse(last.timestamp) : 0)),
      source: { kind: SIGNALS[name].kind, root: id, depth: 0 },
    },
    last?.digest ?? '',
  );
  const { firstGseq } = await log.append({ stream: STREAM, epoch, expected: head, signals: [signal] });
  hub.publish(STREAM, [{ ...signal, gseq: firstGseq }]);
}
