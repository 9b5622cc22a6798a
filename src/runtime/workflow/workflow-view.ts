import type { Signal } from '../../contract/signal.ts';
import type { WorkflowStatus, WorkflowSummary, WorkflowView } from '../../contract/workflow-operations.ts';
import type { WorkflowPayloadOf } from '../../contract/workflow-signals.ts';
import { isoTime } from '../../core/clock.ts';
import type { WorkflowCore } from './workflow-core.ts';

type End = WorkflowPayloadOf<'workflow:end'>;

/** What clients are shown of a workflow. */
export function viewOf(core: WorkflowCore): WorkflowView {
  const { context, value } = core.snapshot;
  const { name, agents, input } = core.started;
  return {
    id: core.id,
    name,
    status: core.end ? 'ended' : (value as WorkflowStatus),
    reason: core.end?.reason ?? null,
    startedAt: isoTime(context.startedAt),
    endedAt: core.end ? isoTime(core.at) : null,
    agents: agents.map((agent) => agent.name),
    input: input ?? null,
    state: { ...context.state },
    error: core.end?.error ?? context.ending?.error ?? null,
    activations: context.activations,
    skipped: context.skipped,
    live: core.end
      ? []
      : context.live.map(({ activation, agent, session, attempt, startedAt }) => ({
          activation,
          agent,
          session,
          attempt,
          startedAt: isoTime(startedAt),
        })),
    waiting: Object.fromEntries(Object.entries(context.waiting).map(([agent, triggers]) => [agent, triggers.length])),
    usage: context.usage,
    costUsd: context.costUsd,
    seq: core.seq,
  };
}

/** The same in a list, without folding the stream. */
export function summaryOf(first: Signal, last: Signal, status: WorkflowStatus = 'running'): WorkflowSummary {
  const { workflow, name } = first.payload as WorkflowPayloadOf<'workflow:start'>;
  const end = last.name === 'workflow:end' ? (last.payload as End) : null;
  return {
    id: workflow,
    name,
    status: end ? 'ended' : status,
    reason: end?.reason ?? null,
    startedAt: first.timestamp,
    endedAt: end ? last.timestamp : null,
  };
}
