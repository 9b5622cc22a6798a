import { describe, expect, test } from 'vitest';
import { AgentYaml } from '../../src/contract/config.ts';
import { addressKind } from '../../src/core/address-kind.ts';
import { mayCall } from '../../src/daemon/cross-agent-address.ts';

test.each([
  ['93.184.216.34', 'public'],
  ['2606:2800:220:1:248:1893:25c8:1946', 'public'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['::1', 'loopback'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['64:ff9b::7f00:1', 'loopback'],
  ['10.1.2.3', 'private'],
  ['172.31.255.255', 'private'],
  ['192.168.0.1', 'private'],
  ['100.64.0.1', 'private'],
  ['fd12:3456::1', 'private'],
  ['::ffff:10.0.0.1', 'private'],
  ['64:ff9b::0a00:0001', 'private'],
  ['169.254.169.254', 'forbidden'],
  ['::ffff:169.254.169.254', 'forbidden'],
  ['100.100.100.200', 'forbidden'],
  ['fd00:ec2::254', 'forbidden'],
  ['fe80::1', 'forbidden'],
  ['fe80::1%eth0', 'forbidden'],
  ['0.0.0.0', 'forbidden'],
  ['::', 'forbidden'],
  ['::127.0.0.1', 'forbidden'],
  ['224.0.0.1', 'forbidden'],
  ['255.255.255.255', 'forbidden'],
  ['192.0.2.1', 'forbidden'],
  ['ff02::1', 'forbidden'],
  ['2002:7f00:1::', 'forbidden'],
  ['2001:db8::1', 'forbidden'],
  ['2001:0:7f00:1::', 'forbidden'],
  ['64:ff9b:1::1', 'forbidden'],
  ['not an address', 'forbidden'],
  ['', 'forbidden'],
])('%s is %s', (address, kind) => {
  expect(addressKind(address)).toBe(kind);
});

test.each([
  ['agents.example.com', '93.184.216.34', true],
  ['agents.example.com', '127.0.0.1', false],
  ['agents.example.com', '192.168.0.1', false],
  ['agents.example.com', '169.254.169.254', false],
  ['localhost', '127.0.0.1', true],
  ['localhost', '::1', true],
  ['localhost', '192.168.0.1', false],
  ['localhost', '93.184.216.34', false],
  ['127.0.0.1', '127.0.0.1', true],
  ['192.168.0.7', '192.168.0.7', true],
  ['169.254.169.254', '169.254.169.254', false],
])('allowed as %s, %s may be called: %s', (host, address, expected) => {
  expect(mayCall(host, address)).toBe(expected);
});

describe('the allow-list takes', () => {
  const parse = (origin: string) => AgentYaml.safeParse({ crossAgent: { acp: { allowedOrigins: [origin] } } }).success;

  test.each([
    'https://agents.example.com',
    'https://agents.example.com:8443',
    'http://localhost:8000',
    'http://127.0.0.1:8000',
    'http://[::1]:8000',
  ])('%s', (origin) => expect(parse(origin)).toBe(true));

  test.each([
    'http://agents.example.com',
    'agents.example.com',
    'https://agents.example.com/path',
    'https://user:pw@agents.example.com',
    '*',
    'ftp://127.0.0.1',
  ])('not %s', (origin) => expect(parse(origin)).toBe(false));
});
