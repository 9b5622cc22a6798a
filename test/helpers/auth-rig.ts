import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { NewToken } from '../../src/contract/tokens.ts';
import { type Answer, call } from '../conformance/calls.ts';
import { type Signet, type SignetOptions, startSignet } from './signet.ts';

/** An address of TEST-NET-1, for machines without a network. */
const TEST_ADDRESS = '192.0.2.77';

export interface AuthRig extends Signet {
  /** The admin token of this start, as the commands find it. */
  readonly localToken: string;
  /** A call with a token, or without any. */
  ask(method: string, url: string, token?: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Made by the operation. */
  makeToken(request: Partial<NewToken>): Promise<{ readonly id: string; readonly token: string }>;
}

/** Signet in a mode that asks for tokens; gone when the test is over. */
export async function startGuarded(yaml: string, options: SignetOptions = {}): Promise<AuthRig> {
  const signet = await startSignet({ yaml: `secrets: { keyring: false }\n${yaml}`, ...options });
  onTestFinished(() => signet.close());
  const localToken = readFileSync(join(signet.folder, '.daemon', 'local-token'), 'utf8').trim();
  const ask: AuthRig['ask'] = (method, url, token, body, headers = {}) =>
    call(method, url, body, { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...headers });
  return {
    ...signet,
    localToken,
    ask,
    makeToken: async (request) => {
      const { status, body } = await ask('POST', `${signet.daemonUrl}/api/tokens`, localToken, { name: 'test', ...request });
      if (status !== 201) throw new Error(`no token: ${JSON.stringify(body)}`);
      return body;
    },
  };
}

/** An address of this machine that is not loopback: a server sees a caller from elsewhere. Undefined where there is none and none can be made. */
export function outsideAddress(): string | undefined {
  const find = () =>
    Object.values(networkInterfaces())
      .flat()
      .find((address) => address && !address.internal && address.family === 'IPv4')?.address;
  const found = find();
  if (found !== undefined || process.getuid?.() !== 0) return found;
  // TEST-NET-1, never routed: on the loopback device it is an address like any other.
  const added = spawnSync('ip', ['address', 'add', `${TEST_ADDRESS}/32`, 'dev', 'lo']);
  return added.status === 0 ? TEST_ADDRESS : undefined;
}
