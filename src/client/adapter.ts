import { hookOperations as hooks } from '../contract/hooks.ts';
import type { InputOf, Operation, OutputOf } from '../contract/operation.ts';
import type { Call } from '../core/operation-call.ts';
import { createHttpTransport } from './http-transport.ts';

/** Where the daemon answers when neither an argument nor the environment says otherwise. */
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = '3850';

/** How long a harness waits for the daemon, in ms. @source spec/hooks, the timeouts written into harness configurations */
const SESSION_START_TIMEOUT_MS = 3_000;
const USER_PROMPT_TIMEOUT_MS = 5_000;
const SESSION_END_TIMEOUT_MS = 15_000;
const COMPACTION_TIMEOUT_MS = 15_000;
const MEMORY_TIMEOUT_MS = 10_000;

/** What a call says beside the harness, which the adapter adds. */
type Params<Op extends Operation> = Omit<InputOf<Op>, 'harness'>;

export type SessionStartParams = Params<typeof hooks.hookSessionStart>;
export type SessionStartResult = OutputOf<typeof hooks.hookSessionStart>;
export type PromptSubmitParams = Params<typeof hooks.hookUserPromptSubmit>;
export type PromptSubmitResult = OutputOf<typeof hooks.hookUserPromptSubmit>;
export type SessionEndParams = Params<typeof hooks.hookSessionEnd>;
export type PreCompactionParams = Params<typeof hooks.hookPreCompaction>;
export type PreCompactionResult = OutputOf<typeof hooks.hookPreCompaction>;
export type CompactionCompleteParams = Params<typeof hooks.hookCompactionComplete>;
export type RememberParams = Params<typeof hooks.hookRemember>;
export type RememberResult = OutputOf<typeof hooks.hookRemember>;
export type RecallParams = Params<typeof hooks.hookRecall>;
export type RecallResult = OutputOf<typeof hooks.hookRecall>;

/**
 * What a harness implements to run on Signet: its lifecycle events, each translated into one daemon call.
 *
 * @source spec/native-runtime, "RuntimeAdapter"
 */
export interface RuntimeAdapter {
  /** `openclaw`, `claude-code`, `opencode`, `signet-cli`, ... */
  readonly harness: string;
  onSessionStart(params: SessionStartParams): Promise<SessionStartResult>;
  onUserPromptSubmit(params: PromptSubmitParams): Promise<PromptSubmitResult>;
  onSessionEnd(params: SessionEndParams): Promise<void>;
  onPreCompaction(params: PreCompactionParams): Promise<PreCompactionResult>;
  onCompactionComplete(params: CompactionCompleteParams): Promise<void>;
}

/** The adapter that `createAdapter` makes: besides the lifecycle it stores and finds memories for a session, silent under bypass. */
export interface AdapterClient extends RuntimeAdapter {
  readonly daemonUrl: string;
  remember(params: RememberParams): Promise<RememberResult>;
  recall(params: RecallParams): Promise<RecallResult>;
}

/**
 * A RuntimeAdapter wired to a daemon, with the token of SIGNET_TOKEN where there is one. Opens nothing, needs no closing.
 *
 * @param daemonUrl  default SIGNET_DAEMON_URL, else SIGNET_HOST and SIGNET_PORT, else http://127.0.0.1:3850
 * @throws AppError (from each method) `daemon_unreachable`, `timeout`, `invalid_request`, `session_claimed`: a harness goes on without context
 * @source spec/native-runtime, "SDK Surface Additions"
 */
export function createAdapter(harness: string, daemonUrl: string = daemonUrlOf(process.env)): AdapterClient {
  const baseUrl = daemonUrl.replace(/\/+$/, '');
  const token = process.env.SIGNET_TOKEN || undefined;
  const transport: Call = createHttpTransport({
    baseUrl,
    token,
    headers: { 'x-signet-actor': harness },
    timeoutMs: SESSION_END_TIMEOUT_MS,
  });
  return {
    harness,
    daemonUrl: baseUrl,
    onSessionStart: (params) => transport(hooks.hookSessionStart, { ...params, harness }, { timeoutMs: SESSION_START_TIMEOUT_MS }),
    onUserPromptSubmit: (params) => transport(hooks.hookUserPromptSubmit, { ...params, harness }, { timeoutMs: USER_PROMPT_TIMEOUT_MS }),
    onSessionEnd: async (params) => {
      await transport(hooks.hookSessionEnd, { ...params, harness }, { timeoutMs: SESSION_END_TIMEOUT_MS });
    },
    onPreCompaction: (params) => transport(hooks.hookPreCompaction, { ...params, harness }, { timeoutMs: COMPACTION_TIMEOUT_MS }),
    onCompactionComplete: async (params) => {
      await transport(hooks.hookCompactionComplete, { ...params, harness }, { timeoutMs: COMPACTION_TIMEOUT_MS });
    },
    remember: (params) => transport(hooks.hookRemember, { ...params, harness }, { timeoutMs: MEMORY_TIMEOUT_MS }),
    recall: (params) => transport(hooks.hookRecall, { ...params, harness }, { timeoutMs: MEMORY_TIMEOUT_MS }),
  };
}

/** The daemon's address by the environment; empty variables count as absent. */
export function daemonUrlOf(env: Readonly<Record<string, string | undefined>>): string {
  if (env.SIGNET_DAEMON_URL) return env.SIGNET_DAEMON_URL;
  return serverUrl(env.SIGNET_HOST || DEFAULT_HOST, env.SIGNET_PORT || DEFAULT_PORT);
}

/** The address to call a server that was told to bind to `host`: "all interfaces" is no address to call, and IPv6 wants brackets. */
export function serverUrl(host: string, port: number | string, scheme: 'http' | 'https' = 'http'): string {
  if (host === '0.0.0.0' || host === '::') return `${scheme}://${DEFAULT_HOST}:${port}`;
  return `${scheme}://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`;
}
