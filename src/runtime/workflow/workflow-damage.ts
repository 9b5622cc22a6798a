import type { WorkflowDamage, WorkflowSummary, WorkflowView } from '../../contract/workflow-operations.ts';
import { type AppError, isAppError } from '../../core/errors.ts';
import type { SignalLog } from '../../core/signal-log.ts';
import { readWorkflow } from './workflow-fold.ts';
import { viewOf } from './workflow-view.ts';

/** The damage an error tells of; null when it tells of something else. */
export function damageOf(error: unknown): WorkflowDamage | null {
  if (!isAppError(error, 'log_divergence')) return null;
  const { code, detail, extra } = error as AppError;
  return { code, seq: typeof extra?.seq === 'number' ? extra.seq : 0, message: detail };
}

/** A workflow nobody can go on with: what it was before the damage. */
export async function damagedView(log: SignalLog, id: string, damage: WorkflowDamage): Promise<WorkflowView> {
  const error = { code: damage.code, message: damage.message };
  const seen = damage.seq > 1 ? await readWorkflow(log, id, damage.seq - 1) : null;
  if (seen) return { ...viewOf(seen.core), status: 'damaged', live: [], waiting: {}, error, damage };
  const usage = { inputTokens: 0, outputTokens: 0 };
  const nothing = { agents: [], input: null, state: {}, activations: 0, skipped: 0, live: [], waiting: {}, usage, costUsd: null, seq: 0 };
  return { ...unreadable(id, damage), ...nothing, error };
}

/** The same in a list. */
export async function damagedSummary(log: SignalLog, id: string, damage: WorkflowDamage): Promise<WorkflowSummary> {
  const first = damage.seq > 1 ? await readWorkflow(log, id, 1) : null;
  if (!first) return unreadable(id, damage);
  return { ...unreadable(id, damage), name: first.core.started.name, startedAt: first.first.timestamp };
}

function unreadable(id: string, damage: WorkflowDamage): WorkflowSummary {
  return { id, name: '', status: 'damaged', reason: null, startedAt: null, endedAt: null, damage };
}
