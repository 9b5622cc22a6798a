import type { InputOf, Operation, OutputOf } from '../contract/operation.ts';
import { runtimeOperations as operations } from '../contract/runtime.ts';
import { PAGE_LIMIT_MAX } from '../contract/session.ts';
import type { Signal } from '../contract/signal.ts';
import type { WorkflowEndReason, WorkflowMetrics } from '../contract/workflow.ts';
import type { WorkflowPayloadOf } from '../contract/workflow-signals.ts';
import { AppError } from '../core/errors.ts';
import type { Call } from '../core/operation-call.ts';
import { WorkflowError } from '../core/workflow-error.ts';
import type { SessionEvent } from './session-stream.ts';

/** Deadline of the abort of a run: it answers when all work has settled, in ms. */
const ABORT_TIMEOUT_MS = 150_000;

export interface RemoteWorkflowResult {
  readonly id: string;
  readonly state: Readonly<Record<string, unknown>>;
  /** The workflow's signals and those of the sessions it activated, in the order of the log. */
  readonly signals: readonly Signal[];
  readonly metrics: WorkflowMetrics;
  /** It ended before nothing was left to do. */
  readonly terminatedEarly: boolean;
  readonly reason: WorkflowEndReason;
}

export interface RemoteRunPorts {
  readonly call: Call;
  readonly stream: (id: string) => AsyncIterable<SessionEvent>;
}

/**
 * Start a workflow and wait for its end, over lost connections and restarts of the server too. The signal aborts the run itself.
 *
 * @throws AppError as `POST /workflows` does
 * @throws WorkflowError when it ends in an error
 */
export async function runWorkflow(
  { call, stream }: RemoteRunPorts,
  input: InputOf<typeof operations.runWorkflow>,
  signal?: AbortSignal,
): Promise<RemoteWorkflowResult> {
  const { id } = await call(operations.runWorkflow, input, { signal });
  // How it went is told by the stream.
  const abort = () => void call(operations.abortWorkflow, { id }, { timeoutMs: ABORT_TIMEOUT_MS }).catch(() => undefined);
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted) abort();
  try {
    for await (const { name } of stream(id)) if (name === 'workflow:end') break;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
  const trace = await readTrace(call, id);
  // Sessions that were shared end behind the run, and their end is no part of it.
  const signals = trace.slice(0, trace.findLastIndex(({ name }) => name === 'workflow:end') + 1);
  const ended = signals.at(-1)?.payload as WorkflowPayloadOf<'workflow:end'> | undefined;
  if (!ended) throw new AppError('draining', { detail: `the stream of workflow ${id} ended before the workflow did; ask for it again` });
  const { reason, state, metrics, error } = ended;
  if (reason === 'error') {
    const fault = error ?? { code: 'internal', message: 'the run ended in an error' };
    throw new WorkflowError(fault, { signals, state, recordingId: null });
  }
  return { id, state, signals, metrics, terminatedEarly: reason !== 'quiescent', reason };
}

async function readTrace(call: Call, id: string): Promise<Signal[]> {
  const own = await readAll(call, operations.listWorkflowEvents, id);
  const sessions = new Set(own.flatMap(({ name, payload }) => (name === 'agent:activated' ? [payload.session as string] : [])));
  const roots = new Set(own.map(({ source }) => source.root));
  const signals = [...own];
  for (const session of sessions) {
    const said = await readAll(call, operations.listEvents, session);
    // A session the workflow was attached to has a life of its own; of it, only what the run caused belongs here.
    signals.push(...said.filter(({ source }) => session.startsWith(`${id}_`) || roots.has(source.root)));
  }
  return signals.sort((a, b) => a.gseq - b.gseq);
}

async function readAll<Op extends typeof operations.listWorkflowEvents | typeof operations.listEvents>(
  call: Call,
  operation: Op,
  id: string,
): Promise<Signal[]> {
  const signals: Signal[] = [];
  for (;;) {
    const page = (await call(operation as Operation, { id, after: signals.at(-1)?.seq ?? 0, limit: PAGE_LIMIT_MAX })) as OutputOf<Op>;
    signals.push(...page.items);
    if (page.next === null || page.items.length === 0) return signals;
  }
}
