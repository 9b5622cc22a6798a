import type { LookupAddress } from 'node:dns';
import { lookup as resolveName } from 'node:dns/promises';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { AppError } from '../core/errors.ts';

/** How long a name may take to resolve when a tool is registered, in ms. */
const RESOLVE_TIMEOUT_MS = 5_000;

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');

/** Host name of a URL as a resolver takes it: lower case, an IPv6 address without its brackets. */
export function hostOf(url: URL): string {
  return url.hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1');
}

/** An IPv4 address written as IPv6 counts as what it is. */
export function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

export function isAllowed(host: string, allowedHosts: readonly string[]): boolean {
  return allowedHosts.some((allowed) => allowed.toLowerCase() === host);
}

/**
 * Refuse a callback that calls could not use, while somebody is there to read why. Calls check again: a name may resolve to another address by then.
 *
 * @throws AppError `invalid_request`: an address that is neither loopback nor allow-listed, a user in the URL, a name that does not resolve
 */
export async function requireCallbackHost(url: URL, allowedHosts: readonly string[]): Promise<void> {
  const host = hostOf(url);
  if (url.username !== '' || url.password !== '') throw refused('a callback URL must not hold a user or password');
  if (isAllowed(host, allowedHosts)) return;
  const addresses = isIP(host) ? [{ address: host }] : await resolve(host);
  const foreign = addresses.find(({ address }) => !isLoopback(address));
  if (foreign) throw refused(foreignHost(host, foreign.address));
}

/**
 * The resolver of a call to a host that is not allow-listed: the address that is checked is the address that is used, so a name
 * cannot turn from loopback into another machine in between.
 */
export const lookupLoopback: LookupFunction = (host, options, callback) => {
  const { family, hints } = options;
  resolveName(host, { family: family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family, hints, all: true }).then(
    (addresses) => {
      const foreign = addresses.find(({ address }) => !isLoopback(address));
      if (foreign) return callback(refused(foreignHost(host, foreign.address)), '');
      if (options.all) return callback(null, addresses);
      callback(null, addresses[0]!.address, addresses[0]!.family);
    },
    (error: NodeJS.ErrnoException) => callback(error, ''),
  );
};

async function resolve(host: string): Promise<LookupAddress[]> {
  // The system's resolver takes no signal; its late answer is of no interest.
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no answer within ${RESOLVE_TIMEOUT_MS} ms`)), RESOLVE_TIMEOUT_MS);
  try {
    return await Promise.race([resolveName(host, { all: true }), late.promise]);
  } catch (error) {
    throw refused(`host ${host} does not resolve: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    clearTimeout(timer);
  }
}

function foreignHost(host: string, address: string): string {
  const shown = host === address ? address : `${host} (${address})`;
  return `callback host ${shown} is not on this machine; use a loopback address, or allow the host in the configuration`;
}

function refused(detail: string): AppError {
  return new AppError('invalid_request', { detail, errors: [{ pointer: '/callback/url', detail }] });
}
