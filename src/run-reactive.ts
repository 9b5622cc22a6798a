import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Running, start } from './compose.ts';
import { type Environment, recordingMode, resolveSettings } from './config.ts';
import type { RecordingMismatch, RecordingMode } from './contract/recording.ts';
import type { Signal } from './contract/signal.ts';
import type { WorkflowEndReason, WorkflowMetrics, WorkflowResult } from './contract/workflow.ts';
import { isAppError } from './core/errors.ts';
import { silentLogger } from './core/logger.ts';
import type { Provider } from './core/provider.ts';
import type { Tool } from './core/tool.ts';
import type { WorkflowRun } from './core/workflow.ts';
import { WorkflowError } from './core/workflow-error.ts';
import { createLogger } from './log.ts';
import type { RecordingOptions } from './open-recorder.ts';
import {
  defineWorkflow,
  providersOf,
  type ReactiveAgent,
  requireProvider,
  type WorkflowStateShape,
  type WorkflowTerms,
} from './workflow.ts';

export interface ReactiveRecording {
  readonly path: string;
  /** SIGNALS_MODE when left out, else auto. */
  readonly mode?: RecordingMode;
  readonly mismatch?: RecordingMismatch;
}

export interface RunReactiveOptions<State extends WorkflowStateShape> extends WorkflowTerms<State> {
  /** Stops all work; the run then ends with the reason `aborted`. */
  readonly signal?: AbortSignal;
  /** A file that the outcomes of calls are kept in or taken from. */
  readonly recording?: string | ReactiveRecording;
  /** Answers for agents that name none; else what the environment and agent.yaml configure. */
  readonly provider?: Provider;
  readonly tools?: readonly Tool[];
  /** Workspace; a temporary one, removed afterwards, when left out. */
  readonly path?: string;
}

export interface ReactiveResult<State> {
  readonly id: string;
  readonly state: State;
  /** Everything that happened, in the order of the log. */
  readonly signals: readonly Signal[];
  readonly metrics: WorkflowMetrics;
  /** It ended before nothing was left to do. */
  readonly terminatedEarly: boolean;
  readonly reason: WorkflowEndReason;
  /** Null when nothing was recorded or replayed. */
  readonly recordingId: string | null;
  readonly provider: Running['provider'];
}

/** Typed by the state of a workflow: `agent` declares one of its agents, `runReactive` runs it. */
export function createWorkflow<State extends WorkflowStateShape = WorkflowStateShape>() {
  return {
    agent: (declared: ReactiveAgent<State>): ReactiveAgent<State> => declared,
    runReactive: (options: RunReactiveOptions<State>): Promise<ReactiveResult<State>> => runReactive(options),
  };
}

/** Declares an agent of a workflow whose state has no type of its own. @source spec/signal-system, "Custom Signals" */
export function agent(declared: ReactiveAgent): ReactiveAgent {
  return declared;
}

/**
 * Run a workflow in this process to its end: daemon and runtime on a workspace of their own, which are closed again. Without a key the offline
 * demo answers; `provider` of the result says so, and a warning of the process.
 *
 * @throws AppError when it cannot begin (`invalid_workflow`, `invalid_expression`, `recording_invalid`, `workspace_locked`, ...)
 * @throws WorkflowError when it ends in an error, or makes a call that was to be recorded and was not (`recording_mismatch`)
 */
export async function runReactive<State extends WorkflowStateShape>(options: RunReactiveOptions<State>): Promise<ReactiveResult<State>> {
  requireProvider(options.provider, '/provider');
  const definition = defineWorkflow(options);
  const folder = options.path ?? mkdtempSync(join(tmpdir(), 'signet-run-'));
  const recording = recordingOf(options.recording, process.env);
  try {
    const settings = resolveSettings({
      ...process.env,
      SIGNET_PATH: folder,
      SIGNET_PORT: '0',
      SIGNET_RUNTIME_PORT: '0',
      ...(recording ? { SIGNALS_MODE: 'live' } : {}),
    });
    const own = process.env.SIGNET_LOG_LEVEL?.trim() ? createLogger(settings.logLevel) : silentLogger;
    const providers = [
      ...(options.provider ? [options.provider] : []),
      ...providersOf(options.agents as Parameters<typeof providersOf>[0]),
    ];
    const server = await start(settings, own, {
      providers,
      defaultProvider: options.provider?.id,
      tools: options.tools,
      recording: { ...(recording ?? settings.recording), ordered: true, anew: true },
    });
    try {
      if (server.provider.offlineDemo && !recording) warnOfDemo();
      return await runOn(server, definition, options.signal);
    } finally {
      await server.close();
    }
  } finally {
    if (options.path === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

async function runOn<State>(
  server: Running,
  definition: ReturnType<typeof defineWorkflow>,
  signal: AbortSignal | undefined,
): Promise<ReactiveResult<State>> {
  const recordingId = server.recording?.id ?? null;
  // The ids of signals follow from it: a replay has those of the run that was recorded.
  const id = recordingId === null ? undefined : `wfl_${recordingId.replace(/^rec_/, '')}`;
  const run = await server.workflows.start(definition, { client: 'code', ...(id === undefined ? {} : { id }) });
  const onAbort = () => void run.abort('the caller').catch(() => undefined); // Told by `done`.
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    const result = await ended(run, definition.state, recordingId);
    // Read before anything else is awaited: sessions that were shared end behind the run, and their end is no part of it.
    const fault = server.recording?.fault;
    const signals = upToEnd(await run.signals());
    if (fault) throw new WorkflowError({ code: fault.code, message: fault.detail }, { signals, state: result.state, recordingId }, fault);
    if (result.reason === 'error') {
      const unknown = { code: 'internal', message: 'the run ended in an error' };
      throw new WorkflowError(result.error ?? unknown, { signals, state: result.state, recordingId });
    }
    const { reason, metrics } = result;
    const state = result.state as State;
    return { id: run.id, state, signals, metrics, terminatedEarly: reason !== 'quiescent', reason, recordingId, provider: server.provider };
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

function upToEnd(signals: readonly Signal[]): Signal[] {
  return signals.slice(0, signals.findLastIndex(({ name }) => name === 'workflow:end') + 1);
}

/** The process let go of the run: its trace is what is in the log. */
async function ended(run: WorkflowRun, state: WorkflowError['state'], recordingId: string | null): Promise<WorkflowResult> {
  try {
    return await run.done;
  } catch (error) {
    const fault = isAppError(error) ? { code: error.code, message: error.detail } : { code: 'internal', message: String(error) };
    throw new WorkflowError(fault, { signals: await run.signals().catch(() => []), state, recordingId }, error);
  }
}

function recordingOf(given: RunReactiveOptions<never>['recording'], env: Environment): RecordingOptions | undefined {
  if (given === undefined) return undefined;
  const { path, mode = recordingMode(env) ?? 'auto', mismatch = 'strict' } = typeof given === 'string' ? { path: given } : given;
  return { path: resolve(path), mode, mismatch };
}

function warnOfDemo(): void {
  process.emitWarning('runReactive: the offline demo answers, no model; set ANTHROPIC_API_KEY or OPENAI_API_KEY, or give a provider', {
    code: 'OFFLINE_DEMO',
  });
}
