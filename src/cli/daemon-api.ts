import type { Command } from 'commander';
import { serverUrl } from '../client/adapter.ts';
import { createDaemonClient } from '../client/daemon-client.ts';
import type { DaemonClient } from '../core/operation-call.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { daemonUrlOfInfo, findDaemon, socketFetchFor, tokenFor, trustOwn, workspaceFolder } from './workspace.ts';

const DEFAULT_DAEMON_PORT = '3850';

export interface DaemonFlags {
  readonly url?: string;
  readonly path?: string;
}

/** Where a command finds the daemon, for those that speak with it and not with the runtime. */
export function addDaemonAddressOptions(command: Command): Command {
  return command
    .option('--url <url>', 'address of the daemon (SIGNET_DAEMON_URL; default: the daemon of the data folder, else http://127.0.0.1:3850)')
    .option('--path <folder>', 'data folder (SIGNET_PATH; default ~/.agents)');
}

/** Calls fail with `daemon_unreachable` when nobody answers. */
export function requireDaemonApi(context: CliContext, flags: DaemonFlags): DaemonClient {
  const { env } = context;
  const baseUrl = flags.url || env.SIGNET_DAEMON_URL || daemonUrl(context, flags);
  if (!/^https?:\/\//.test(baseUrl))
    throw new CliExit(EXIT.usage, `the daemon's address must begin with http:// or https://, not ${baseUrl}`);
  return daemonAt(context, baseUrl, flags.path);
}

/** Calls fail with `daemon_unreachable` when nobody answers. */
export function daemonAt(context: CliContext, baseUrl: string, path?: string): DaemonClient {
  const headers = { 'x-signet-actor': 'signet-cli', 'x-signet-actor-type': 'operator' };
  const token = tokenFor(context, baseUrl, path);
  trustOwn(context, baseUrl, path);
  return createDaemonClient({ baseUrl, headers, ...(token === undefined ? {} : { token }), ...socketFetchFor(context, baseUrl, path) });
}

function daemonUrl(context: CliContext, flags: DaemonFlags): string {
  const folder = workspaceFolder(context, flags.path);
  const daemon = findDaemon(folder);
  const url = daemon && daemonUrlOfInfo(daemon);
  if (url) return url;
  // A folder that was named has no daemon: the one on the default port belongs to another.
  if (flags.path || context.env.SIGNET_PATH) throw new CliExit(EXIT.failure, `no daemon runs on ${folder}; start it with: signet start`);
  return serverUrl('127.0.0.1', context.env.SIGNET_PORT || DEFAULT_DAEMON_PORT);
}
