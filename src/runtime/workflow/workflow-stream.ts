import type { ParsedInputOf } from '../../contract/operation.ts';
import type { workflowOperations } from '../../contract/workflow-operations.ts';
import type { RequestContext } from '../../core/operation-call.ts';
import { compilePatterns, parsePatternList } from '../../core/signal-pattern.ts';
import type { SseWriter } from '../../http/sse.ts';
import { readSession } from '../live/session-reader.ts';
import type { RuntimeDeps } from '../runtime-deps.ts';
import { parseCursor, sseSink } from '../streams.ts';
import type { WorkflowService } from './workflow-service.ts';
import { viewOf } from './workflow-view.ts';

/** GET /workflows/:id/stream */
export async function streamWorkflow(
  deps: RuntimeDeps,
  workflows: WorkflowService,
  { id, after, events }: ParsedInputOf<(typeof workflowOperations)['streamWorkflow']>,
  context: RequestContext,
  sse: SseWriter,
): Promise<void> {
  const cursor = parseCursor(context.header('last-event-id') || after);
  const wants = events === undefined ? () => true : compilePatterns(parsePatternList(events), '/events');
  const stored = await workflows.coreOf(id);
  // A workflow may come into memory and leave it while the reader stays; the host keeps what it was to its end.
  let host = workflows.peek(id);
  const core = () => {
    host = workflows.peek(id) ?? host;
    return host?.core ?? stored;
  };
  sse.open();
  await readSession(deps, sseSink(sse), {
    session: `workflow:${id}`,
    stream: `workflow:${id}`,
    snapshotEvent: 'workflow:snapshot',
    agent: '',
    after: { seq: cursor.seq, offset: 0 },
    wants,
    deltas: false,
    snapshot: () => ({ workflow: viewOf(core()), head: core().seq }),
    head: () => core().seq,
    ended: () => core().end !== null,
  });
}
