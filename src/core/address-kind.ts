import { BlockList, isIP } from 'node:net';

/**
 * Kinds of addresses, by whom they lead to. `forbidden` is never called: link-local addresses, where clouds keep the credentials of
 * machines, and all that leads to no single host.
 */
export type AddressKind = 'public' | 'loopback' | 'private' | 'forbidden';

const subnets = (family: 'ipv4' | 'ipv6', list: readonly string[]): BlockList => {
  const blocks = new BlockList();
  for (const entry of list) {
    const [net, prefix] = entry.split('/');
    blocks.addSubnet(net!, Number(prefix), family);
  }
  return blocks;
};

// https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry
const LOOPBACK_4 = subnets('ipv4', ['127.0.0.0/8']);
const PRIVATE_4 = subnets('ipv4', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10']);
const FORBIDDEN_4 = subnets('ipv4', [
  '0.0.0.0/8',
  '100.100.100.200/32',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]);
const LOOPBACK_6 = subnets('ipv6', ['::1/128']);
const PRIVATE_6 = subnets('ipv6', ['fc00::/7']);
/** Of what is given to hosts at all, the parts that are not: tunnels, which hide an IPv4 address, and documentation. */
const GLOBAL_6 = subnets('ipv6', ['2000::/3']);
const FORBIDDEN_6 = subnets('ipv6', ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']);
/** Where Amazon keeps the credentials of machines; inside of what is private otherwise. */
const METADATA_6 = subnets('ipv6', ['fd00:ec2::/32']);
/** An IPv4 address in an IPv6 one, as the URL parser writes it: mapped, or behind a translator. */
const EMBEDDED_4 = /^(?:::ffff:|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

export function addressKind(address: string): AddressKind {
  const family = isIP(address);
  if (family === 4) return kindOf4(address);
  if (family !== 6 || address.includes('%')) return 'forbidden';
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const embedded = EMBEDDED_4.exec(plain);
  if (embedded) return kindOf4(dotted(embedded[1]!, embedded[2]!));
  if (LOOPBACK_6.check(plain, 'ipv6')) return 'loopback';
  if (METADATA_6.check(plain, 'ipv6')) return 'forbidden';
  if (PRIVATE_6.check(plain, 'ipv6')) return 'private';
  return GLOBAL_6.check(plain, 'ipv6') && !FORBIDDEN_6.check(plain, 'ipv6') ? 'public' : 'forbidden';
}

function kindOf4(address: string): AddressKind {
  if (FORBIDDEN_4.check(address)) return 'forbidden';
  if (LOOPBACK_4.check(address)) return 'loopback';
  return PRIVATE_4.check(address) ? 'private' : 'public';
}

function dotted(high: string, low: string): string {
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [a >> 8, a & 255, b >> 8, b & 255].join('.');
}
