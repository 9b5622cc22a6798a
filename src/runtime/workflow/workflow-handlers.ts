import { daemonOperations } from '../../contract/daemon.ts';
import type { ParsedInputOf } from '../../contract/operation.ts';
import type { Signal } from '../../contract/signal.ts';
import { WorkflowSource } from '../../contract/workflow.ts';
import type { WorkflowView, workflowOperations } from '../../contract/workflow-operations.ts';
import { limitOf } from '../../core/caller-scope.ts';
import { AppError } from '../../core/errors.ts';
import { nameHint } from '../../core/nearest-name.ts';
import type { Handlers, RequestContext } from '../../core/operation-call.ts';
import { compilePatterns, parsePatternList } from '../../core/signal-pattern.ts';
import { compileWorkflow } from '../../core/workflow-compile.ts';
import type { RuntimeDeps } from '../runtime-deps.ts';
import { damagedSummary, damagedView, damageOf } from './workflow-damage.ts';
import type { WorkflowService } from './workflow-service.ts';
import { summaryOf, viewOf } from './workflow-view.ts';

type Ops = typeof workflowOperations;
type Input<K extends keyof Ops> = ParsedInputOf<Ops[K]>;

const STREAM_PREFIX = 'workflow:';
/** Stored signals read at once. */
const PAGE_SIGNALS = 1_000;
/** Pages a filtered listing looks through before it answers with what it has and a cursor. */
const PAGES_SEARCHED_MAX = 20;
/** Name of a workflow that was given without one. */
const UNNAMED = 'workflow';

/** Start, look at, list and stop workflows. */
export function createWorkflowHandlers(deps: RuntimeDeps, workflows: WorkflowService): Handlers<Omit<Ops, 'streamWorkflow'>> {
  const view = async (id: string): Promise<WorkflowView> => {
    try {
      return viewOf(await workflows.coreOf(id));
    } catch (error) {
      const damage = damageOf(error);
      if (!damage) throw error;
      return damagedView(deps.log, id, damage);
    }
  };
  return {
    async runWorkflow(input, context) {
      const source = await sourceOf(deps, input);
      const before = input.id !== undefined && (await deps.log.head(`workflow:${input.id}`)).head > 0;
      const run = await workflows.start(compileWorkflow(source), {
        ...(input.id ? { id: input.id } : {}),
        client: context.client,
        limit: limitOf(context.caller),
      });
      if (before) context.reply.status(200);
      return view(run.id);
    },
    listWorkflows: (query) => listWorkflows(deps, workflows, query),
    getWorkflow: ({ id }) => view(id),
    abortWorkflow: (input, context) => abort(workflows, input, context, view),
    listWorkflowEvents: (input) => listEvents(deps, workflows, input),
  };
}

async function abort(
  workflows: WorkflowService,
  { id, reason, purge }: Input<'abortWorkflow'>,
  context: RequestContext,
  view: (id: string) => Promise<WorkflowView>,
): Promise<WorkflowView> {
  try {
    const run = await workflows.get(id);
    const host = workflows.peek(id);
    // Without a host it has ended, or the process shuts down; then its end cannot be waited for.
    await (host ? host.abort(context.client, reason) : run.done);
  } catch (error) {
    if (!damageOf(error)) throw error; // A damaged one has nothing left to stop.
  }
  const seen = await view(id);
  if (purge) await workflows.purge(id);
  return seen;
}

/** What is given wins over what agent.yaml says. @throws AppError `workflow_not_found`, `invalid_workflow` */
async function sourceOf(deps: RuntimeDeps, { id: _id, name, ...given }: Input<'runWorkflow'>): Promise<WorkflowSource> {
  const stated = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  if (given.agents) return WorkflowSource.parse({ name: name ?? UNNAMED, input: null, ...stated });
  const { workflows, fault, problems } = await deps.daemon.call(daemonOperations.workflowConfig, {});
  if (name === undefined) throw new AppError('invalid_workflow', { detail: 'give `agents`, or the `name` of a workflow of agent.yaml' });
  const known = workflows.find((workflow) => workflow.name === name);
  if (known) return WorkflowSource.parse({ ...known, ...stated });
  const names = workflows.map((workflow) => workflow.name);
  const absent = `no workflow "${name}"; ${nameHint(name, names, 'there are')}. Or add it to \`workflows\`, or give \`agents\``;
  const [problem = ''] = problems.flatMap((text) => text.split('\n'));
  if (fault !== null) {
    const detail = `agent.yaml as it stands is not taken: ${problem}. The last good one has ${absent}`;
    throw new AppError('workflow_not_found', { detail });
  }
  throw new AppError('workflow_not_found', { detail: `agent.yaml has ${absent}${problem && `. What is wrong with it: ${problem}`}` });
}

async function listWorkflows({ log }: RuntimeDeps, workflows: WorkflowService, { limit, cursor }: Input<'listWorkflows'>) {
  const before = cursor === undefined ? {} : { before: Number(cursor) };
  const entries = await log.streams({ prefix: STREAM_PREFIX, limit, ...before });
  const items = await Promise.all(
    entries.map(async ({ name, head }) => {
      const id = name.slice(STREAM_PREFIX.length);
      try {
        const known = workflows.damaged.get(id);
        if (known) return await damagedSummary(log, id, known);
        const [[first], [last]] = await Promise.all([log.read(name, 0, 1), log.readBefore(name, head + 1, 1)]);
        if (!first && !last) return null; // Forgotten.
        const running = workflows.peek(id);
        // One that neither runs here nor has ended is waiting to be resumed, or damaged: reading it tells.
        if (!first || !last || first.seq !== 1 || (!running && last.name !== 'workflow:end')) {
          const core = await workflows.coreOf(id);
          return first && last ? summaryOf(first, last, viewOf(core).status) : null;
        }
        return summaryOf(first, last, running && viewOf(running.core).status);
      } catch (error) {
        const damage = damageOf(error);
        if (!damage) throw error;
        return damagedSummary(log, id, damage);
      }
    }),
  );
  const next = entries.length === limit ? String(entries.at(-1)!.place) : null;
  return { items: items.filter((item) => item !== null), next };
}

async function listEvents({ log }: RuntimeDeps, workflows: WorkflowService, { id, after, limit, events }: Input<'listWorkflowEvents'>) {
  const { seq: head } = await workflows.coreOf(id);
  const wants = events === undefined ? () => true : compilePatterns(parsePatternList(events), '/events');
  const items: Signal[] = [];
  let seq = after;
  for (let page = 0; page < PAGES_SEARCHED_MAX && items.length < limit && seq < head; page += 1) {
    const signals = await log.read(`workflow:${id}`, seq, Math.min(PAGE_SIGNALS, events === undefined ? limit : PAGE_SIGNALS));
    if (signals.length === 0) break;
    for (const signal of signals) {
      if (items.length >= limit) break;
      seq = signal.seq;
      if (wants(signal.name)) items.push(signal);
    }
  }
  return { items, next: seq < head ? seq : null, head };
}
