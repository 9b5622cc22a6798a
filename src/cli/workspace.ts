import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { serverUrl } from '../client/adapter.ts';
import { createRuntimeClient, type RuntimeClient } from '../client/runtime-client.ts';
import { socketPath } from '../http/unix-socket.ts';
import { readLocalToken } from '../store/local-token.ts';
import { type DaemonInfo, readDaemonInfo } from '../store/workspace-lock.ts';
import { type CliContext, CliExit, EXIT } from './context.ts';
import { createSocketFetch } from './socket-fetch.ts';

const DEFAULT_RUNTIME_PORT = '7700';
const DEFAULT_FOLDER = '.agents';

/** Where clients look for the runtime; flags come before the environment. */
export interface AddressFlags {
  readonly url?: string;
  readonly path?: string;
}

export interface RuntimeAddress {
  readonly url: string;
  /** By --url or SIGNET_RUNTIME_URL: what answers there is not ours to start. */
  readonly given: boolean;
}

/** The data folder: --path, SIGNET_PATH, else ~/.agents. Absolute. */
export function workspaceFolder(context: CliContext, path?: string): string {
  return resolve(context.cwd, path || context.env.SIGNET_PATH || join(context.env.HOME || homedir(), DEFAULT_FOLDER));
}

export function outputFile(folder: string): string {
  return join(folder, '.daemon', 'logs', 'daemon.out');
}

/** The daemon that runs on a folder, null when none does: a killed one leaves its file behind. */
export function findDaemon(folder: string): DaemonInfo | null {
  const info = readDaemonInfo(folder);
  return info && isAlive(info.pid) ? info : null;
}

/** Null when the named folder has no daemon: the one on the default port belongs to another. */
export function findRuntime(context: CliContext, flags: AddressFlags): RuntimeAddress | null {
  const given = flags.url || context.env.SIGNET_RUNTIME_URL;
  if (given) return { url: given, given: true };
  const daemon = findDaemon(workspaceFolder(context, flags.path));
  const url = daemon && runtimeUrlOf(daemon);
  if (url) return { url, given: false };
  if (flags.path || context.env.SIGNET_PATH) return null;
  return { url: serverUrl('127.0.0.1', context.env.SIGNET_RUNTIME_PORT || DEFAULT_RUNTIME_PORT), given: false };
}

/** Where the runtime of a daemon answers; null while its port is not bound. */
export function runtimeUrlOf({ host, runtimeHost = host, runtimePort, tls }: DaemonInfo): string | null {
  return runtimePort ? serverUrl(tls?.name ?? runtimeHost, runtimePort, tls ? 'https' : 'http') : null;
}

/** Where the daemon itself answers; null while its port is not bound, or when it is elsewhere. */
export function daemonUrlOfInfo({ host, port, tls }: DaemonInfo): string | null {
  return port ? serverUrl(tls?.name ?? host, port, tls ? 'https' : 'http') : null;
}

/** The certificate of the daemon that runs on the data folder is trusted, also one that no authority has signed. */
export function trustOwn(context: CliContext, url: string, path?: string): void {
  if (!url.startsWith('https:')) return;
  const daemon = findDaemon(workspaceFolder(context, path));
  if (!daemon?.tls || ![daemonUrlOfInfo(daemon), runtimeUrlOf(daemon)].includes(url.replace(/\/+$/, ''))) return;
  try {
    setDefaultCACertificates([...getCACertificates('default'), readFileSync(daemon.tls.cert, 'utf8')]);
  } catch {
    /* The file is for others to read, or gone: the call itself says that the certificate is not trusted. */
  }
}

/** SIGNET_TOKEN, else the token of the daemon that runs on the data folder; that one goes to no other address. */
export function tokenFor(context: CliContext, url: string, path?: string): string | undefined {
  if (context.env.SIGNET_TOKEN) return context.env.SIGNET_TOKEN;
  const folder = workspaceFolder(context, path);
  const daemon = findDaemon(folder);
  if (!daemon || ![daemonUrlOfInfo(daemon), runtimeUrlOf(daemon)].includes(url.replace(/\/+$/, ''))) return undefined;
  return readLocalToken(folder);
}

/** How to call the daemon that runs on the data folder over its sockets, when it has them; undefined for any other address. */
export function socketFetchFor(context: CliContext, url: string, path?: string): { fetch?: typeof fetch } {
  const folder = workspaceFolder(context, path);
  const daemon = findDaemon(folder);
  if (!daemon?.socket) return {};
  const called = url.replace(/\/+$/, '');
  if (called === daemonUrlOfInfo(daemon)) return { fetch: createSocketFetch(socketPath(folder, 'daemon')) };
  if (called === runtimeUrlOf(daemon)) return { fetch: createSocketFetch(socketPath(folder, 'runtime')) };
  return {};
}

export function clientAt(context: CliContext, url: string, path?: string): RuntimeClient {
  if (!/^https?:\/\//.test(url)) throw new CliExit(EXIT.usage, `the runtime's address must begin with http:// or https://, not ${url}`);
  trustOwn(context, url, path);
  return createRuntimeClient({
    baseUrl: url,
    token: tokenFor(context, url, path),
    actor: 'signet-cli',
    ...socketFetchFor(context, url, path),
  });
}

/** A client for commands that need a running runtime; they fail with `daemon_unreachable` when it does not answer. */
export function requireClient(context: CliContext, flags: AddressFlags): RuntimeClient {
  const address = findRuntime(context, flags);
  if (address) return clientAt(context, address.url, flags.path);
  throw new CliExit(EXIT.failure, `no daemon runs on ${workspaceFolder(context, flags.path)}; start it with: signet start`);
}

/** Does a process of this id run? A zombie has ended, although signal 0 still reaches it until its parent looks. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true; // No /proc on this system, or it went away just now: the next look will tell.
  }
}
