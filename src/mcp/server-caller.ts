import type { InputOf, Operation, OutputOf } from '../contract/operation.ts';
import type { CallerLimit } from '../contract/scope.ts';
import type { Call, RequestContext } from '../core/operation-call.ts';

/** Deadline of one call of the daemon, in ms. @source spec/mcp-server, "Internals" */
export const TOOL_TIMEOUT_MS = 10_000;

/** Who speaks MCP with us, as far as it says; its rights are `admit`'s alone. */
export interface McpCaller {
  readonly agentId?: string | undefined;
  readonly harness?: string | undefined;
  readonly workspace?: string | undefined;
  readonly channel?: string | undefined;
  /** `x-request-id`, `traceparent`: what lets both ends find the same call in their logs. */
  readonly trace?: Readonly<Record<string, string>>;
  /** Rights of its token; left out where nobody needs one, and where the daemon at the other end of the call asks by itself. */
  readonly admit?: RequestContext['admit'];
  /** Of its token; see `admit`. */
  readonly limit?: CallerLimit | undefined;
}

/** The way of one MCP request to the daemon. */
export interface DaemonCalls extends McpCaller {
  /** @throws AppError as the operation answers it; `forbidden` when the caller may not use it */
  call<Op extends Operation>(operation: Op, input: InputOf<Op>, timeoutMs?: number): Promise<OutputOf<Op>>;
}

/** Operations with the headers, the deadline and the rights of one MCP request. `signal` aborts when its client has gone or takes it back. */
export function createDaemonCalls(call: Call, caller: McpCaller, signal: AbortSignal): DaemonCalls {
  const headers = headersOf(caller);
  return {
    ...caller,
    call: async <Op extends Operation>(operation: Op, input: InputOf<Op>, timeoutMs = TOOL_TIMEOUT_MS) => {
      const allowed = caller.admit ? await caller.admit(operation, input as Readonly<Record<string, unknown>>) : input;
      return call(operation, allowed as InputOf<Op>, { headers, signal, timeoutMs, limit: caller.limit });
    },
  };
}

/** @source spec/mcp-server, "Internals" */
function headersOf({ agentId, harness, workspace, channel, trace }: McpCaller): Record<string, string> {
  const told = { 'x-signet-agent-id': agentId, 'x-signet-harness': harness, 'x-signet-workspace': workspace, 'x-signet-channel': channel };
  return {
    ...trace,
    'x-signet-runtime-path': 'plugin',
    'x-signet-actor': 'mcp-server',
    'x-signet-actor-type': 'harness',
    ...Object.fromEntries(Object.entries(told).flatMap(([name, value]) => (value ? [[name, plainHeader(value)]] : []))),
  };
}

/** A folder may have any name, a header may not. */
function plainHeader(value: string): string {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(value) ? value : encodeURIComponent(value);
}
