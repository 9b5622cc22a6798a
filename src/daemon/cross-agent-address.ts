import type { LookupAddress } from 'node:dns';
import { lookup as resolveName } from 'node:dns/promises';
import { isIP } from 'node:net';
import { addressKind } from '../core/address-kind.ts';

export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

export const resolveAll: Resolve = (host) => resolveName(host, { all: true });

/**
 * May a host of the allow-list be called at this address? Written as a number it allows that very address, `localhost` this machine; any
 * other name is somebody else's to change, and so leads to public addresses only.
 */
export function mayCall(host: string, address: string): boolean {
  const kind = addressKind(address);
  if (kind === 'public') return host !== 'localhost';
  if (kind === 'forbidden') return false;
  if (host === 'localhost') return kind === 'loopback';
  return isIP(host) !== 0;
}
