import type { Logger } from '../core/logger.ts';
import type { Call } from '../core/operation-call.ts';
import { createMcpServer } from './server.ts';
import type { McpCaller } from './server-caller.ts';
import { createResourceWatch } from './server-watch.ts';
import { type StdioStreams, StdioTransport } from './stdio-transport.ts';

/** How often the resources are asked for once the client has looked at them; unit: milliseconds. */
const WATCH_EVERY_MS = 10_000;

export interface StdioOptions {
  /** To the daemon over HTTP. */
  readonly call: Call;
  readonly caller: McpCaller;
  readonly streams: StdioStreams;
  readonly log: Logger;
}

/** An MCP server on stdin and stdout. Resolves when the input has ended and every request is answered; never rejects. */
export async function serveStdio({ call, caller, streams, log }: StdioOptions): Promise<void> {
  const transport = new StdioTransport(streams);
  const watch = createResourceWatch({ call, log }, WATCH_EVERY_MS);
  let unwatch: (() => void) | undefined;
  const onResourcesUsed = (): void => {
    unwatch ??= watch.add(caller, (notice) => void server.notification(notice).catch(() => undefined)); // The client has gone.
  };
  const server = createMcpServer({ call, log, onResourcesUsed }, caller);
  await server.connect(transport);
  await transport.closed;
  unwatch?.();
}
