import type { DaemonOperations } from '../contract/daemon.ts';
import type { LogBook } from '../core/log-book.ts';
import type { Handlers } from '../core/operation-call.ts';
import { createAgentFileHandlers } from './agent-file-handlers.ts';
import { type AgentDeps, createAgentHandlers } from './agent-handlers.ts';
import { type ConfigDeps, createConfigHandlers } from './config-handlers.ts';
import type { PeerDeps } from './cross-agent-deps.ts';
import { createCrossAgentHandlers } from './cross-agent-handlers.ts';
import { createDocumentHandlers, type DocumentDeps } from './document-handlers.ts';
import type { HookDeps } from './hook-deps.ts';
import { createCompactionHooks } from './hooks-compaction.ts';
import { createMemoryHooks } from './hooks-memory.ts';
import { createPromptHooks } from './hooks-prompt.ts';
import { createSessionHooks } from './hooks-session.ts';
import type { Background } from './job-background.ts';
import { unknownAgentWarning } from './known-agents.ts';
import { createLogHandlers } from './log-handlers.ts';
import { createMemoryHandlers } from './memory-handlers.ts';
import { createMemoryLifecycleHandlers, type MemoryLifecycleDeps } from './memory-lifecycle-handlers.ts';
import { createSecretHandlers, type SecretDeps } from './secret-handlers.ts';
import { createSessionHandlers, type SessionDeps } from './session-handlers.ts';
import { createStatusHandlers, type StatusDeps } from './status-handlers.ts';
import { createTokenHandlers, type TokenDeps } from './token-handlers.ts';
import { type BudgetDeps, createUsageHandlers } from './usage-handlers.ts';
import { createWorkflowConfig } from './workflow-handlers.ts';

/** Streams are answered beside the table. */
export type DaemonHandlers = Handlers<Omit<DaemonOperations, 'streamLogs' | 'streamAgentMessages'>>;

export interface DaemonDeps
  extends HookDeps,
    StatusDeps,
    MemoryLifecycleDeps,
    ConfigDeps,
    AgentDeps,
    SecretDeps,
    SessionDeps,
    TokenDeps,
    DocumentDeps,
    PeerDeps {
  readonly logs: LogBook;
  readonly background: Pick<Background, 'handlers'>;
  readonly spending: BudgetDeps;
  /** The OpenAPI document, made elsewhere from the same table as the routes. */
  readonly openapi: Handlers<DaemonOperations>['daemonOpenapi'];
}

/** Every operation of the daemon and who answers it. */
export function createDaemonHandlers(deps: DaemonDeps): DaemonHandlers {
  const warnOf = (agentId: string) => unknownAgentWarning(deps, agentId);
  return {
    ...createSessionHooks(deps), //    /api/hooks/session-start, session-end
    ...createPromptHooks(deps), //     /api/hooks/user-prompt-submit
    ...createMemoryHooks(deps), //     /api/hooks/remember, recall
    ...createCompactionHooks(deps), // /api/hooks/pre-compaction, compaction-complete
    ...createMemoryHandlers({ ...deps, warnOf }), //  /api/memory/*
    ...createMemoryLifecycleHandlers({ ...deps, warnOf }), // /api/memories, /api/memory/:id/history, recover, feedback, search
    ...deps.background.handlers, //    /api/jobs, /api/synthesis, what sessions left behind
    ...createUsageHandlers(deps.spending), // /api/usage
    ...createSessionHandlers(deps), // /api/sessions/*
    ...createStatusHandlers(deps), //  /health, /api/status, /api/config/runtime
    ...createAgentHandlers(deps), //   /api/agents
    ...createCrossAgentHandlers(deps), // /api/cross-agent
    ...createLogHandlers(deps), //     /api/logs
    ...createConfigHandlers(deps), //  /api/config
    ...createSecretHandlers(deps), //  /api/secrets
    ...createTokenHandlers(deps), //   /api/tokens, /api/auth/whoami
    ...createDocumentHandlers(deps), // /api/documents
    ...createAgentFileHandlers(deps), // /api/identity/files, /api/skills
    ...createWorkflowConfig(deps.folder, deps.live), // /api/workflows
    daemonOpenapi: deps.openapi,
  };
}
