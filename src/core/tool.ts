import type { Usage } from '../contract/provider.ts';
import type { CallerLimit } from '../contract/scope.ts';
import type { ToolClass } from '../contract/tool.ts';

/**
 * What a tool sees of the call. All daemon calls go through `call`, never around it.
 * @source spec/native-runtime, "Tool"
 */
export interface ToolContext {
  readonly sessionKey: string;
  readonly sessionId: string;
  readonly agent: string;
  readonly project: string;
  /** Of the tokens the call is made for: calls of the daemon are made under it. */
  readonly limit?: CallerLimit | undefined;
  /** For tools outside this process; those inside use `daemon`. */
  readonly daemonUrl: string;
  /** Stable over a crash: an idempotent tool passes it on. */
  readonly callKey: string;
  /** What the log says of the call; the tool's own class when absent. The stricter of both holds. */
  readonly callClass?: ToolClass;
  /** Aborts at the call's deadline, when the turn is cancelled and at shutdown. */
  readonly signal: AbortSignal;
  /** Shown live, never stored. */
  progress(message: string, fraction?: number): void;
  /** What sessions of the call's own have used; counted to the session that asked. */
  used?(usage: Usage, costUsd: number | null): void;
}

/** @source spec/native-runtime, "Tool" */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of type object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** What a restart may do with a call that has no result: run again, run again with the same key, ask, or never. */
  readonly class: ToolClass;
  /** Runs in the research phase with `{query: <the prompt>}` as input. */
  readonly runBeforeGeneration?: boolean;
  /** builtin, custom (registered over HTTP or in code) or mcp. */
  readonly origin: 'builtin' | 'custom' | 'mcp';
  /** Deadline of one call; TOOL_TIMEOUT_MS when absent. */
  readonly timeoutMs?: number;
  /** A person must agree before each call. */
  readonly needsApproval?: boolean;
  /** Sessions of these agents alone are offered it, and a model it was not offered to is denied it. Those of all agents when absent. */
  isFor?(agent: string): boolean;
  /** Works through sessions of this runtime alone: a replay runs it as well, and what those sessions ask for is what is answered. */
  readonly internal?: true;
  /** Any JSON value; a throw becomes an error result for the model. */
  execute(input: unknown, context: ToolContext): Promise<unknown>;
}
