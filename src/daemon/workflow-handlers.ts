import type { workflowConfigOperations } from '../contract/workflow-operations.ts';
import type { Handlers } from '../core/operation-call.ts';
import { type LiveConfig, problemsOf } from './config-live.ts';
import { workflowsOf } from './workflow-config.ts';

/** GET /api/workflows */
export function createWorkflowConfig(folder: string, live: LiveConfig): Handlers<typeof workflowConfigOperations> {
  return {
    workflowConfig: () => {
      live.look();
      return { workflows: workflowsOf(folder, live.loaded.config), fault: live.fault, problems: problemsOf(live) };
    },
  };
}
