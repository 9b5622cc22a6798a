import { daemonUrlOf } from '../client/adapter.ts';
import { createHttpTransport } from '../client/http-transport.ts';
import { AppError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Call } from '../core/operation-call.ts';
import { readableStack } from '../core/readable-stack.ts';
import { serveStdio } from '../mcp/stdio.ts';
import type { CliContext } from './context.ts';
import type { DaemonFlags } from './daemon-api.ts';
import { daemonUrlOfInfo, findDaemon, socketFetchFor, tokenFor, trustOwn, workspaceFolder } from './workspace.ts';

/** Speak MCP until the input ends. That no daemon runs is told by the tools: it may be started, or move to another port, at any time. */
export async function serveMcp(context: CliContext, flags: DaemonFlags): Promise<void> {
  const { env, stdin, stdout } = context;
  const call: Call = async (operation, input, options) => {
    const baseUrl = daemonAddress(context, flags);
    trustOwn(context, baseUrl, flags.path);
    const transport = createHttpTransport({
      baseUrl,
      token: tokenFor(context, baseUrl, flags.path),
      ...socketFetchFor(context, baseUrl, flags.path),
    });
    return transport(operation, input, options);
  };
  const caller = {
    agentId: env.SIGNET_AGENT_ID || undefined,
    harness: env.SIGNET_HARNESS || undefined,
    workspace: env.SIGNET_WORKSPACE || undefined,
    channel: env.SIGNET_CHANNEL || undefined,
  };
  await serveStdio({ call, caller, streams: { stdin, stdout }, log: faultsTo(context) });
}

/**
 * An address that was given, else the daemon of the workspace, else the usual port.
 *
 * @throws AppError daemon_unreachable when a named workspace has no daemon: the one on the usual port belongs to another
 */
function daemonAddress(context: CliContext, flags: DaemonFlags): string {
  const { env } = context;
  if (flags.url) return flags.url;
  // Port 0 means "any that is free": which one it became stands in the data folder.
  const isAnyPort = env.SIGNET_PORT ? Number(env.SIGNET_PORT) === 0 : false;
  const isGiven = env.SIGNET_DAEMON_URL || (!isAnyPort && (env.SIGNET_HOST || env.SIGNET_PORT));
  if (isGiven && !flags.path) return daemonUrlOf(env);
  const folder = workspaceFolder(context, flags.path);
  const daemon = findDaemon(folder);
  const url = daemon && daemonUrlOfInfo(daemon);
  if (url) return url;
  if (flags.path || env.SIGNET_PATH) throw new AppError('daemon_unreachable', { detail: `no daemon runs on ${folder}.` });
  return daemonUrlOf({});
}

/** Standard output belongs to the protocol; what this program got wrong goes where harnesses keep the words of their servers. */
function faultsTo({ stderr }: CliContext): Logger {
  const write = (fields: object, message: string): void => {
    const { err } = fields as { err?: unknown };
    stderr.write(`signet-mcp: ${message}${err instanceof Error ? `: ${readableStack(err)}` : ''}\n`);
  };
  return { debug() {}, info() {}, warn: write, error: write };
}
