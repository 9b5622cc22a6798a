import type { DaemonOperations } from '../contract/daemon.ts';
import type { Handlers } from '../core/operation-call.ts';
import type { HookDeps } from './hook-deps.ts';
import { createCompactionHooks } from './hooks-compaction.ts';
import { createMemoryHooks } from './hooks-memory.ts';
import { createPromptHooks } from './hooks-prompt.ts';
import { createSessionHooks } from './hooks-session.ts';
import { createMemoryHandlers } from './memory-handlers.ts';
import { createSessionHandlers } from './session-handlers.ts';
import { createStatusHandlers, type StatusDeps } from './status-handlers.ts';

export interface DaemonDeps extends HookDeps, StatusDeps {
  /** The OpenAPI document, made elsewhere from the same table as the routes. */
  readonly openapi: Handlers<DaemonOperations>['daemonOpenapi'];
}

/** Every operation of the daemon and who answers it. */
export function createDaemonHandlers(deps: DaemonDeps): Handlers<DaemonOperations> {
  return {
    ...createSessionHooks(deps), //    /api/hooks/session-start, session-end
    ...createPromptHooks(deps), //     /api/hooks/user-prompt-submit
    ...createMemoryHooks(deps), //     /api/hooks/remember, recall
    ...createCompactionHooks(deps), // /api/hooks/pre-compaction, compaction-complete
    ...createMemoryHandlers(deps), //  /api/memory/*
    ...createSessionHandlers(deps), // /api/sessions/*
    ...createStatusHandlers(deps), //  /health, /api/status, /api/config/runtime, /api/agents
    daemonOpenapi: deps.openapi,
  };
}
