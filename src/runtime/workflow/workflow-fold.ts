import type { Signal } from '../../contract/signal.ts';
import { AppError, isAppError } from '../../core/errors.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import { signalDigest } from '../../core/signal-seal.ts';
import { faultOf } from '../session-fold.ts';
import { foldWorkflow, type WorkflowCore } from './workflow-core.ts';
import { WorkflowTrail } from './workflow-trail.ts';

/** Stored signals folded at once. */
const PAGE_SIGNALS = 1_000;
const MISSING = 'it is missing';

export interface FoldedWorkflow {
  readonly core: WorkflowCore;
  readonly trail: WorkflowTrail;
  readonly first: Signal;
  readonly last: Signal;
  /** Log-wide number up to which every signal has been looked at. */
  readonly cursor: number;
}

/**
 * A workflow rebuilt from its stream, each digest compared with the signals before it.
 *
 * @param until  last signal to take; all of them when left out
 * @throws AppError `workflow_not_found`, `log_divergence`
 */
export async function readWorkflow(log: SignalLog, id: string, until?: number): Promise<FoldedWorkflow> {
  const trail = new WorkflowTrail(id);
  let core: WorkflowCore | null = null;
  let first: Signal | null = null;
  let last: Signal | null = null;
  let cursor = 0;
  // Looked up before reading: what is appended meanwhile is no gap.
  const to = until ?? (await log.head(`workflow:${id}`)).head;
  while ((core?.seq ?? 0) < to) {
    const seq: number = core?.seq ?? 0;
    const page: Signal[] = await readPage(log, id, seq, Math.min(PAGE_SIGNALS, to - seq));
    if (page.length === 0 && !core) break; // Forgotten: only its name and its last number are kept.
    if (page.length === 0) throw workflowDamaged(id, seq + 1, MISSING);
    for (const signal of page) {
      const expected = (core?.seq ?? 0) + 1;
      if (signal.seq !== expected) throw workflowDamaged(id, expected, MISSING);
      if (signalDigest(signal, core?.digest ?? '') !== signal.digest) throw workflowDamaged(id, expected, 'its digest does not fit');
      core = foldWorkflow(core, signal);
      trail.take(signal);
      first ??= signal;
      last = signal;
      if (cursor === 0) cursor = signal.gseq - 1;
      if (signal.name === 'workflow:signal') cursor = signal.payload.gseq as number;
    }
  }
  if (!core || !first || !last) throw workflowNotFound(id);
  return { core, trail, first, last, cursor };
}

/** A row the store cannot read is told as any other damage. */
async function readPage(log: SignalLog, id: string, after: number, limit: number): Promise<Signal[]> {
  try {
    return await log.read(`workflow:${id}`, after, limit);
  } catch (error) {
    if (isAppError(error, 'log_divergence') && typeof error.extra?.seq === 'number')
      throw workflowDamaged(id, error.extra.seq, faultOf(error));
    throw error;
  }
}

function workflowDamaged(id: string, seq: number, what: string): AppError {
  return new AppError('log_divergence', {
    detail: `signal ${seq} of workflow ${id} is damaged: ${what}. The workflow does not go on; DELETE /workflows/${id}?purge=true forgets it`,
    extra: { workflow: id, seq },
  });
}

export function workflowNotFound(id: string): AppError {
  return new AppError('workflow_not_found', { detail: `no workflow ${id}` });
}
