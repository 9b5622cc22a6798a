import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { Settings } from './config.ts';
import { isLoopbackName } from './contract/loopback.ts';
import { VERSION } from './contract/version.ts';
import { AppError } from './core/errors.ts';
import type { Logger } from './core/logger.ts';
import type { HttpAddress } from './http/server.ts';
import type { OpenedAuth } from './open-auth.ts';

interface Servers {
  readonly daemon: HttpAddress;
  readonly runtime: HttpAddress;
}

interface ServerParts {
  readonly host: string;
  readonly auth: OpenedAuth;
  readonly log: Logger;
  readonly title: string;
}

export function serverOptions({ loaded, tls }: Settings, { host, auth, log, title }: ServerParts) {
  const { allowedHosts, allowedOrigins: origins } = loaded.config.daemon;
  // The address it is bound to is no name that somebody else's could turn into.
  const hosts = isIP(host) ? [...allowedHosts, host.includes(':') ? `[${host}]` : host] : allowedHosts;
  return { security: { hosts, origins, ...auth.security }, title, version: VERSION, log, tls: tls ? readTls(tls) : undefined };
}

/** @throws AppError `config_invalid` naming the file */
function readTls({ cert, key }: NonNullable<Settings['tls']>): { cert: string; key: string } {
  const read = (field: string, path: string): string => {
    try {
      return readFileSync(path, 'utf8');
    } catch (cause) {
      throw new AppError('config_invalid', { detail: `server.tls.${field}: ${path} cannot be read; check path and permissions`, cause });
    }
  };
  const pair = { cert: read('cert', cert), key: read('key', key) };
  try {
    createSecureContext(pair);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const detail = `server.tls: ${cert} and ${key} are no certificate with its key (${why}); give both as PEM`;
    throw new AppError('config_invalid', { detail, cause });
  }
  return pair;
}

/** Servers that other machines reach, as `name url`. */
export function openServers({ daemon, runtime }: Servers): string[] {
  return [
    { name: 'daemon', address: daemon },
    { name: 'runtime', address: runtime },
  ].flatMap(({ name, address }) => (isLoopbackName(address.host) ? [] : [`${name} ${address.url}`]));
}

/** A server that other machines reach is said to be open, with what protects it. */
export function warnOfOpen({ tls, authMode, role }: Settings, { daemon, runtime }: Servers, log: Logger): void {
  // A daemon elsewhere is not ours.
  const open = openServers({ daemon: role === 'runtime' ? { ...daemon, host: '127.0.0.1' } : daemon, runtime });
  if (open.length === 0) return;
  const message = tls
    ? 'other machines can reach this'
    : 'other machines can reach this, and tokens cross the network in clear: set server.tls';
  log.warn({ open, authMode, tls: tls !== null }, message);
}
