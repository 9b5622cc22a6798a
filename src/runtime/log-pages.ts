import type { Signal } from '../contract/signal.ts';
import { AppError } from '../core/errors.ts';
import type { SignalLog } from '../core/signal-log.ts';

/** Stored signals read at once. */
const PAGE_SIGNALS = 1_000;

/** The log of a session from its first signal to `until`, or as far as it goes. */
export async function* readPages(log: SignalLog, id: string, until: number): AsyncGenerator<Signal[], undefined> {
  for (let seq = 0; seq < until; ) {
    const page = await log.read(`session:${id}`, seq, Math.min(PAGE_SIGNALS, until - seq));
    if (page.length === 0) return;
    yield page;
    seq = page.at(-1)!.seq;
  }
}

/** A fork carries the state in itself, so it can go where a log without its beginning cannot. @throws AppError `log_trimmed` */
export async function requireWhole(log: SignalLog, id: string): Promise<void> {
  const checkpoint = await log.loadCheckpoint(`session:${id}`);
  if (!checkpoint) return;
  throw new AppError('log_trimmed', {
    detail: `signals 1 to ${checkpoint.seq} of session ${id} were trimmed; fork it, the log of the fork is whole`,
  });
}
