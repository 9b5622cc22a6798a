import { createRuntimeClient, type RuntimeClient } from './client/runtime-client.ts';
import { type Running, start } from './compose.ts';
import { resolveSettings } from './config.ts';
import type { Tool } from './core/tool.ts';
import { createLogger } from './log.ts';

export { createAdapter, type RuntimeAdapter } from './client/adapter.ts';
export { createRuntimeAdapterServer, type RuntimeAdapterServer } from './client/adapter-server.ts';
export { createDaemonClient } from './client/daemon-client.ts';
export { createRuntimeClient, type RuntimeClient } from './client/runtime-client.ts';
export type { Signal } from './contract/signal.ts';
export { AppError } from './core/errors.ts';
export type { DaemonClient } from './core/operation-call.ts';
export { type PlayedState, Player } from './core/player.ts';
export type { CompletionChunk, CompletionOptions, CompletionResult, Message, Provider } from './core/provider.ts';
export type { Tool, ToolContext } from './core/tool.ts';
export { WorkflowError } from './core/workflow-error.ts';
export {
  agent,
  createWorkflow,
  type ReactiveRecording,
  type ReactiveResult,
  type RunReactiveOptions,
  runReactive,
} from './run-reactive.ts';
export { defineSignal, type ReactiveAgent, type ReactiveOutcome, type ReactiveScope, type SignalDefinition } from './workflow.ts';

export interface CreateRuntimeOptions {
  /** Port of the runtime; 7700 unless SIGNET_RUNTIME_PORT or agent.yaml say otherwise, 0 takes any free one. */
  readonly port?: number;
  readonly daemonPort?: number;
  /** Workspace folder; SIGNET_PATH or ~/.agents. */
  readonly path?: string;
  /** Tools of the caller beside the built-in ones; they run in this process. */
  readonly tools?: readonly Tool[];
}

/**
 * Daemon and runtime in this process, and a client of them. The caller closes the server.
 *
 * @throws AppError as `signet start` does
 * @source spec/native-runtime, "SDK is a typed HTTP client"
 */
export async function createRuntime(options: CreateRuntimeOptions = {}): Promise<{ client: RuntimeClient; server: Running }> {
  const settings = resolveSettings({
    ...process.env,
    ...(options.path === undefined ? {} : { SIGNET_PATH: options.path }),
    ...(options.port === undefined ? {} : { SIGNET_RUNTIME_PORT: String(options.port) }),
    ...(options.daemonPort === undefined ? {} : { SIGNET_PORT: String(options.daemonPort) }),
  });
  const server = await start(settings, createLogger(settings.logLevel), options.tools === undefined ? {} : { tools: options.tools });
  return { client: createRuntimeClient({ baseUrl: server.runtime.url }), server };
}
