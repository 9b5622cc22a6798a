import type { Signal } from '../../contract/signal.ts';
import type { SignalLog } from '../../core/signal-log.ts';

/** Stored signals read at once. */
const PAGE_SIGNALS = 1_000;

/** The complete trace of a run: its own signals and those of the sessions it activated, in log order. */
export async function readTrace(log: SignalLog, id: string): Promise<Signal[]> {
  const own = await readAll(log, `workflow:${id}`);
  const sessions = new Set(
    own.flatMap(({ name, payload }) => (name === 'agent:activated' || name === 'agent:failed' ? [payload.session as string] : [])),
  );
  for (const { name, payload } of own) if (name === 'agent:completed') sessions.add(payload.session as string);
  const parts = await Promise.all([...sessions].map((session) => readAll(log, `session:${session}`)));
  const roots = new Set(own.map(({ source }) => source.root));
  // An attached session has a life of its own; of it, only what the run caused belongs here.
  const caused = parts.flat().filter(({ source }) => source.session?.startsWith(`${id}_`) || roots.has(source.root));
  return [...own, ...caused].sort((a, b) => a.gseq - b.gseq);
}

async function readAll(log: SignalLog, stream: string): Promise<Signal[]> {
  const signals: Signal[] = [];
  for (;;) {
    const page = await log.read(stream, signals.at(-1)?.seq ?? 0, PAGE_SIGNALS);
    signals.push(...page);
    if (page.length < PAGE_SIGNALS) return signals;
  }
}
