import type { IncomingMessage, ServerResponse } from 'node:http';
import { limitOf } from '../core/caller-scope.ts';
import type { RequestContext } from '../core/operation-call.ts';
import type { McpCaller } from './server-caller.ts';

/** Longest value taken from a header or the query, in characters. */
const VALUE_CHARS_MAX = 512;

export type Rights = Pick<RequestContext, 'caller' | 'admit' | 'charge'>;

/** Who an HTTP client says it is: by `x-signet-agent-id`, `-harness`, `-workspace`, `-channel`, or by the query for those that cannot set headers. */
export function callerOf(request: IncomingMessage, response: ServerResponse, { caller, admit }: Rights): McpCaller {
  const query = new URLSearchParams(request.url?.split('?')[1] ?? '');
  const told = (name: string, field: string): string | undefined => {
    const value = request.headers[name] ?? query.get(field) ?? undefined;
    return typeof value === 'string' && value !== '' ? value.slice(0, VALUE_CHARS_MAX) : undefined;
  };
  const requestId = response.getHeader('x-request-id');
  const traceparent = response.getHeader('traceparent');
  return {
    // A token for one agent speaks for no other.
    agentId: caller?.agent ?? told('x-signet-agent-id', 'agent'),
    harness: told('x-signet-harness', 'harness'),
    workspace: told('x-signet-workspace', 'workspace'),
    channel: told('x-signet-channel', 'channel'),
    ...(admit ? { admit, limit: limitOf(caller) } : {}),
    trace: {
      ...(typeof requestId === 'string' ? { 'x-request-id': requestId } : {}),
      ...(typeof traceparent === 'string' ? { traceparent } : {}),
    },
  };
}
