import type { LookupAddress, LookupAllOptions } from 'node:dns';
import { lookup as resolveName } from 'node:dns/promises';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { addressKind } from '../core/address-kind.ts';
import { AppError } from '../core/errors.ts';

/** How long a name may take to resolve when a tool is registered, in ms. */
const RESOLVE_TIMEOUT_MS = 5_000;

export type ResolveAll = (host: string, options: LookupAllOptions) => Promise<LookupAddress[]>;

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
  const isAddress = isIP(host) !== 0;
  // An allow-listed name need not resolve yet; calls look at its addresses.
  if (isAllowed(host, allowedHosts)) return isAddress ? requireFitting(host, [host], true) : undefined;
  const addresses = isAddress ? [{ address: host }] : await resolve(host);
  requireFitting(
    host,
    addresses.map(({ address }) => address),
    false,
  );
}

/**
 * Allow-listing takes a host as another machine, but not where clouds keep the credentials of machines.
 *
 * @throws AppError `invalid_request`
 */
export function requireFitting(host: string, addresses: readonly string[], mayBeAnywhere: boolean): void {
  const foreign = addresses.find((address) => !isLoopback(address) && !(mayBeAnywhere && addressKind(address) !== 'forbidden'));
  if (foreign !== undefined) throw refused(mayBeAnywhere ? forbiddenHost(host, foreign) : foreignHost(host, foreign));
}

/**
 * The resolver of a call: the address that is checked is the address that is used, so a name cannot turn into another machine, or one
 * that is allow-listed into a forbidden address, in between.
 */
export function checkedLookup(mayBeAnywhere: boolean, resolveAll: ResolveAll = resolveName): LookupFunction {
  return (host, options, callback) => {
    const { family, hints } = options;
    resolveAll(host, { family: family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : family, hints, all: true }).then(
      (addresses) => {
        try {
          requireFitting(
            host,
            addresses.map(({ address }) => address),
            mayBeAnywhere,
          );
        } catch (error) {
          return callback(error as Error, '');
        }
        if (options.all) return callback(null, addresses);
        callback(null, addresses[0]!.address, addresses[0]!.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    );
  };
}

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

function forbiddenHost(host: string, address: string): string {
  const shown = host === address ? address : `${host} (${address})`;
  return `callback host ${shown} is a link-local, metadata or reserved address: no tool is called there, also when the host is allowed`;
}

function foreignHost(host: string, address: string): string {
  const shown = host === address ? address : `${host} (${address})`;
  return `callback host ${shown} is not on this machine; use a loopback address, or allow the host in the configuration`;
}

function refused(detail: string): AppError {
  return new AppError('invalid_request', { detail, errors: [{ pointer: '/callback/url', detail }] });
}
