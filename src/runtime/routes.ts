import { daemonOperations } from '../contract/daemon.ts';
import type { RuntimeOperations } from '../contract/runtime.ts';
import type { Handlers } from '../core/operation-call.ts';
import { createApprovalService } from './approval-service.ts';
import { forkSession } from './fork-service.ts';
import { createHistoryService } from './history-service.ts';
import { createLogService } from './log-service.ts';
import { liveMachine, machineGraph, machineMermaid, machineRefs } from './machine-service.ts';
import { listModels } from './model-list.ts';
import type { PromptService } from './prompt-service.ts';
import type { RuntimeDeps } from './runtime-deps.ts';
import type { SessionService } from './session-service.ts';
import type { createStatusService } from './status-service.ts';
import { callToolDirectly } from './tool-handlers.ts';
import { verifySession } from './verify.ts';
import { createWorkflowHandlers } from './workflow/workflow-handlers.ts';
import type { WorkflowService } from './workflow/workflow-service.ts';

type Streams = 'streamSession' | 'streamWorkflow' | 'streamAll' | 'socket' | 'runtimeOpenapi';
export type RuntimeHandlers = Handlers<Omit<RuntimeOperations, Streams>>;

export interface RuntimeServices {
  readonly sessions: SessionService;
  readonly prompts: PromptService;
  readonly workflows: WorkflowService;
  readonly status: ReturnType<typeof createStatusService>;
}

/** Operation → handler. */
export function createRuntimeHandlers(deps: RuntimeDeps, { sessions, prompts, workflows, status }: RuntimeServices): RuntimeHandlers {
  const history = createHistoryService(deps);
  const logs = createLogService(deps, () => workflows.readUntil);
  const approvals = createApprovalService(deps);
  return {
    ...createWorkflowHandlers(deps, workflows),
    createSession: (input, context) => sessions.create(input, context),
    listSessions: sessions.list,
    getSession: sessions.get,
    updateSession: sessions.update,
    endSession: sessions.end,
    abortTurn: sessions.abort,
    waitSession: sessions.wait,
    compactSession: sessions.compact,
    forkSession: (input, context) => forkSession(deps, input, context),
    resumeSession: async ({ id }) => (await deps.supervisor.resume(id)).view.session,
    listChildren: sessions.children,
    prompt: (input, context) => prompts.prompt(input, context),
    getPrompt: prompts.getPrompt,
    cancelPrompt: prompts.cancelPrompt,
    verifySession: async ({ id }) => ({ session: id, ...(await verifySession(deps.log, id)) }),
    sessionStateAt: history.stateAt,
    diffSessions: logs.diff,
    exportSession: logs.exportLog,
    importSession: logs.importLog,
    trimSession: logs.trim,
    listMessages: history.messages,
    listEvents: history.events,
    sessionMachine: async ({ id }) => liveMachine(await deps.supervisor.view(id)),
    listApprovals: approvals.list,
    decideApproval: approvals.decide,
    listTools: ({ agent }) => {
      const tools = deps.toolService.list(agent);
      return { tools, count: tools.length };
    },
    registerTool: async (registration) => ({ tools: await deps.toolService.register(registration) }),
    unregisterTool: async ({ name }) => ({ removed: await deps.toolService.unregister(name) }),
    callTool: (input, context) => callToolDirectly(deps, input, context),
    listProviders: () => {
      const providers = deps.providers.list();
      return { providers, default: deps.providers.resolve().provider.id };
    },
    providerStatus: ({ id }) => deps.providers.status(id),
    listModels: ({ provider }) => listModels(deps.providers, provider),
    listMachines: () => ({ machines: machineRefs() }),
    machineGraph: ({ id }) => machineGraph(id),
    machineMermaid: ({ id }) => machineMermaid(id),
    listRuntimeAgents: () => deps.daemon.call(daemonOperations.listAgents, {}),
    health: status.health,
    metrics: () => deps.metrics.text(),
    healthLive: () => ({ status: 'live' }),
    healthReady: status.ready,
    info: status.info,
  };
}
