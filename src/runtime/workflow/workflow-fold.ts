import type { Signal } from '../../contract/signal.ts';
import { AppError } from '../../core/errors.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import { foldWorkflow, type WorkflowCore } from './workflow-core.ts';
import { WorkflowTrail } from './workflow-trail.ts';

/** Stored signals folded at once. */
const PAGE_SIGNALS = 1_000;

export interface FoldedWorkflow {
  readonly core: WorkflowCore;
  readonly trail: WorkflowTrail;
  readonly first: Signal;
  readonly last: Signal;
  /** Log-wide number up to which every signal has been looked at. */
  readonly cursor: number;
}

/** A workflow rebuilt from its stream. @throws AppError `workflow_not_found`, `log_divergence` */
export async function readWorkflow(log: SignalLog, id: string): Promise<FoldedWorkflow> {
  const trail = new WorkflowTrail(id);
  let core: WorkflowCore | null = null;
  let first: Signal | null = null;
  let last: Signal | null = null;
  let cursor = 0;
  for (;;) {
    const page = await log.read(`workflow:${id}`, core?.seq ?? 0, PAGE_SIGNALS);
    for (const signal of page) {
      if (signal.seq !== (core?.seq ?? 0) + 1) throw new AppError('log_divergence', { detail: `the log of workflow ${id} has a gap` });
      core = foldWorkflow(core, signal);
      trail.take(signal);
      first ??= signal;
      last = signal;
      if (cursor === 0) cursor = signal.gseq - 1;
      if (signal.name === 'workflow:signal') cursor = signal.payload.gseq as number;
    }
    if (page.length < PAGE_SIGNALS) break;
  }
  if (!core || !first || !last) throw workflowNotFound(id);
  return { core, trail, first, last, cursor };
}

export function workflowNotFound(id: string): AppError {
  return new AppError('workflow_not_found', { detail: `no workflow ${id}` });
}
