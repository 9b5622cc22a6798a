import type { DaemonOperations } from '../contract/daemon.ts';
import type { LogBook } from '../core/log-book.ts';
import type { Handlers } from '../core/operation-call.ts';
import { type ConfigDeps, createConfigHandlers } from './config-handlers.ts';
import type { HookDeps } from './hook-deps.ts';
import { createCompactionHooks } from './hooks-compaction.ts';
import { createMemoryHooks } from './hooks-memory.ts';
import { createPromptHooks } from './hooks-prompt.ts';
import { createSessionHooks } from './hooks-session.ts';
import type { Background } from './job-background.ts';
import { createLogHandlers } from './log-handlers.ts';
import { createMemoryHandlers } from './memory-handlers.ts';
import { createMemoryLifecycleHandlers, type MemoryLifecycleDeps } from './memory-lifecycle-handlers.ts';
import { createSessionHandlers } from './session-handlers.ts';
import { createStatusHandlers, type StatusDeps } from './status-handlers.ts';
import { createWorkflowConfig } from './workflow-config.ts';

/** Streams are answered beside the table. */
export type DaemonHandlers = Handlers<Omit<DaemonOperations, 'streamLogs'>>;

export interface DaemonDeps extends HookDeps, StatusDeps, MemoryLifecycleDeps, ConfigDeps {
  readonly logs: LogBook;
  readonly background: Pick<Background, 'handlers'>;
  /** The OpenAPI document, made elsewhere from the same table as the routes. */
  readonly openapi: Handlers<DaemonOperations>['daemonOpenapi'];
}

/** Every operation of the daemon and who answers it. */
export function createDaemonHandlers(deps: DaemonDeps): DaemonHandlers {
  return {
    ...createSessionHooks(deps), //    /api/hooks/session-start, session-end
    ...createPromptHooks(deps), //     /api/hooks/user-prompt-submit
    ...createMemoryHooks(deps), //     /api/hooks/remember, recall
    ...createCompactionHooks(deps), // /api/hooks/pre-compaction, compaction-complete
    ...createMemoryHandlers(deps), //  /api/memory/*
    ...createMemoryLifecycleHandlers(deps), // /api/memories, /api/memory/:id/history, recover, feedback, search
    ...deps.background.handlers, //    /api/jobs, /api/synthesis, what sessions left behind
    ...createSessionHandlers(deps), // /api/sessions/*
    ...createStatusHandlers(deps), //  /health, /api/status, /api/config/runtime, /api/agents
    ...createLogHandlers(deps), //     /api/logs
    ...createConfigHandlers(deps), //  /api/config
    ...createWorkflowConfig(() => deps.live.loaded.config), // /api/workflows
    daemonOpenapi: deps.openapi,
  };
}
